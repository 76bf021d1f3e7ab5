"""A pilot stands aside once its instance has not served for a while, in one stretch, while that of another did."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.pilot.election_candidacy import ASTRAY, Candidacy, OutOfClusterTimer


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        pytest.param([(0, False, True)], False, id="only now"),
        pytest.param([(0, False, True), (ASTRAY - 1, False, True)], False, id="not for long"),
        pytest.param([(0, False, True), (ASTRAY, False, True)], True, id="for long"),
        pytest.param([(0, False, False), (ASTRAY, False, False)], False, id="so is everybody"),
        pytest.param(
            [(0, False, True), (1, True, True), (2, False, True), (ASTRAY + 1, False, True)],
            False,
            id="it served in between",
        ),
        pytest.param(
            [(0, False, True), (1, False, False), (2, False, True), (ASTRAY + 1, False, True)],
            False,
            id="nobody did in between",
        ),
        pytest.param(
            [(0, False, True), (ASTRAY, False, True), (ASTRAY + 1, True, True)], False, id="it is back"
        ),
    ],
)
def test_bearings_are_lost_in_one_stretch(told: list[tuple[float, bool, bool]], lost: bool) -> None:
    bearings = OutOfClusterTimer()
    *_, last = [
        bearings.are_lost(serves=serves, others_serve=others, now=now) for now, serves, others in told
    ]
    assert last is lost


async def test_a_candidacy_is_given_up_and_taken_up_again() -> None:
    candidacy = Candidacy()
    async with asyncio.timeout(30):
        await candidacy.taken_up()
        given_up = asyncio.create_task(candidacy.given_up())
        for now in (0.0, ASTRAY):
            assert not given_up.done()
            candidacy.tell(serves=False, others_serve=True, now=now)
        await given_up
        taken_up = asyncio.create_task(candidacy.taken_up())
        await asyncio.sleep(0)
        assert not taken_up.done()
        candidacy.tell(serves=True, others_serve=True, now=ASTRAY + 1)
        await taken_up
