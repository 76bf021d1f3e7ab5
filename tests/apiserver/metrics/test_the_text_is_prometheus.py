from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.apiserver.metrics.scraped import Scraped

from pilothouse.base.histogram import Histogram
from pilothouse.base.prometheus_text import LONGEST, counter, gauge, histogram, labels

text = st.text(st.characters(codec="utf-8", exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"))


@given(text, st.floats(allow_nan=False, allow_infinity=False))
def test_any_label_and_value_read_back(label: str, value: float) -> None:
    page = Scraped.read(gauge("a_gauge", "Help.", [(labels(name=label, other="x"), value)]).encode())
    assert page.samples == [("a_gauge", {"name": label[:LONGEST], "other": "x"}, value)]


@given(st.lists(st.floats(0, 200), min_size=1))
def test_histograms_are_cumulative(values: list[float]) -> None:
    seen = Histogram((0.1, 1, 10))
    for value in values:
        seen.observe(value)
    page = Scraped.read(histogram("took_seconds", "Help.", [(labels(verb="GET"), seen)]).encode())
    for bound in ("0.1", "1", "10"):
        assert page.value("took_seconds_bucket", le=bound) == sum(value <= float(bound) for value in values)
    assert page.value("took_seconds_bucket", le="+Inf") == page.value("took_seconds_count") == len(values)
    assert page.types == {"took_seconds": "histogram"}


def test_a_family_without_samples_is_left_out() -> None:
    assert gauge("a", "Help.", []) == counter("b", "Help.", []) == histogram("c", "Help.", []) == ""
