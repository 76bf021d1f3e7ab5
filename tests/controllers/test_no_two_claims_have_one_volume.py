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


def check(yard: ControllerHarness) -> None:
    taken = [one.spec["volumeName"] for one in yard.all(PersistentVolumeClaim) if one.spec.get("volumeName")]
    assert len(set(taken)) == len(taken)
    for one in yard.all(PersistentVolumeClaim):
        if name := one.spec.get("volumeName"):
            held = yard.get(PersistentVolume, name)
            assert held is not None
            assert held.spec["claimRef"]["uid"] == one.uid


def write(yard: ControllerHarness, intents: list[Intent], most: int | None = None) -> int:
    """Carry them out until one is refused; how many went through."""
    done = 0
    for intent in [one for one in intents if isinstance(one, WRITES)][:most]:
        try:
            yard.execute(intent)
        except Refused:
            break
        done += 1
        check(yard)
    return done


def settle(yard: ControllerHarness) -> None:
    kinds: list[tuple[Controller, list[Object]]]
    for _ in range(50):
        kinds = [(claims, yard.all(PersistentVolumeClaim)), (volumes, yard.all(PersistentVolume))]
        if not sum(write(yard, yard.decide(which, one)) for which, ones in kinds for one in ones):
            return
    raise AssertionError("no end")


@settings(deadline=None, max_examples=150)
@given(asked=SIZES, there=SIZES, rounds=st.lists(ROUND, max_size=12))
def test_whatever_crashes(asked: list[int], there: list[int], rounds: list[tuple[str, int, int]]) -> None:
    yard = ControllerHarness()
    for number, size in enumerate(asked):
        yard.add(claim(f"c{number}", size=f"{size}Gi", storageClassName=""))
    for number, size in enumerate(there):
        yard.add(volume(f"v{number}", size=f"{size}Gi"))
    for what, which, writes in rounds:
        ones = yard.all(PersistentVolumeClaim)
        held = yard.all(PersistentVolume)
        if what == "volume":
            write(yard, yard.decide(volumes, held[which % len(held)]), writes)
        elif not ones:
            continue
        elif what == "claim":
            write(yard, yard.decide(claims, ones[which % len(ones)]), writes)
        elif what == "delete":
            yard.delete(ones[which % len(ones)])
        else:
            for intents in [yard.decide(claims, one) for one in ones]:
                write(yard, intents, writes)
    settle(yard)
    for one in yard.all(PersistentVolumeClaim):
        if one.status["phase"] != "Bound":
            assert best(one, yard.all(PersistentVolume), None) is None
    for held_one in yard.all(PersistentVolume):
        reference = held_one.spec.get("claimRef")
        owner = yard.get(PersistentVolumeClaim, reference["name"]) if reference else None
        expected = "Available" if reference is None else "Bound" if owner is not None else "Released"
        assert held_one.status["phase"] == expected
