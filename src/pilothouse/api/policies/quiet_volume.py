"""``quiet-volume``: takes IOPS back that a volume does not use.

It is lighter than the policies that raise them: while one of these acts on a volume, it waits.
"""

from __future__ import annotations

from typing import Final

from pilothouse.api.openstorage.actions import SET_IOPS
from pilothouse.api.policies.device_metrics import SOURCE, limit_used
from pilothouse.api.policies.policy_module import PolicyTemplate, RuleFields, Values
from pilothouse.api.policies.policy_parameters import PolicyParameter, whole_seconds
from pilothouse.api.policies.rule_fields import action, conditions, expression, rule

_LIGHTER: Final = -100


def _quiet_volume(values: Values) -> RuleFields:
    classes, span = values["classes"], whole_seconds(values["window"])
    lowered = action(
        SET_IOPS,
        classes=classes,
        step="down" if classes else "",
        scalepercentage="" if classes else f"-{values['scalepercentage'].text}",
        miniops="" if classes else values["miniops"],
    )
    sides = (expression(limit_used(side, span), "Lt", values["used"]) for side in ("read", "write"))
    quiet = conditions(*sides, hold=int(values["for"].number))
    return rule(quiet, object="volume", actions=(lowered,), weight=_LIGHTER, actionsCoolDownPeriod=3600)


QUIET_VOLUME: Final = PolicyTemplate(
    name="quiet-volume",
    summary="Gives a volume fewer IOPS that has used a small part of its limit for long.",
    parameters=(
        PolicyParameter("used", "percentage", "Below which part of its limit it is quiet.", "30", "1", "80"),
        PolicyParameter("for", "duration", "For how long.", "1h", "1m", "24h"),
        PolicyParameter("classes", "text", "VolumeAttributesClasses, the slowest first, to step down along."),
        PolicyParameter(
            "scalepercentage", "percentage", "By how much IOPS fall without classes.", "33", "1", "90"
        ),
        PolicyParameter("miniops", "count", "Down to how many IOPS without classes.", "100", "1"),
        PolicyParameter("window", "duration", "Over which time rates are computed.", "5m", "30s", "1h"),
    ),
    sources=(SOURCE,),
    build=_quiet_volume,
)
