from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilothouse.aio.ring_buffer import Bounds, RingBuffer


def test_what_lies_after_a_position() -> None:
    ring = RingBuffer[str](10, Bounds())
    ring.append(11, "a", at=0)
    ring.append(14, "b", at=0)
    assert ring.after(10) == ["a", "b"]
    assert ring.after(11) == ["b"]
    assert ring.after(12) == ["b"]
    assert ring.after(14) == []
    assert ring.after(9) is None
    assert ring.after(10, limit=1) == ["a"]


def test_weight_is_bounded_but_the_newest_stay() -> None:
    ring = RingBuffer[int](0, Bounds(weight=100, least=3))
    for position in range(1, 11):
        ring.append(position, position, at=0, weight=90)
    assert len(ring) == 3
    assert ring.after(7) == [8, 9, 10]
    assert ring.after(6) is None


def test_the_newest_stay_up_to_a_weight_of_their_own() -> None:
    ring = RingBuffer[int](0, Bounds(weight=100, least=100, most_weight=300))
    for position in range(1, 11):
        ring.append(position, position, at=0, weight=90)
    assert ring.after(7) == [8, 9, 10]
    assert ring.after(6) is None
    ring.append(11, 11, at=0, weight=1000)
    assert ring.after(10) == [11]
    assert ring.after(9) is None


def test_age_is_bounded() -> None:
    ring = RingBuffer[int](0, Bounds(age=10))
    ring.append(1, 1, at=0)
    ring.append(2, 2, at=8)
    ring.forget_old(10)
    assert ring.after(0) == [1, 2]
    ring.forget_old(11)
    assert ring.after(0) is None
    assert ring.after(1) == [2]


@given(steps=st.lists(st.integers(1, 5), max_size=300), count=st.integers(1, 40), asked=st.integers(0, 1500))
def test_an_answer_is_the_whole_truth_or_none(steps: list[int], count: int, asked: int) -> None:
    ring = RingBuffer[int](0, Bounds(count=count, least=0))
    position, truth = 0, []
    for step in steps:
        position += step
        truth.append(position)
        ring.append(position, position, at=0)
    assert len(ring) == min(len(truth), count)
    found = ring.after(asked)
    if found is None:
        assert len(truth) > count
        assert asked < truth[-count - 1]
    else:
        assert found == [each for each in truth if each > asked]
