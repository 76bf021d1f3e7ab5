"""The steady clock: moments of rules go on evenly while the machine's clock is set."""

from __future__ import annotations

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
