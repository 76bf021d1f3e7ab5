"""Out of a program's output: the lines that say why it ended."""

from __future__ import annotations

import json

import pytest

from pilothouse.base.error_lines import LONGEST, error_lines

WHY = "unknown setting [cluster.nmae] did you mean [cluster.name]?"
FRAMES = [f"\tat org.elasticsearch.Node.start(Node.java:{n})" for n in range(40)]
NOISE = ("For complete error details", "did not exit normally")
JAVA = [
    "[2026-11-16T16:49:09,747][INFO ][o.e.n.Node               ] [a] failed over to nothing, as should be",
    "[2026-11-16T16:49:10,925][ERROR][o.e.b.UncaughtExceptionHandler] [a] uncaught exception in thread [main]",
    f"org.elasticsearch.bootstrap.StartupException: java.lang.IllegalArgumentException: {WHY}",
    *FRAMES,
    f"Caused by: java.lang.IllegalArgumentException: {WHY}",
    *FRAMES,
    "\t... 6 more",
    "For complete error details, refer to the log at /logs/elasticsearch.log",
]
BOOT = [
    f"[2026-11-16T16:49:37,073][ERROR][o.e.b.Elasticsearch      ] [a] fatal exception while booting java.lang.IllegalArgumentException: {WHY}",
    *FRAMES,
    "",
    "ERROR: Elasticsearch did not exit normally - check the logs at /logs/elasticsearch.log",
]
REDIS = [
    "1:C 16 Nov 2026 16:49:31.440 * oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo",
    "",
    "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***",
    "Reading the configuration file, at line 1",
    ">>> 'maxmemoryy 64mb'",
    "Bad directive or wrong number of arguments",
]
PYTHON = [
    "Traceback (most recent call last):",
    '  File "<string>", line 1, in <module>',
    "ValueError: no such region: eu-west-9",
]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(JAVA, f"java.lang.IllegalArgumentException: {WHY}", id="java, the cause"),
        pytest.param(
            BOOT,
            f"fatal exception while booting java.lang.IllegalArgumentException: {WHY}",
            id="java, and what it says whatever happened",
        ),
        pytest.param(
            REDIS,
            "*** FATAL CONFIG FILE ERROR (Redis 7.0.15) ***; Reading the configuration file, at line 1; "
            ">>> 'maxmemoryy 64mb'; Bad directive or wrong number of arguments",
            id="redis, all that follows",
        ),
        pytest.param(PYTHON, "ValueError: no such region: eu-west-9", id="python"),
        pytest.param(["starting", "bye"], "bye", id="no error at all"),
        pytest.param(["INFO it failed", "INFO bye"], "INFO bye", id="words of error in a record of none"),
        pytest.param([], "", id="nothing"),
        pytest.param(["", "   "], "", id="empty lines"),
        pytest.param(
            [
                json.dumps({"log.level": "INFO", "message": "failed over"}),
                json.dumps({"log.level": "ERROR", "message": "fatal exception", "error.message": WHY}),
            ],
            f"fatal exception: {WHY}",
            id="records in json",
        ),
        pytest.param(["{not json, error"], "{not json, error", id="no json"),
    ],
)
def test_the_reason_is_found(lines: list[str], said: str) -> None:
    assert error_lines(lines, noise=NOISE) == said


def test_a_line_without_an_end_is_cut_off() -> None:
    said = error_lines(["error: " + "[" * 100_000])
    assert len(said) == LONGEST
    assert said.endswith("…")
