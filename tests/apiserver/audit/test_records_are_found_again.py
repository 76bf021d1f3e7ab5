"""Looking for records: by user, verb, object and time, the newest first in old and new files alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.audit.scenes import ALICE, EVERYTHING, T0, asked, record, see, sight, trail_at

from pilothouse.api.registry import resources
from pilothouse.apiserver.audit.log_file import LogFile, Rotation
from pilothouse.apiserver.audit.page import resolver
from pilothouse.apiserver.audit.query import AuditQuery
from pilothouse.apiserver.audit.search import backwards, search
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.apiserver.server.messages import User
from pilothouse.base.clock import ManualClock
from pilothouse.meta.errors import StatusError

BOB = User("bob")
RESOLVE = resolver(KindCatalog(resources()))


def ask(**params: str) -> AuditQuery:
    return AuditQuery.parse(params, RESOLVE, T0)


@pytest.mark.parametrize(
    ("params", "matches"),
    [
        ({}, True),
        ({"user": "alice"}, True),
        ({"user": "ali"}, False),
        ({"verb": "get"}, True),
        ({"verb": "GET"}, True),
        ({"verb": "list"}, False),
        ({"namespace": "t"}, True),
        ({"namespace": "u"}, False),
        ({"object": "pods"}, True),
        ({"object": "pod/web-0"}, True),
        ({"object": "Pod/web-0"}, True),
        ({"object": "po/web-0"}, True),
        ({"object": "pods/web-1"}, False),
        ({"object": "nodes/web-0"}, False),
        ({"object": "statefulsets.apps"}, False),
        ({"object": "zorks"}, False),
        ({"since": "1h"}, True),
        ({"since": "2023-11-14T22:13:21Z"}, False),
        ({"user": "alice", "verb": "delete"}, False),
    ],
)
def test_a_question_is_about_what_all_of_its_parts_say(params: dict[str, str], matches: bool) -> None:
    line = json.dumps(record(EVERYTHING, sight(asked())), separators=(",", ":")).encode()

    assert ask(**params).matches(line) is matches


def test_records_of_kinds_that_are_no_longer_served_are_found_by_their_resource() -> None:
    line = json.dumps(record(EVERYTHING, sight(asked(target="/apis/x.io/v1/zorks/a"))), separators=(",", ":"))

    assert ask(object="zorks/a").matches(line.encode())


def test_whom_somebody_impersonated_is_found_as_well() -> None:
    request = asked(user=BOB)
    request.impersonator = ALICE
    line = json.dumps(record(EVERYTHING, sight(request)), separators=(",", ":")).encode()

    assert ask(user="alice").matches(line)
    assert ask(user="bob").matches(line)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"usr": "alice"}, "unknown parameter 'usr'; known are user, verb, object"),
        ({"since": "yesterday"}, "since: 'yesterday' is not a duration such as 90s"),
        ({"since": "9999999h"}, "since"),
        ({"limit": "0"}, "limit: '0' is not a number from 1 to"),
        ({"limit": "-3"}, "limit"),
        ({"limit": "1e3"}, "limit"),
    ],
)
def test_a_question_that_is_not_understood_is_a_400(params: dict[str, str], says: str) -> None:
    with pytest.raises(StatusError) as refused:
        ask(**params)

    assert refused.value.code == 400
    assert says in str(refused.value)


async def test_the_newest_are_found_across_rotated_files(tmp_path: Path) -> None:
    clock = ManualClock(T0)
    rotation = Rotation(size=3000, backups=0, age=0)
    async with trail_at(tmp_path / "audit.log", rotation=rotation, clock=clock) as trail:
        for number in range(40):
            see(trail, f"web-{number}", user=ALICE if number % 2 else BOB)
            clock.advance(1)
            await trail.flushed(5)
        assert len(trail.file.backups()) > 5

        last = await trail.search(ask(limit="3"))
        alices = await trail.search(ask(user="alice"))
        recent = await trail.search(AuditQuery.parse({"since": "10s"}, RESOLVE, clock.now()))

    assert [_name(line) for line in last] == ["web-37", "web-38", "web-39"]
    assert [_name(line) for line in alices] == [f"web-{number}" for number in range(1, 40, 2)]
    assert [_name(line) for line in recent] == [f"web-{number}" for number in range(30, 40)]


async def test_lines_that_are_no_records_are_passed_by(tmp_path: Path) -> None:
    good = json.dumps(record(EVERYTHING, sight(asked())), separators=(",", ":")).encode() + b"\n"
    path = tmp_path / "audit.log"
    path.write_bytes(b'{"half\n' + good + b"\n[]\n" + good + b'{"not yet')

    assert await search(LogFile(path, Rotation()).files, ask()) == [good, good]


async def test_no_file_is_no_records(tmp_path: Path) -> None:
    assert await search(LogFile(tmp_path / "none" / "audit.log", Rotation()).files, ask()) == []


@settings(max_examples=200, deadline=None)
@given(
    lines=st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b".").replace(b"\r", b"."))),
    rest=st.sampled_from([b"", b"unfinished", b"a line that is longer than a block"]),
    size=st.integers(1, 50),
)
def test_reading_backwards_gives_every_line_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], rest: bytes, size: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + rest)

    with path.open("rb") as file:
        blocks = list(backwards(file, size))

    assert [line for block in reversed(blocks) for line in block] == [line + b"\n" for line in lines]


def _name(line: bytes) -> str:
    return str(json.loads(line)["objectRef"]["name"])
