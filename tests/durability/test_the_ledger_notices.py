"""The account that the kill loop keeps: each thing that must not happen is noticed."""

from __future__ import annotations

import pytest
from tests.durability.ledger import ADDED, DELETED, MODIFIED, Found, History, Ledger, Seen


def written() -> Ledger:
    """Key `a` was made at revision 3 and changed at 5, then the server was killed."""
    ledger = Ledger()
    ledger.acknowledge(ledger.attempt("a", "one"), 3)
    ledger.acknowledge(ledger.attempt("a", "two"), 5)
    ledger.crash()
    return ledger


def told(*events: Seen) -> History:
    history = History("watcher", 0)
    for event in events:
        history.add(event)
    return history


MADE, CHANGED = Seen(ADDED, "a", 3, "one"), Seen(MODIFIED, "a", 5, "two")


def test_a_true_account_passes() -> None:
    ledger = written()
    ledger.acknowledge(ledger.attempt("a", None), None)
    ledger.check(told(MADE, CHANGED, Seen(DELETED, "a", 6, "two")))


def test_an_acknowledged_write_that_is_gone() -> None:
    ledger = written()
    for found in (Found(3, "one"), None):
        with pytest.raises(AssertionError, match="now it holds"):
            ledger.settle(ledger.attempt("a", "three"), found)


def test_a_write_in_doubt_was_made_or_not() -> None:
    ledger = written()
    ledger.settle(ledger.attempt("a", "three"), Found(5, "two"))
    assert (ledger.now["a"], ledger.rescued) == (Found(5, "two"), 0)
    ledger.settle(ledger.attempt("a", "four"), Found(7, "four"))
    assert (ledger.now["a"], ledger.rescued) == (Found(7, "four"), 1)


def test_a_revision_used_again() -> None:
    ledger = written()
    with pytest.raises(AssertionError, match="known before the crash"):
        ledger.acknowledge(ledger.attempt("b", "three"), 4)
    ledger.acknowledge(ledger.attempt("b", "four"), 6)
    with pytest.raises(AssertionError, match="share revision 6"):
        ledger.acknowledge(ledger.attempt("c", "five"), 6)


def test_a_revision_that_only_a_watcher_knew() -> None:
    ledger = written()
    ledger.witness(8)
    ledger.crash()
    with pytest.raises(AssertionError, match="known before the crash"):
        ledger.acknowledge(ledger.attempt("b", "three"), 8)


def test_a_watcher_with_a_gap() -> None:
    history = told(MADE)
    history.now = {"a": Found(5, "two")}
    with pytest.raises(AssertionError, match="2 events should be there, 1 are"):
        written().check(history)


def test_a_watcher_told_twice_or_backwards() -> None:
    with pytest.raises(AssertionError, match="twice"):
        told(MADE, MADE)
    with pytest.raises(AssertionError, match="back"):
        told(CHANGED, MADE)


def test_a_watcher_told_of_a_write_that_was_lost() -> None:
    ledger = written()
    ledger.settle(ledger.attempt("b", "three"), None)
    history = told(MADE, CHANGED, Seen(ADDED, "b", 6, "three"), Seen(DELETED, "b", 7, "three"))
    with pytest.raises(AssertionError, match="0 events should be there, 2 are"):
        ledger.check(history)


def test_a_watcher_that_listed_again_may_miss_events_but_not_invent_them() -> None:
    ledger = written()
    history = History("watcher", 0)
    history.relist(5, {"a": Found(5, "two")})
    ledger.check(history)
    history.add(Seen(MODIFIED, "a", 6, "never"))
    history.now = dict(ledger.now)
    with pytest.raises(AssertionError, match="never"):
        ledger.check(history)
