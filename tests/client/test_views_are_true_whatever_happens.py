"""The watching machine against a made-up server that fails in every way a server can.

The server keeps its whole history, so that what the machine hands on can be compared with what was true: each restart shows
exactly one moment, changes come in order, and when the trouble is over the view is the server's state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object, Trees
from pilothouse.client.watch_machine import (
    Applied,
    Change,
    Deleted,
    ListingState,
    Marked,
    Pause,
    ReadPage,
    Restarted,
    StartWatch,
    StreamingState,
    WaitingState,
    WatchingState,
    WatchMachine,
)
from pilothouse.meta import errors
from pilothouse.meta.errors import StatusError

EXAMPLES = 5000 if os.environ.get("PILOTHOUSE_SOAK") else 300
NAMES = "abcde"
State = dict[str, int]


def tree(name: str, revision: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "n", "uid": name, "resourceVersion": str(revision)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def line(change: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": change, "object": obj}).encode()


def bookmark(revision: int, *, complete: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(revision)}
    if complete:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return line("BOOKMARK", {"metadata": metadata})


class Server:
    """Names and the revisions of their last change, at every revision."""

    def __init__(self, rng: Random, *, streams: str) -> None:
        self._rng = rng
        self._streams = streams
        self.states: list[State] = [{}]
        self._changed: list[str] = [""]
        self.oldest = 0
        for _ in range(rng.randint(0, 12)):
            self.write()

    @property
    def revision(self) -> int:
        return len(self.states) - 1

    def write(self) -> None:
        name = self._rng.choice(NAMES)
        state = dict(self.states[-1])
        if name in state and self._rng.random() < 0.4:
            del state[name]
        else:
            state[name] = len(self.states)
        self.states.append(state)
        self._changed.append(name)

    def page(self, token: str) -> tuple[list[Object], int, str]:
        revision, start = (int(part) for part in token.split(":")) if token else (self.revision, 0)
        if revision < self.oldest:
            raise StatusError(410, "Expired", "the token is too old")
        items = sorted(self.states[revision].items())
        some = items[start : start + 2]
        following = f"{revision}:{start + 2}" if start + 2 < len(items) else ""
        return [Object(Pod, tree(*item)) for item in some], revision, following

    def watch(self, opening: StartWatch) -> Iterator[bytes]:
        position = opening.revision
        if opening.initial:
            if self._streams == "refused":
                raise StatusError(422, "Invalid", "sendInitialEvents is forbidden")
            position = self.revision
            for name, revision in self.states[position].items():
                yield line("ADDED", tree(name, revision))
            yield bookmark(position, complete=self._streams == "known")
        if position < self.oldest:
            yield line("ERROR", errors.StatusError(410, "Expired", "too old resource version").to_dict())
            return
        while position < self.revision:
            position += 1
            name, before, after = self._changed[position], self.states[position - 1], self.states[position]
            if name in after:
                yield line("MODIFIED" if name in before else "ADDED", tree(name, position))
            else:
                yield line("DELETED", tree(name, position))
        yield bookmark(position)


class Follower:
    """Keeps a view by what it is told, and checks that it was told the truth."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.view: State = {}
        self.revision = 0
        self.restarts = 0

    def take(self, changes: list[Change]) -> None:
        for change in changes:
            match change:
                case Restarted(objects, revision):
                    shown = {each.name: each.revision for each in objects}
                    assert shown == self._server.states[revision]
                    self._move(revision)
                    self.view = shown
                    self.restarts += 1
                case Applied(obj):
                    self._move(obj.revision)
                    self.view[obj.name] = obj.revision
                case Deleted(obj):
                    self._move(obj.revision)
                    self.view.pop(obj.name, None)
                case Marked(revision):
                    self._move(revision)
                    assert self.view == self._server.states[revision]

    def _move(self, revision: int) -> None:
        assert revision >= self.revision, "what was handed on went back in time"
        self.revision = revision


def troubled(rng: Random, server: Server, lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    """The lines in batches; now and then one is repeated. The server is written to while they are on their way."""
    batch: list[bytes] = []
    sent: list[bytes] = []
    for each in lines:
        batch.append(each)
        sent.append(each)
        # A server that repeats what it said has gone back in time, which only ordinary changes can be told from.
        if rng.random() < 0.05 and b"BOOKMARK" not in each and any(b"BOOKMARK" in old for old in sent):
            batch.append(rng.choice([old for old in sent if b"BOOKMARK" not in old]))
        if rng.random() < 0.5:
            yield batch
            batch = []
            if rng.random() < 0.2:
                server.write()
    if batch:
        yield batch


def step(watch: WatchMachine, server: Server, follower: Follower, rng: Random, *, trouble: bool) -> None:
    wrong = trouble and rng.random() < 0.5
    match watch.next():
        case Pause(seconds):
            assert 0 < seconds <= 30
            watch.rested()
        case ReadPage(token):
            if wrong and rng.random() < 0.5:
                watch.broke("connection reset")
                return
            try:
                follower.take(watch.page(*server.page(token)))
            except StatusError as refusal:
                watch.refused(refusal)
        case StartWatch() as opening:
            try:
                for batch in troubled(rng, server, server.watch(opening)):
                    if wrong and rng.random() < 0.3:
                        rng.choice([watch.silent, lambda: watch.broke("connection reset"), watch.ended])()
                        return
                    if wrong and rng.random() < 0.1:
                        batch.insert(rng.randint(0, len(batch)), b'{"type": "ADDED", "obj')
                    follower.take(watch.took(batch))
                    if not watch.is_open:
                        return
                watch.ended()
            except StatusError as refusal:
                watch.refused(refusal)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    streams=st.sampled_from(["known", "refused", "ignored"]),
    steps=st.integers(0, 40),
)
def test_the_view_is_true_and_catches_up(seed: int, streams: str, steps: int) -> None:
    rng = Random(seed)
    server = Server(rng, streams=streams)
    watch = WatchMachine(Pod, Random(seed), Trees())
    follower = Follower(server)
    for _ in range(steps):
        step(watch, server, follower, rng, trouble=True)
        for _ in range(rng.randint(0, 3)):
            server.write()
        if rng.random() < 0.2:
            server.oldest = rng.randint(server.oldest, server.revision)
    for _ in range(12):
        step(watch, server, follower, rng, trouble=False)
    # What is written last is on its way for at most one more watch.
    step(watch, server, follower, Random(0), trouble=False)
    assert follower.view == server.states[follower.revision]
    assert follower.revision >= server.revision - 5
    assert follower.restarts


