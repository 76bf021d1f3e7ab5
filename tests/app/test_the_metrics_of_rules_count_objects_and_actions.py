"""``autopilot_metrics``: what the page says about rules, their objects and their actions."""

from __future__ import annotations

from typing import Any

from pilothouse.api.kind_names import ApplicationAction, AutopilotRule, AutopilotRuleObject, KindName
from pilothouse.api.objects import Object, Tree
from pilothouse.app.autopilot_metrics import RuleTotals, scrape_families
from pilothouse.base.rfc3339 import format_time
from pilothouse.client.object_cache import CacheChange
from pilothouse.rules.providers.embedded import ScrapeCounts

RESIZE = "openstorage.io.action.volume/resize"


def shown(totals: RuleTotals, errors: int = 0) -> dict[str, float]:
    lines = "".join(totals.families(errors)).splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def made(noun: KindName, name: str, **fields: Any) -> Object:
    metadata: Tree = {"name": name, **fields.pop("metadata", {})}
    return Object.of({"apiVersion": noun.api_version, "kind": noun.kind, "metadata": metadata, **fields})


def rule(name: str) -> Object:
    return made(AutopilotRule, name, spec={"actions": [{"name": RESIZE}]})


def record(rule: str, uid: str, state: str, kind: str = "PersistentVolumeClaim") -> Object:
    owner = {"kind": "AutopilotRule", "name": rule, "uid": rule, "controller": True}
    status = {"state": state, "object": {"kind": kind, "name": "data", "uid": uid}}
    name = f"pvc-{uid}-{rule}"
    return made(AutopilotRuleObject, name, metadata={"ownerReferences": [owner]}, status=status)


def action(phase: str, uid: str = "c1", seconds: float | None = None) -> Object:
    spec = {"rule": "grow", "action": RESIZE, "object": {"kind": "PersistentVolumeClaim", "uid": uid}}
    status: Tree = {"phase": phase}
    if seconds is not None:
        status |= {"startTime": format_time(1000), "completionTime": format_time(1000 + seconds)}
    return made(ApplicationAction, "grow-1", spec=spec, status=status)


def test_objects_are_counted_by_action_and_state() -> None:
    totals = RuleTotals()
    for name in ("grow", "other"):
        totals.rule_changed(CacheChange(None, rule(name)))
    normal, triggered = record("grow", "c1", "Normal"), record("grow", "c1", "Triggered")
    totals.rule_object_changed(CacheChange(None, normal))
    totals.rule_object_changed(CacheChange(None, record("other", "c1", "Normal")))
    totals.rule_object_changed(CacheChange(None, record("other", "c2", "Normal")))
    page = shown(totals)
    assert page["autopilot_rules_in_system"] == 2
    assert page["autopilot_objects_total"] == 3
    assert page["autopilot_objects_in_stable_condition_total"] == 3
    assert page['autopilot_objects_with_rules_total{object_type="volume"}'] == 2
    totals.rule_object_changed(CacheChange(normal, triggered))
    page = shown(totals)
    assert page[f'autopilot_rule_state_total{{action="{RESIZE}",state="Normal"}}'] == 2
    assert page[f'autopilot_rule_state_total{{action="{RESIZE}",state="Triggered"}}'] == 1
    assert page["autopilot_objects_in_stable_condition_total"] == 2
    totals.rule_object_changed(CacheChange(triggered, None))
    totals.rule_object_changed(CacheChange(record("other", "c2", "Normal"), None))
    totals.rule_changed(CacheChange(rule("grow"), None))
    page = shown(totals)
    assert page["autopilot_rules_in_system"] == 1
    assert page["autopilot_objects_total"] == 1
    assert page['autopilot_objects_with_rules_total{object_type="volume"}'] == 1
    assert f'autopilot_rule_state_total{{action="{RESIZE}",state="Triggered"}}' not in page


