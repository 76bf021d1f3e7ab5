"""The sorted set of keys does what a sorted list does, at any size, and prefixes end where they should."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.store.keys import SortedKeys, end_of, start_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(TEXT, TEXT)
def test_a_key_lies_between_a_prefix_and_its_end_exactly_if_it_starts_with_it(prefix: str, key: str) -> None:
    end = end_of(prefix)
    assert (key >= prefix and (not end or key < end)) == key.startswith(prefix)
    assert end.encode() > prefix.encode() or not end


@given(TEXT, TEXT)
def test_what_starts_with_the_prefix_stays_below_its_end(prefix: str, rest: str) -> None:
    end = end_of(prefix)
    assert not end or prefix + rest < end


@given(TEXT, TEXT, TEXT)
def test_a_page_starts_after_the_last_key_and_at_the_prefix(prefix: str, after: str, key: str) -> None:
    wanted = key.startswith(prefix) and (not after or key > after)
    end = end_of(prefix)
    assert (key >= start_of(prefix, after) and (not end or key < end)) == wanted


@given(TEXT, TEXT)
def test_text_sorts_like_its_bytes(one: str, other: str) -> None:
    assert (one < other) == (one.encode() < other.encode())


def test_thousands_of_keys_come_and_go_like_in_a_sorted_list() -> None:
    chance = random.Random(7)
    names = [f"/k/{n:05}" for n in range(6000)]
    keys, model = SortedKeys(names[:100]), set(names[:100])
    for _ in range(20_000):
        name = chance.choice(names)
        if name in model:
            keys.remove(name)
            model.remove(name)
        else:
            keys.add(name)
            model.add(name)
    ordered = sorted(model)
    assert len(keys) == len(ordered)
    assert keys.page("", "") == (ordered, 0)
    for _ in range(500):
        low, high = sorted(chance.sample(names, 2))
        limit = chance.choice([0, 1, 7, 600, 5000])
        inside = [name for name in ordered if low <= name < high]
        shown = inside[:limit] if limit else inside
        assert keys.page(low, high, limit=limit) == (shown, len(inside) - len(shown))


def test_a_set_can_be_emptied_and_filled_again() -> None:
    keys = SortedKeys(f"{n:04}" for n in range(3000))
    for n in range(3000):
        keys.remove(f"{n:04}")
    assert keys.page("", "") == ([], 0)
    keys.add("b")
    keys.add("a")
    assert keys.page("", "") == (["a", "b"], 0)
    assert keys.page("b", "a") == ([], 0)
