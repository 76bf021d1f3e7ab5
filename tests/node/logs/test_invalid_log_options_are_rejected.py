from __future__ import annotations

import pytest

from pilothouse.api.kubernetes.pods.log_options import LogOptions
from pilothouse.api.kubernetes.pods.stream_options import StreamOptions
from pilothouse.meta.errors import StatusError
from pilothouse.node.logs.log_records import LogFormatter


@pytest.mark.parametrize(
    ("query", "code", "words"),
    [
        ({"tailLines": "-1"}, 422, "tailLines: Invalid value: -1: must be greater than or equal to 0"),
        ({"limitBytes": "0"}, 422, "limitBytes: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "0"}, 422, "sinceSeconds: Invalid value: 0: must be greater than 0"),
        ({"sinceSeconds": "5", "sinceTime": "2026-01-01T00:00:00Z"}, 422, "at most one of"),
        ({"tailLines": "x"}, 400, "tailLines must be a whole number, not 'x'"),
        ({"sinceTime": "yesterday"}, 400, "sinceTime: 'yesterday' is not an RFC 3339 time"),
        ({"follow": "maybe"}, 400, "follow must be true or false"),
        ({"stream": "Both"}, 422, "stream: Unsupported value"),
        ({"stream": "Stdout", "tailLines": "5"}, 422, "mutually exclusive"),
    ],
)
def test_logs(query: dict[str, str], code: int, words: str) -> None:
    with pytest.raises(StatusError) as refused:
        LogOptions.parse(query, now=0.0)
    assert refused.value.code == code
    assert words in refused.value.message


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(StatusError) as refused:
        LogOptions.parse({"tailLines": "-1", "limitBytes": "-1"}, now=0.0)
    assert [cause.field for cause in refused.value.causes] == ["tailLines", "limitBytes"]


def test_what_is_asked_for() -> None:
    query = {"follow": "true", "tailLines": "3", "sinceSeconds": "60", "timestamps": "1", "previous": "false"}
    assert LogOptions.parse(query, now=100.0) == LogOptions(follow=True, tail=3, since=40.0, timestamps=True)
    assert LogOptions.parse({"sinceTime": "1970-01-01T00:01:00Z"}, now=0.0) == LogOptions(since=60.0)


def test_since_before_there_was_time_is_all_of_it() -> None:
    options = LogOptions.parse({"sinceSeconds": "9" * 17}, now=1_790_000_000.0)
    record = b"2026-11-15T10:00:00.123456789Z stdout F listening\n"
    assert LogFormatter(options).format(record) == b"listening\n"


@pytest.mark.parametrize("query", ["", "command=sh", "stderr=true&tty=true&command=sh"])
def test_a_session_without_any_stream(query: str) -> None:
    with pytest.raises(StatusError, match="at least 1 of stdin, stdout, stderr"):
        StreamOptions.parse(query, runs=True)


def test_nothing_to_run() -> None:
    with pytest.raises(StatusError, match="at least 1 command to run"):
        StreamOptions.parse("stdout=true", runs=True)
    assert StreamOptions.parse("stdout=true", runs=False).command == ()


def test_a_node_is_asked_in_a_kubelets_words_and_understands_them() -> None:
    asked = StreamOptions.parse("stdin=true&stdout=1&tty=true&command=sh&command=a%26b", runs=True)
    assert asked.node_query() == [
        ("command", "sh"),
        ("command", "a&b"),
        ("input", "1"),
        ("output", "1"),
        ("tty", "1"),
    ]
    assert StreamOptions.parse("command=sh&command=a%26b&input=1&output=1&tty=1", runs=True) == asked
