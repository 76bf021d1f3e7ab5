"""Shards that may leave their node and don't: Elasticsearch is asked to look again, now and then, and not while something moves."""

from __future__ import annotations

from pilothouse.pilot.drivers.elasticsearch.cluster_actions import STILL, DrainProgress


def test_it_is_pushed_once_in_a_while_and_only_when_nothing_moves() -> None:
    drain = DrainProgress()
    assert not drain.stands_still({"es-2": 2}, moving=False, now=0.0)
    assert not drain.stands_still({"es-2": 2}, moving=False, now=STILL - 1)
    assert drain.stands_still({"es-2": 2}, moving=False, now=STILL)
    assert not drain.stands_still({"es-2": 2}, moving=False, now=STILL + 1), "it has just been pushed"
    assert drain.stands_still({"es-2": 2}, moving=False, now=2 * STILL)


def test_whatever_moves_begins_the_time_anew() -> None:
    drain = DrainProgress()
    drain.stands_still({"es-2": 2}, moving=False, now=0.0)
    assert not drain.stands_still({"es-2": 2}, moving=True, now=STILL)
    assert not drain.stands_still({"es-2": 1}, moving=False, now=STILL + 1)
    assert not drain.stands_still({"es-2": 1}, moving=False, now=2 * STILL)
    assert drain.stands_still({"es-2": 1}, moving=False, now=2 * STILL + 1)


def test_without_shards_to_move_nothing_is_pushed() -> None:
    drain = DrainProgress()
    for moment in range(0, 100, 10):
        assert not drain.stands_still({}, moving=False, now=float(moment))
