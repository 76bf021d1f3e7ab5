from __future__ import annotations

import copy
import random

import pytest

from pilothouse.meta.versions import Version, VersionError, api_version_rank


def test_api_versions_are_ordered_as_kubernetes_orders_them() -> None:
    ordered = [
        "v10",
        "v2",
        "v1",
        "v11beta2",
        "v10beta3",
        "v3beta1",
        "v12alpha1",
        "v11alpha2",
        "foo1",
        "foo10",
    ]
    shuffled = random.Random(1).sample(ordered, len(ordered))
    assert sorted(shuffled, key=api_version_rank) == ordered


def test_semantic_version_order() -> None:
    ordered = [
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.0.1",
        "1.10.0",
    ]
    versions = [Version.parse_strict(text) for text in ordered]
    shuffled = random.Random(1).sample(versions, len(versions))
    assert sorted(shuffled) == versions
    assert Version.parse("1.0.0+a") == Version.parse("1.0.0+b")


@pytest.mark.parametrize(
    ("text", "padded"),
    [
        pytest.param("3", "3.0.0", id="W05"),
        pytest.param("3.9", "3.9.0", id="W06"),
        pytest.param("3.9-alpha1+dev2", "3.9.0-alpha1+dev2", id="W07"),
        pytest.param("3.9.0", "3.9.0", id="W08"),
        pytest.param("3.9.0-beta1+dev1", "3.9.0-beta1+dev1", id="W09"),
        ("v7.17.29", "7.17.29"),
        ("1.2.3.4", "1.2.3.4"),
    ],
)
def test_lenient_versions_keep_their_text(text: str, padded: str) -> None:
    version = Version.parse(text)
    assert (str(version), version.padded) == (text, padded)
    assert version == Version.parse(padded)
    assert hash(version) == hash(Version.parse(padded))


@pytest.mark.parametrize(
    "text", ["", "0.0.x", "X.Y-foo+bar", "X.Y.0-", "3.9.0-", "3..9", "3.9+", " 3", "3.9 ", "٣"]
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(VersionError, match="is not a version"):
        Version.parse(text)


def test_an_unquoted_version_is_refused() -> None:
    with pytest.raises(VersionError, match="string in quotes"):
        Version.parse(3.9)  # type: ignore[arg-type]  # As YAML reads it.


@pytest.mark.parametrize("text", ["3.9", "v3.9.0", "03.9.0", "1.0.0-01", "1.2.3.4"])
def test_strict_versions_are_three_plain_numbers(text: str) -> None:
    with pytest.raises(VersionError, match="semantic version"):
        Version.parse_strict(text)


def test_W10_copies_are_equal() -> None:
    assert copy.deepcopy(Version("")) == Version("")
