"""What was heard, and whether a pause in it was the server's."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pilothouse.client.watch_freshness import LONGEST, NOTHING, USUAL, WatchFreshness


def heard(*moments: float) -> WatchFreshness:
    """What has been heard when something came at these moments."""
    all_of_it = NOTHING
    for moment in moments:
        all_of_it = all_of_it.again(moment)
    return all_of_it


def steadily(start: float, end: float) -> list[float]:
    """Every ten seconds."""
    return [start + 10.0 * n for n in range(int((end - start) // 10) + 1)]


def test_what_comes_steadily_is_one_stretch() -> None:
    whole = heard(*steadily(0, 200))
    assert (whole.since, whole.until) == (0, 200)


def test_a_pause_that_no_server_makes_begins_anew() -> None:
    whole = heard(*steadily(0, 100), 100 + LONGEST + 1)
    assert whole.since == whole.until == 100 + LONGEST + 1


@pytest.mark.parametrize("pause", [USUAL + 1, 60.0, LONGEST])
def test_a_pause_that_may_be_the_servers_counts_only_once_others_could_be_heard_after_it(
    pause: float,
) -> None:
    after = 100 + pause
    whole = heard(*steadily(0, 100), after)
    assert (whole.since, whole.until) == (0, 100)
    whole = heard(*steadily(0, 100), *steadily(after, after + USUAL - 1))
    assert (whole.since, whole.until) == (0, 100)
    whole = heard(*steadily(0, 100), *steadily(after, after + USUAL + 10))
    assert (whole.since, whole.until) == (0, whole.last)


def test_a_pause_as_between_signs_of_life_is_none() -> None:
    whole = heard(*steadily(0, 100), 100 + USUAL)
    assert (whole.since, whole.until) == (0, 100 + USUAL)


def test_bookmarks_alone_are_enough_to_know_that_nothing_happened() -> None:
    marks = [0, 61, 122, 183, 244]
    for marked, (before, _) in zip(range(2, len(marks) + 1), pairwise(marks), strict=True):
        whole = heard(*marks[:marked])
        assert (whole.since, whole.until) == (0, before)


def test_a_clock_that_is_set_back_begins_anew() -> None:
    whole = heard(*steadily(1000, 1100), 50)
    assert (whole.since, whole.until) == (50, 50)
