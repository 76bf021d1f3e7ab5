"""Text formats that Kubernetes checks."""

from __future__ import annotations

import pytest

from pilothouse.meta.schema.formats import FORMATS, Pattern


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2014-12-15T19:30:20.000Z", "2024-02-29T00:00:00+01:00"],
            ["2023-02-29T00:00:00Z", "noon", ""],
        ),
        ("date", ["2024-02-29"], ["2024-2-29", "2023-02-29", "20240229"]),
        ("duration", ["1h30m", "22ns", "-1.5h", "0", "22 seconds"], ["1 year", "h", "", "5"]),
        ("byte", ["aGk=", ""], ["a", "a b="]),
        ("ipv4", ["10.0.0.1"], ["10.0.0", "::1", "10.0.0.256"]),
        ("ipv6", ["::1", "fe80::1"], ["10.0.0.1", "fe80::1%eth0"]),
        ("cidr", ["10.0.0.0/8", "10.1.2.3/8", "::/0"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/255.0.0.0"]),
        ("uri", ["http://a/b?c", "/a", "urn:x"], ["a b", "", "relative", "http://a:port/"]),
        ("uuid", ["0b7e0c3c-8ad1-4e0e-9a2b-0a1b2c3d4e5f", "0B7E0C3C8AD14E0E9A2B0A1B2C3D4E5F"], ["x", ""]),
        ("uuid4", ["0b7e0c3c-8ad1-4e0e-9a2b-0a1b2c3d4e5f"], ["0b7e0c3c-8ad1-3e0e-9a2b-0a1b2c3d4e5f"]),
        ("email", ["a@b.io", "A B <a@b.io>"], ["a", "@b", "a@"]),
        ("hostname", ["a.example.io", "a"], ["-a", "a..b", "a_b", "x" * 64]),
        ("mac", ["01:23:45:67:89:ab", "0123.4567.89ab"], ["01:23", "01-23:45-67-89-ab"]),
        ("isbn", ["0321751043", "978-0321751041"], ["0321751044", "x"]),
        ("creditcard", ["4111 1111 1111 1111"], ["4111111111111112"]),
        ("hexcolor", ["#FFF", "00ff00"], ["#12"]),
        ("rgbcolor", ["rgb(255,0,1)"], ["rgb(256,0,0)"]),
        ("ssn", ["111-22-3333"], ["1-2-3"]),
        ("bsonobjectid", ["507f1f77bcf86cd799439011"], ["507f"]),
    ],
)
def test_a_format_tells_good_from_bad(name: str, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if not FORMATS[name](text)] == []
    assert [text for text in bad if FORMATS[name](text)] == []


@pytest.mark.parametrize("pattern", ["a(?=b)", r"(a)\1", "("])
def test_a_pattern_beyond_re2_is_refused_with_the_reason(pattern: str) -> None:
    with pytest.raises(ValueError, match="RE2"):
        Pattern(pattern)


def test_a_pattern_matches_anywhere_unless_anchored() -> None:
    assert Pattern("b").matches("abc")
    assert not Pattern("^b").matches("abc")
