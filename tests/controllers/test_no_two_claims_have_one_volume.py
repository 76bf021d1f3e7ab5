"""Claims are bound in two writes, with crashes between any two and decisions on the same sight of the world."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.controller_harness import WRITES, ControllerHarness, Refused
from tests.kit.scheduling_objects import claim, volume

from pilothouse.api.kind_names import PersistentVolume, PersistentVolumeClaim
from pilothouse.api.objects import Object
from pilothouse.controllers.storage.claim_binder import claims
from pilothouse.controllers.storage.volume_lifecycle import volumes
from pilothouse.controllers.storage.volume_matching import best
from pilothouse.runtime.controller import Controller
from pilothouse.runtime.intents import Intent

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=4)
ROUND = st.tuples(
    st.sampled_from(["claim", "volume", "together", "delete"]), st.integers(0, 3), st.integers(0, 3)
)


def check(harness: ControllerHarness) -> None:
    taken = [
        one.spec["volumeName"] for one in harness.all(PersistentVolumeClaim) if one.spec.get("volumeName")
    ]
    assert len(set(taken)) == len(taken)
    for one in harness.all(PersistentVolumeClaim):
        if name := one.spec.get("volumeName"):
            held = harness.get(PersistentVolume, name)
            assert held is not None
            assert held.spec["claimRef"]["uid"] == one.uid


def write(harness: ControllerHarness, intents: list[Intent], most: int | None = None) -> int:
    """Carry them out until one is refused; how many went through."""
    done = 0
    for intent in [one for one in intents if isinstance(one, WRITES)][:most]:
        try:
            harness.execute(intent)
        except Refused:
            break
        done += 1
        check(harness)
    return done


def settle(harness: ControllerHarness) -> None:
    kinds: list[tuple[Controller, list[Object]]]
    for _ in range(50):
        kinds = [(claims, harness.all(PersistentVolumeClaim)), (volumes, harness.all(PersistentVolume))]
        if not sum(write(harness, harness.decide(which, one)) for which, ones in kinds for one in ones):
            return
    raise AssertionError("no end")


@settings(deadline=None, max_examples=150)
@given(asked=SIZES, there=SIZES, rounds=st.lists(ROUND, max_size=12))
def test_whatever_crashes(asked: list[int], there: list[int], rounds: list[tuple[str, int, int]]) -> None:
    harness = ControllerHarness()
    for number, size in enumerate(asked):
        harness.add(claim(f"c{number}", size=f"{size}Gi", storageClassName=""))
    for number, size in enumerate(there):
        harness.add(volume(f"v{number}", size=f"{size}Gi"))
    for what, which, writes in rounds:
        ones = harness.all(PersistentVolumeClaim)
        held = harness.all(PersistentVolume)
        if what == "volume":
            write(harness, harness.decide(volumes, held[which % len(held)]), writes)
        elif not ones:
            continue
        elif what == "claim":
            write(harness, harness.decide(claims, ones[which % len(ones)]), writes)
        elif what == "delete":
            harness.delete(ones[which % len(ones)])
        else:
            for intents in [harness.decide(claims, one) for one in ones]:
                write(harness, intents, writes)
    settle(harness)
    for one in harness.all(PersistentVolumeClaim):
        if one.status["phase"] != "Bound":
            assert best(one, harness.all(PersistentVolume), None) is None
    for held_one in harness.all(PersistentVolume):
        reference = held_one.spec.get("claimRef")
        owner = harness.get(PersistentVolumeClaim, reference["name"]) if reference else None
        expected = "Available" if reference is None else "Bound" if owner is not None else "Released"
        assert held_one.status["phase"] == expected
