"""The policies of Postgres. Metrics are named as ``prometheus-postgres-exporter`` of Debian names them.

The time of WAL syncs is not among those that the exporter has by itself: it takes it from a file of queries,
which is in ``docs/policies.md``.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage.actions import MOVE, SET_IOPS
from pilothouse.api.policies.device_metrics import SOURCE, disk_busy, limit_used, own_writes
from pilothouse.api.policies.policy_module import (
    MetricSource,
    PolicyModule,
    PolicyTemplate,
    RuleFields,
    Values,
)
from pilothouse.api.policies.policy_parameters import PolicyParameter, quoted, whole_seconds
from pilothouse.api.policies.quiet_volume import QUIET_VOLUME
from pilothouse.api.policies.rule_fields import action, candidate, conditions, expression, rule
from pilothouse.api.policies.volume_policies import SIZES, grown, time_to_full, volume_resize

EXPORTER: Final = "prometheus-postgres-exporter"
_NOTHING: Final = "0 * pg_up"
"""Zero for an instance of which there is no other series: nothing is read, or there are no slots."""
_STATEMENT: Final = 'max without (datname, state, server) (pg_stat_activity_max_tx_duration{state="active"})'
"""How long the oldest statement that is running has taken, or its transaction, in seconds."""
_HEAVIER: Final = 100


def _read_latency(span: str) -> str:
    read = f"rate(pg_stat_database_blks_read[{span}]) > 0"
    return f"rate(pg_stat_database_blk_read_time[{span}]) / ({read}) / 1000 or {_NOTHING}"


def _sync_latency(span: str) -> str:
    synced = f"rate(pg_stat_wal_wal_sync[{span}]) > 0"
    return f"rate(pg_stat_wal_wal_sync_time[{span}]) / ({synced}) / 1000 or {_NOTHING}"


def _slow_volume(values: Values) -> RuleFields:
    latency, span, statement = values["latency"], whole_seconds(values["window"]), values["statement"]
    idle = expression(disk_busy(span), "Lt", values["idle"], on="device")
    raised = action(
        SET_IOPS,
        classes=values["classes"],
        step="up" if values["classes"] else "",
        scalepercentage="" if values["classes"] else values["scalepercentage"],
        maxiops="" if values["classes"] else values["maxiops"],
    )
    at_limit = (
        candidate(
            f"{side}s-at-the-limit",
            expression(limit_used(side, span), "GtEq", values["limit"]),
            idle,
            actions=(raised,),
        )
        for side in ("read", "write")
    )
    others = candidate(
        "disk-busy-with-others",
        expression(disk_busy(span), "GtEq", values["busy"], on="device"),
        expression(own_writes(span), "Lt", values["ownwrites"], on="device"),
        actions=(action(MOVE, tier=values["tier"]),),
    )
    slow = conditions(
        expression(_read_latency(span), "Gt", latency),
        expression(_sync_latency(span), "Gt", latency),
        *((expression(_STATEMENT, "Gt", statement),) if statement else ()),
        # Until rates are those of this load alone.
        hold=int(values["window"].number),
        required=1,
    )
    return rule(slow, object="volume", candidates=(*at_limit, others), actionsCoolDownPeriod=600)


def _wal_held(values: Values) -> RuleFields:
    slots = f"{{slot_name={quoted(values['slot'].text)}}}" if values["slot"] else ""
    held = f"(pg_replication_slots_pg_wal_lsn_diff{slots} and pg_replication_slots_active == 0) or {_NOTHING}"
    span = whole_seconds(values["failing"])
    failed = (
        f"increase(pg_stat_archiver_failed_count[{span}])"
        f" unless increase(pg_stat_archiver_archived_count[{span}]) > 0"
        f" or {_NOTHING}"
    )
    keeps = conditions(
        expression(held, "Gt", values["held"]), expression(failed, "Gt", "0"), hold=60, required=1
    )
    return rule(keeps, object="volume", actions=(grown(values),), weight=_HEAVIER)


_SLOW_VOLUME: Final = PolicyTemplate(
    name="slow-volume",
    summary="Finds out why reads or WAL syncs of Postgres are slow: gives a volume at its limit more IOPS, "
    "moves one whose disk is busy with others, and declines if the volume is not the cause.",
    parameters=(
        PolicyParameter(
            "latency", "duration", "How slow a read or a WAL sync is too slow.", "25ms", "100us", "10s"
        ),
        PolicyParameter(
            "statement",
            "duration",
            "How long a statement may run before its cause is looked for, too; not looked at by default.",
            least="1s",
            most="24h",
        ),
        PolicyParameter(
            "window",
            "duration",
            "Over which time rates are computed, and it has to be slow.",
            "2m",
            "30s",
            "1h",
        ),
        PolicyParameter(
            "limit",
            "percentage",
            "The part of its limit from which on a volume counts as at the limit.",
            "90",
            "50",
            "100",
        ),
        PolicyParameter(
            "idle", "percentage", "A disk that is busy for less of the time counts as idle.", "50", "1", "99"
        ),
        PolicyParameter(
            "busy", "percentage", "A disk that is busy for more of the time counts as busy.", "80", "1", "100"
        ),
        PolicyParameter(
            "ownwrites",
            "percentage",
            "Up to which part of the disk's writes the volume's own are not the cause.",
            "50",
            "1",
            "100",
        ),
        PolicyParameter("classes", "text", "VolumeAttributesClasses, the slowest first, to step up along."),
        PolicyParameter(
            "scalepercentage", "percentage", "By how much IOPS rise without classes.", "50", "1", "1000"
        ),
        PolicyParameter("maxiops", "count", "Up to how many IOPS without classes.", "20000", "1"),
        PolicyParameter("tier", "text", "The tier to move to.", "fast"),
    ),
    sources=(
        MetricSource(EXPORTER, ("pg_up", "pg_stat_database_blk_read_time", "pg_stat_database_blks_read")),
        MetricSource(EXPORTER, ("pg_stat_activity_max_tx_duration",), optional=True),
        MetricSource(
            f"{EXPORTER} with a file of queries",
            ("pg_stat_wal_wal_sync_time", "pg_stat_wal_wal_sync"),
            optional=True,
        ),
        SOURCE,
    ),
    build=_slow_volume,
)
_WAL_HELD: Final = PolicyTemplate(
    name="wal-held",
    summary="Asks before a volume grows whose WAL is kept by an idle replication slot or a failing archiver: "
    "growing would hide it.",
    parameters=(
        PolicyParameter("held", "quantity", "How much WAL an idle slot may keep.", "1Gi", "1Mi"),
        PolicyParameter("failing", "duration", "How long the archiver may fail.", "10m", "2m", "24h"),
        PolicyParameter("slot", "text", "The only slot to look at; all, if it is not set."),
        *SIZES,
    ),
    sources=(
        MetricSource(
            EXPORTER,
            (
                "pg_up",
                "pg_replication_slots_active",
                "pg_replication_slots_pg_wal_lsn_diff",
                "pg_stat_archiver_archived_count",
                "pg_stat_archiver_failed_count",
            ),
        ),
    ),
    enforcement="approvalRequired",
    asks=True,
    build=_wal_held,
)
POSTGRES_POLICIES: Final = PolicyModule(
    name="postgres",
    summary="Postgres",
    policies=(volume_resize(), time_to_full(), _SLOW_VOLUME, QUIET_VOLUME, _WAL_HELD),
    tried=f"slow-volume, quiet-volume, wal-held: a real Postgres with {EXPORTER}; others: series in its form",
)