def test_objects_are_counted_by_type_once_each() -> None:
    totals = RuleTotals()
    assert shown(totals)['autopilot_objects_with_rules_total{object_type="volume"}'] == 0
    kinds = ("StoragePool", "Node", "Pod", "StatefulSet", "Deployment", "ElasticsearchCluster")
    for kind in kinds:
        for name in ("grow", "other"):
            totals.rule_object_changed(CacheChange(None, record(name, f"uid-{kind}", "Normal", kind)))
    counts = {"storagepool": 1, "node": 1, "pod": 1, "workload": 2, "application": 1, "volume": 0}

    def page() -> dict[str, float]:
        found = shown(totals).items()
        name = "autopilot_objects_with_rules_total"
        return {key.split('"')[1]: value for key, value in found if key.startswith(name)}

    assert page() == counts
    before, after = (record("grow", "uid-Node", state, "Node") for state in ("Normal", "Triggered"))
    totals.rule_object_changed(CacheChange(before, after))
    totals.rule_object_changed(CacheChange(after, None))
    assert page() == counts
    totals.rule_object_changed(CacheChange(record("other", "uid-Node", "Normal", "Node"), None))
    assert page() == counts | {"node": 0}


def test_actions_are_counted_once_and_not_forgotten() -> None:
    totals = RuleTotals()
    running, done = action("Running"), action("Succeeded", seconds=7)
    totals.action_changed(CacheChange(None, running))
    assert shown(totals)["autopilot_action_taken_total"] == 0
    totals.action_changed(CacheChange(running, done))
    totals.action_changed(CacheChange(done, action("Succeeded", seconds=7)))
    totals.action_changed(CacheChange(done, None))
    totals.action_changed(CacheChange(None, action("Succeeded", "c2", seconds=5)))
    page = shown(totals)
    assert page["autopilot_action_taken_total"] == 2
    by_rule = f'{{action="{RESIZE}",rule_name="grow"}}'
    assert page[f"autopilot_action_duration_sum{by_rule}"] == 12
    assert page[f"autopilot_action_duration_count{by_rule}"] == 2


def test_what_was_declined_and_what_failed_differ() -> None:
    totals = RuleTotals()
    totals.rule_changed(CacheChange(None, rule("grow")))
    triggered, declined = record("grow", "c1", "Triggered"), record("grow", "c1", "ActionsDeclined")
    for change in ((None, triggered), (triggered, declined), (declined, declined), (declined, triggered)):
        totals.rule_object_changed(CacheChange(*change))
    totals.action_changed(CacheChange(None, action("Failed", "c2")))
    found = {name: value for name, value in shown(totals).items() if "failed" in name}
    assert found == {
        f'autopilot_action_failed_total{{state="declined",object="c1",action="{RESIZE}"}}': 1,
        f'autopilot_action_failed_total{{state="failed",object="c2",action="{RESIZE}"}}': 1,
    }


def test_a_thousand_objects_that_fail_have_labels_of_their_own_and_later_ones_none() -> None:
    totals = RuleTotals()
    for number in range(1005):
        totals.action_changed(CacheChange(None, action("Failed", f"c{number}")))
    found = {name: value for name, value in shown(totals).items() if "failed" in name}
    assert len(found) == 1001
    assert found[f'autopilot_action_failed_total{{state="failed",object="",action="{RESIZE}"}}'] == 5


def test_errors_and_scrapes_are_counted() -> None:
    assert shown(RuleTotals(), errors=3)["autopilot_errors_total"] == 3
    counts = ScrapeCounts(scrapes=9, failures=1, foreign_series=4, malformed_lines=2)
    lines = "".join(scrape_families(counts)).splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        "pilothouse_rule_scrapes_total 9",
        "pilothouse_rule_scrape_failures_total 1",
        "pilothouse_rule_foreign_series_total 4",
        "pilothouse_rule_malformed_lines_total 2",
        "pilothouse_rule_dropped_lines_total 0",
    ]
