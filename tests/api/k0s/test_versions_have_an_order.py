"""Released versions are ordered as Semantic Versioning has it, and builds of one release by their number."""

from __future__ import annotations

from itertools import pairwise

import pytest

from pilothouse.api.k0s.release_versions import newer, release_order

ASCENDING = (
    "v0.9.12",
    "v1.29.10",
    "v1.30.1-alpha",
    "v1.30.1-alpha.1",
    "v1.30.1-rc.9",
    "v1.30.1-rc.10",
    "v1.30.1",
    "v1.30.1+k0s.0",
    "v1.30.1+k0s.1",
    "v1.30.1+k0s.10",
    "v1.30.2-rc.1+k0s.0",
    "v1.30.2",
    "v2.0.0",
)


@pytest.mark.parametrize(("lower", "higher"), list(pairwise(ASCENDING)))
def test_k0s_A44_each_is_newer_than_the_one_before(lower: str, higher: str) -> None:
    assert release_order(lower) < release_order(higher)
    assert newer(higher, lower)
    assert not newer(lower, higher)


@pytest.mark.parametrize("same", ["1.30.1", "v1.30.1+20260101", "v1.30.1+exp.sha-5114f85"])
def test_spelling_and_other_build_text_make_no_difference(same: str) -> None:
    assert release_order(same) == release_order("v1.30.1")
    assert not newer(same, "v1.30.1")


def test_two_numbers_are_a_version() -> None:
    assert release_order("v1.30") == release_order("v1.30.0")


def test_an_offer_that_is_no_version_is_never_newer() -> None:
    assert not newer("latest", "v1.30.1")


def test_any_version_is_newer_than_what_is_none() -> None:
    assert newer("v0.0.1", "devel")