def complete(watch: WatchMachine, revision: int = 5) -> None:
    watch.next()
    watch.took([bookmark(revision, complete=True)])


def test_a_relist_is_handed_on_at_once_and_only_when_whole() -> None:
    watch = WatchMachine(Pod, Random(1), Trees(), streaming=False)
    assert watch.next() == ReadPage("")
    assert watch.page([Object(Pod, tree("a", 1))], 5, "more") == []
    assert watch.next() == ReadPage("more")
    (restarted,) = watch.page([Object(Pod, tree("b", 2))], 5, "")
    assert isinstance(restarted, Restarted)
    assert [each.name for each in restarted.objects] == ["a", "b"]
    assert watch.state == WatchingState(5)


def test_pages_that_cannot_be_continued_are_begun_anew() -> None:
    watch = WatchMachine(Pod, Random(1), Trees(), streaming=False)
    watch.next()
    watch.page([Object(Pod, tree("a", 1))], 5, "more")
    watch.next()
    watch.refused(StatusError(410, "Expired", "too old"))
    assert watch.next() == ReadPage("")
    (restarted,) = watch.page([Object(Pod, tree("b", 9))], 9, "")
    assert isinstance(restarted, Restarted)
    assert [each.name for each in restarted.objects] == ["b"], "nothing of the first attempt is left"


def test_a_forgotten_place_means_reading_anew_at_once_but_not_over_and_over() -> None:
    watch = WatchMachine(Pod, Random(1), Trees())
    complete(watch)
    watch.ended()
    watch.next()
    watch.refused(StatusError(410, "Expired", "too old"))
    assert watch.state == StreamingState()
    complete(watch)
    watch.took([line("ERROR", StatusError(410, "Expired", "too old").to_dict())])
    assert isinstance(watch.state, WaitingState)


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_watch_goes_on_where_it_stopped_after_passing_trouble(code: int) -> None:
    watch = WatchMachine(Pod, Random(1), Trees())
    complete(watch)
    watch.took([line("ADDED", tree("a", 8))])
    watch.refused(StatusError(code, "", "not now", retry_after=7))
    pause = watch.next()
    assert isinstance(pause, Pause)
    assert pause.seconds >= 7
    assert watch.problem == "not now"
    watch.rested()
    opening = watch.next()
    assert isinstance(opening, StartWatch)
    assert opening.query()["resourceVersion"] == "8"
    watch.took([bookmark(9)])
    assert watch.problem == ""


def test_a_server_that_knows_no_streaming_is_listed_from_then_on() -> None:
    watch = WatchMachine(Pod, Random(1), Trees())
    watch.next()
    watch.refused(StatusError(422, "Invalid", "sendInitialEvents: Forbidden"))
    assert watch.state == ListingState()
    ignoring = WatchMachine(Pod, Random(1), Trees())
    ignoring.next()
    ignoring.took([line("ADDED", tree("a", 1)), bookmark(3)])
    assert ignoring.state == ListingState()
    silent = WatchMachine(Pod, Random(1), Trees())
    silent.next()
    silent.silent()
    assert isinstance(silent.state, WaitingState)
    assert silent.state == WaitingState(silent.state.seconds, then=ListingState())
    assert silent.state.seconds == pytest.approx(0.6, abs=0.2)


def test_pauses_grow_until_something_is_heard() -> None:
    watch = WatchMachine(Pod, Random(1), Trees())
    pauses = []
    for _ in range(10):
        watch.next()
        watch.broke("connection refused")
        assert isinstance(watch.state, WaitingState)
        pauses.append(watch.state.seconds)
        watch.rested()
    assert pauses[0] <= 0.8
    assert 15 <= pauses[-1] <= 30
    complete(watch)
    watch.took([bookmark(6)])
    watch.broke("connection reset")
    assert isinstance(watch.state, WaitingState)
    assert watch.state.seconds <= 0.8


def test_pauses_grow_unless_a_watch_was_open_for_a_while() -> None:
    watch = WatchMachine(Pod, Random(1), Trees())
    complete(watch)
    pauses = []
    for lasted in (10.0, 0.1, 0.1, 0.1, 0.1, 2.0):
        watch.next()
        watch.lasted(lasted)
        watch.broke("connection reset")
        assert isinstance(watch.state, WaitingState)
        pauses.append(watch.state.seconds)
        watch.rested()
    assert pauses[0] <= 0.8
    assert 6 <= pauses[4] <= 13
    assert pauses[5] <= 0.8
