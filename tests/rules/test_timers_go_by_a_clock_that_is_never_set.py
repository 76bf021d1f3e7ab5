"""The steady clock: moments of rules go on evenly while the machine's clock is set."""

from __future__ import annotations

import pytest

from pilothouse.rules.steady_clock import SteadyClock


class SettableClock:
    def __init__(self) -> None:
        self.wall, self.elapsed = 1_800_000_000.0, 50.0

    def now(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.elapsed

    def pass_time(self, seconds: float) -> None:
        self.wall += seconds
        self.elapsed += seconds


def test_it_agrees_with_the_wall_clock_until_that_is_set() -> None:
    clock = SettableClock()
    steady = SteadyClock(clock)
    clock.pass_time(30)
    assert (steady.now(), steady.ahead) == (clock.now(), 0)


def test_a_wall_clock_that_jumps_moves_no_timer() -> None:
    clock = SettableClock()
    steady = SteadyClock(clock)
    began = steady.now()
    for jump in (3600.0, -86400.0):
        clock.wall += jump
        clock.pass_time(10)
    assert steady.now() == began + 20
    assert steady.ahead == 3600 - 86400
    assert clock.now() - steady.ahead == steady.now()


def test_what_was_written_is_as_old_as_it_is_whenever_the_clock_was_set() -> None:
    clock = SettableClock()
    steady = SteadyClock(clock)
    written: list[tuple[float, float]] = []
    for jump in (0.0, 86400.0, -3600.0, 7200.0, -86400.0):
        clock.wall += jump
        assert steady.ahead == clock.wall - steady.now()
        clock.pass_time(600)
        written.append((clock.wall, steady.now()))
        clock.pass_time(600)
        assert steady.ahead == clock.wall - steady.now()
    moments = [moment for _, moment in written]
    assert [steady.moment(wall) for wall, _ in written] == pytest.approx(moments, abs=0.001, rel=0)


def test_of_two_moments_with_the_same_time_it_was_the_later() -> None:
    clock = SettableClock()
    steady = SteadyClock(clock)
    clock.pass_time(600)
    clock.wall -= 600
    assert steady.ahead == -600
    clock.pass_time(600)
    assert steady.moment(clock.wall - 300) == steady.now() - 300


def test_a_time_of_another_machine_stays() -> None:
    clock = SettableClock()
    steady = SteadyClock(clock)
    right = clock.wall
    clock.wall += 86400
    assert steady.ahead == 86400
    clock.pass_time(300)
    assert steady.moment(right + 200) == right + 200
