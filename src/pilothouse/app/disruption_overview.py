"""The composition of ``pilothouse disruptions``: a connection, and ``diagnosis``."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pilothouse.api.kind_names import Pod, PodDisruptionBudget
from pilothouse.base.clock import SystemClock
from pilothouse.client.access import Access
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.diagnosis.disruption_report import BudgetReport, as_table, budget_reports


async def report_disruptions(access: Access, namespace: str) -> list[BudgetReport]:
    """The budgets of a namespace, or of all. Raises ``StatusError``, ``TransportError``."""
    async with HttpTransport.open(access, SystemClock(), agent="pilothouse-disruptions") as transport:
        api = Api(transport, random.Random(), manager="pilothouse-disruptions", wait_for_server=False)
        budgets = await api.list(PodDisruptionBudget, namespace)
        pods = await api.list(Pod, namespace)
        return budget_reports(budgets.objects, pods.objects)


def show_disruptions(reports: Sequence[BudgetReport]) -> str:
    """The reports as a table, with ages up to this moment."""
    return as_table(reports, now=SystemClock().now())
