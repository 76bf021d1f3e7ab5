"""Every namespace has a service account ``default``, for the pods that name none."""

from __future__ import annotations

from collections.abc import Iterator

from pilothouse.api.kind_names import Namespace, ServiceAccount
from pilothouse.api.objects import Object
from pilothouse.runtime.controller import Names, controller
from pilothouse.runtime.intents import Create, Intent
from pilothouse.runtime.snapshot import Snapshot

NAME = "default"


def its_namespace(account: Object, world: Snapshot) -> Names:
    """The namespace of a service account, which may have been deleted."""
    if account.name == NAME:
        yield "", account.namespace


@controller(Namespace, also={ServiceAccount: its_namespace}, standalone=True)
def service_accounts(namespace: Object, world: Snapshot) -> Iterator[Intent]:
    """Create the default service account of a namespace."""
    if namespace.deleting or world.find(ServiceAccount, namespace.name, NAME) is not None:
        return
    yield Create(
        {
            "apiVersion": ServiceAccount.api_version,
            "kind": ServiceAccount.kind,
            "metadata": {"name": NAME, "namespace": namespace.name},
        },
        because=f"the namespace {namespace.name} has no service account {NAME!r}",
    )
