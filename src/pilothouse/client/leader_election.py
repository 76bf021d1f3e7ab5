"""The state machine of leader election with a Lease; ``leader_lease`` does its I/O.

    election = LeaderElector("host-1_f3a9", LeaseTiming(), Random(7), time.time)
    election.next(now)                 # ReadLease(): read the Lease
    election.looked(None, now)         # there is none
    election.next(now)                 # WriteLease(spec, …): make it, with this one as holder
    election.wrote(lease, sent, now)   # it counts from before it was sent
    election.term(now)                 # LeaderTerm(transitions=0, uid=…, until=…), for as long as it holds

Times are monotonic, except in the Lease, so wall clocks do not matter:

* A leader leads until ``renew`` seconds after it *sent* its last accepted renewal, then stops by itself.
* Others wait ``lease`` seconds, which is longer, after they *saw* the Lease change. So one has stopped before
  the next starts, unless clocks differ in rate by more than that.
* Every term is a new transition, also of the same holder: our server refuses writes of an earlier term, and
  of a Lease that was deleted and created again (``fence``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from pilothouse.api.objects import Object, Tree
from pilothouse.base.rfc3339 import format_micro_time

_SPREAD = (0.8, 1.2)


@dataclass(frozen=True)
class LeaseTiming:
    """Seconds: how long a lease excludes others, how long its holder relies on a renewal, how often it
    renews."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry * _SPREAD[1] > 0:
            raise ValueError(
                f"the lease ({self.lease:g} s) must be longer than the time to renew it ({self.renew:g} s), "
                f"and that longer than {_SPREAD[1]:g} times the pause between attempts ({self.retry:g} s)"
            )


@dataclass(frozen=True, slots=True)
class LeaderTerm:
    """A term of leadership: a transition of the Lease, and an end that renewals extend."""

    transitions: int
    uid: str
    """Of the Lease."""
    until: float

    def is_of(self, other: LeaderTerm) -> bool:
        """Whether it is the same term, renewed or not."""
        return (self.transitions, self.uid) == (other.transitions, other.uid)


@dataclass(frozen=True, slots=True)
class ReadLease:
    """Read the Lease; call ``looked`` or ``failed``. Later answers than so many seconds are useless."""

    within: float


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Write this spec over the known version, or create it; call ``wrote`` or ``failed``."""

    spec: Tree
    over: Object | None
    within: float


@dataclass(frozen=True, slots=True)
class WaitForLease:
    seconds: float


class LeaderElector:
    def __init__(self, identity: str, timing: LeaseTiming, rng: Random, wall: Callable[[], float]) -> None:
        """``identity`` is unique to this process and never reused; ``wall`` is the wall clock."""
        self.identity = identity
        self._timing = timing
        self._rng = rng
        self._wall = wall
        self._lease: Object | None = None
        self._is_current = False
        """The Lease is as last seen, or last written, as far as is known."""
        self._changed = 0.0
        self._has_looked = False
        self._has_moved = False
        """The Lease has changed since it was first seen, so its holder is alive."""
        self._transitions = -1
        """The highest that was ever seen."""
        self._due = 0.0
        self._term: LeaderTerm | None = None

    @property
    def holder(self) -> str:
        """The last seen holder of the Lease, or empty."""
        return _holder(self._lease)

    @property
    def leader(self) -> str:
        """The known leader: a holder that was seen to renew, as a Lease may be left over."""
        return self.holder if self._has_moved else ""

    def term(self, now: float) -> LeaderTerm | None:
        """The current term of this candidate, if it leads."""
        return self._term if self._term is not None and now < self._term.until else None

    def next(self, now: float) -> ReadLease | WriteLease | WaitForLease:
        self._term = self.term(now)
        if now < self._due:
            end = self._due if self._term is None else min(self._due, self._term.until)
            return WaitForLease(end - now)
        if not self._is_current:
            return ReadLease(self._patience(now))
        if self._term is not None:
            return WriteLease(self._renewal(), self._lease, self._patience(now))
        if self._is_vacant(now):
            return WriteLease(self._takeover(), self._lease, self._patience(now))
        self._is_current = False
        self._due = min(now + self._pause(), self._expiry())
        return WaitForLease(self._due - now)

    def looked(self, lease: Object | None, now: float) -> None:
        """The Lease was read; None if there is none."""
        known = self._lease
        if lease is None or known is None or lease.spec != known.spec or lease.uid != known.uid:
            self._changed = now
            self._has_moved = self._has_looked
        self._has_looked = True
        self._know(lease)
        if self._term is not None and (
            lease is None
            or self.holder != self.identity
            or (_transitions(lease), lease.uid) != (self._term.transitions, self._term.uid)
        ):
            self._term = None

    def wrote(self, lease: Object, sent: float, now: float) -> None:
        """The write sent at ``sent`` succeeded."""
        self._know(lease)
        self._changed = now
        self._has_moved = True
        self._term = LeaderTerm(_transitions(lease), lease.uid, sent + self._timing.renew)
        self._due = sent + self._pause()

    def failed(self, now: float) -> None:
        """A request failed, or its outcome is unknown."""
        self._is_current = False
        self._due = now + self._pause()

    def resign(self) -> None:
        """Stop leading. The Lease stays until ``vacated``."""
        self._term = None
        self._is_current = False

    def vacated(self, lease: Object | None) -> WriteLease | None:
        """How to release the Lease, given its state; None if it is not this candidate's."""
        if lease is None or _holder(lease) != self.identity:
            return None
        spec = {**lease.spec, "leaseDurationSeconds": 1, "renewTime": self._moment()}
        del spec["holderIdentity"]
        return WriteLease(spec, lease, self._timing.renew)

    def _know(self, lease: Object | None) -> None:
        self._lease = lease
        self._is_current = True
        if lease is not None:
            self._transitions = max(self._transitions, _transitions(lease))

    def _is_vacant(self, now: float) -> bool:
        return self.holder in ("", self.identity) or now >= self._expiry()

    def _expiry(self) -> float:
        lease = self._lease
        seconds = lease.spec.get("leaseDurationSeconds") if lease is not None else None
        return self._changed + float(seconds or self._timing.lease)

    def _renewal(self) -> Tree:
        assert self._lease is not None
        return {**self._lease.spec, "renewTime": self._moment()}

    def _takeover(self) -> Tree:
        moment = self._moment()
        return {
            **(self._lease.spec if self._lease is not None else {}),
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._timing.lease),
            "acquireTime": moment,
            "renewTime": moment,
            "leaseTransitions": self._transitions + 1,
        }

    def _patience(self, now: float) -> float:
        """Short enough that a leader whose request hangs has time for another."""
        if self._term is None:
            return self._timing.renew
        return min(self._timing.renew / 2, self._term.until - now)

    def _pause(self) -> float:
        return self._timing.retry * self._rng.uniform(*_SPREAD)

    def _moment(self) -> str:
        return format_micro_time(self._wall())


def _holder(lease: Object | None) -> str:
    return str(lease.spec.get("holderIdentity") or "") if lease is not None else ""


def _transitions(lease: Object | None) -> int:
    found: Any = lease.spec.get("leaseTransitions") if lease is not None else None
    return int(found or 0)
