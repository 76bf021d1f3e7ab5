"""A pilot stands aside once its instance has not served for a while, in one stretch, while that of another did."""

from __future__ import annotations

import asyncio

import pytest

from pilothouse.pilot.election_candidacy import OUT_OF_CLUSTER_SECONDS, Candidacy, OutOfClusterTimer


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        pytest.param([(0, False, True)], False, id="only now"),
        pytest.param([(0, False, True), (OUT_OF_CLUSTER_SECONDS - 1, False, True)], False, id="not for long"),
        pytest.param([(0, False, True), (OUT_OF_CLUSTER_SECONDS, False, True)], True, id="for long"),
        pytest.param(
            [(0, False, False), (OUT_OF_CLUSTER_SECONDS, False, False)], False, id="so is everybody"
        ),
        pytest.param(
            [(0, False, True), (1, True, True), (2, False, True), (OUT_OF_CLUSTER_SECONDS + 1, False, True)],
            False,
            id="it served in between",
        ),
        pytest.param(
            [
                (0, False, True),
                (1, False, False),
                (2, False, True),
                (OUT_OF_CLUSTER_SECONDS + 1, False, True),
            ],
            False,
            id="nobody did in between",
        ),
        pytest.param(
            [
                (0, False, True),
                (OUT_OF_CLUSTER_SECONDS, False, True),
                (OUT_OF_CLUSTER_SECONDS + 1, True, True),
            ],
            False,
            id="it is back",
        ),
    ],
)
def test_bearings_are_lost_in_one_stretch(told: list[tuple[float, bool, bool]], lost: bool) -> None:
    timer = OutOfClusterTimer()
    *_, last = [timer.is_over(serves=serves, others_serve=others, now=now) for now, serves, others in told]
    assert last is lost


async def test_a_candidacy_is_given_up_and_taken_up_again() -> None:
    candidacy = Candidacy()
    async with asyncio.timeout(30):
        await candidacy.until_candidate()
        given_up = asyncio.create_task(candidacy.until_withdrawn())
        for now in (0.0, OUT_OF_CLUSTER_SECONDS):
            assert not given_up.done()
            candidacy.update(serves=False, others_serve=True, now=now)
        await given_up
        taken_up = asyncio.create_task(candidacy.until_candidate())
        await asyncio.sleep(0)
        assert not taken_up.done()
        candidacy.update(serves=True, others_serve=True, now=OUT_OF_CLUSTER_SECONDS + 1)
        await taken_up
