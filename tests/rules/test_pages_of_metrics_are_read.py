"""Only wanted lines of a page are parsed, as prometheus_client parses them."""

from __future__ import annotations

import math
from random import Random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pilothouse.rules import metrics_pages
from pilothouse.rules.metrics_pages import parse_series, read_page


def everything(name: bytes) -> bool:
    return True


def test_only_wanted_names_are_read() -> None:
    page = b'# HELP used x\n# TYPE used gauge\nused 5\nused_total 6\nother{a="used"} 7\n'
    assert read_page(page, {b"used"}.__contains__, 10).samples == {b"used": 5.0}


def random_page(rng: Random) -> str:
    lines = []
    for number in range(rng.randrange(1, 30)):
        labels = [
            f'l{each}="{rng.choice(("", "a b", "{", "}", "a}b", "é", chr(92) * 2, chr(92) + chr(34), chr(92) + "n", "#", ","))}"'
            for each in range(rng.randrange(3))
        ]
        braces = "{" + ",".join(labels) + rng.choice(("", ",") if labels else ("",)) + "}"
        value = rng.choice(("1", "-2.5", "1e9", "NaN", "+Inf", "-Inf", "0x"[:1]))
        time = rng.choice(("", "", " 1700000000000"))
        lines.append(f"m{number}{braces if labels or rng.random() < 0.5 else ''} {value}{time}")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("seed", range(50))
def test_pages_mean_what_they_mean_to_prometheus_client(seed: int) -> None:
    page = random_page(Random(seed))
    expected = {
        (("__name__", sample.name), *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }
    found = {}
    for text, value in read_page(page.encode(), everything, 1000).samples.items():
        labels = dict(parse_series(text) or {})
        found[("__name__", labels.pop("__name__")), *sorted(labels.items())] = value
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert found[key] == value or (math.isnan(value) and math.isnan(found[key]))


@pytest.mark.parametrize(
    "line",
    [
        b"used", b"used x", b"used 1 2 3", b"used{} ", b'used{a="b"} 1 # {x="y"} 1', b'used{a="b" 1',
        b"used " + b"9" * 20_000,
    ],
)  # fmt: skip
def test_malformed_lines_are_counted(line: bytes) -> None:
    content = read_page(line + b"\nfine 1\n", everything, 10)
    unreadable = [text for text in content.samples if parse_series(text) is None]
    assert content.malformed + len(unreadable) == 1
    assert content.samples[b"fine"] == 1


@pytest.mark.parametrize(
    "series",
    [b'a{b="c" d="e"}', b"a{b=c}", b'a{b="c",b="d"}', b'a{__name__="b"}', b'a{b="\xff"}', b"1a", b'a{b="c}'],
)
def test_malformed_series_are_refused(series: bytes) -> None:
    assert parse_series(series) is None


def test_a_page_is_read_to_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    content = read_page(b"a 1\nb 2\nc 3\n", everything, 2)
    assert (len(content.samples), content.too_many) == (2, 1)
    monkeypatch.setattr(metrics_pages, "MOST_LINES", 100)
    content = read_page(b"\n" * 1000 + b"a 1\n", everything, 2)
    assert (len(content.samples), content.too_many) == (0, 1)


def test_a_page_of_many_names_does_not_fill_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_pages, "MOST_NAMES", 10)
    asked = []

    def wanted(name: bytes) -> bool:
        asked.append(name)
        return False

    read_page(b"".join(b"m%d 1\n" % number for number in range(1000)), wanted, 10)
    assert len(asked) == 10
