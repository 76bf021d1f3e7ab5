"""The Plan that an offer makes.

    commands = planned_commands(config.spec.get("planSpec"), answer)
    tree = plan_tree(config, answer, commands, before)

Version and downloads come from the channel, targets and rollout from ``planSpec``; without one every machine
is a target. Its id is the time of the check, so that the same answer always makes the same Plan. The window
of the UpdateConfig is one of the Plan's: nothing begins after it has closed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pilothouse.api.k0s.upgrade_strategies import window_of
from pilothouse.api.k0s.v1beta2 import RUNNING_PLAN
from pilothouse.api.kind_names import Plan
from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import parse_time

_EVERY: Tree = {"discovery": {"selector": {}}}


class NotOffered(ValueError):
    """The channel lacks what the plan needs."""


def planned_commands(planned: Mapping[str, Any] | None, answer: Mapping[str, Any]) -> list[Tree]:
    """The commands of the Plan, without empty ones. Raises NotOffered."""
    commands = [
        _command(one, answer)
        for one in (planned or {}).get("commands") or ()
        if "k0supdate" in one or "airgapupdate" in one
    ]
    return commands or [_command({"k0supdate": {}}, answer)]


def plan_tree(config: Object, answer: Mapping[str, Any], commands: list[Tree], before: Object | None) -> Tree:
    """The Plan, in place of the one before. Aborting that one ends with it: the next one is to run."""
    moment = str(int(parse_time(answer["time"])))
    spec: Tree = {"id": moment, "timestamp": moment, "commands": commands}
    rollout = _rollout(config)
    if before is not None and before.at("spec", "rollout", "aborted"):
        rollout.setdefault("aborted", False)
    if rollout:
        spec["rollout"] = rollout
    return {
        "apiVersion": Plan.api_version,
        "kind": Plan.kind,
        "metadata": {"name": RUNNING_PLAN},
        "spec": spec,
    }


def _command(planned: Mapping[str, Any], answer: Mapping[str, Any]) -> Tree:
    command: Tree = {}
    if (update := planned.get("k0supdate")) is not None:
        command["k0supdate"] = {
            "version": answer["version"],
            "platforms": _platforms(answer, "k0s", "program"),
            "targets": update.get("targets") or {"controllers": _EVERY, "workers": _EVERY},
            **({"forceupdate": True} if update.get("forceupdate") else {}),
        }
    if (bundle := planned.get("airgapupdate")) is not None:
        command["airgapupdate"] = {
            "version": answer["version"],
            "platforms": _platforms(answer, "airgap", "bundle"),
            "workers": bundle.get("workers") or _EVERY,
        }
    return command


def _platforms(answer: Mapping[str, Any], field: str, noun: str) -> Tree:
    found = {
        download["platform"]: dict(download[field])
        for download in answer.get("downloads") or ()
        if download.get(field)
    }
    if not found:
        raise NotOffered(f"the channel offers {answer['version']} without a {noun} for any platform")
    return found


def _rollout(config: Object) -> Tree:
    rollout = dict((config.spec.get("planSpec") or {}).get("rollout") or {})
    window = window_of(config.spec.get("upgradeStrategy") or {})
    if window is not None:
        windows = list(rollout.get("windows") or ())
        rollout["windows"] = windows if window in windows else [*windows, dict(window)]
    return rollout
