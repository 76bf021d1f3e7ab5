from __future__ import annotations

import base64

import pytest

from pilothouse.pki.encryption_keys import EncryptionKeys, KeyFileError, new_key_line

GOOD = base64.b64encode(bytes(range(32))).decode()
OTHER = base64.b64encode(bytes(32)).decode()


def read(text: str) -> EncryptionKeys:
    return EncryptionKeys.read(text.encode(), "keys.txt")


def test_the_first_key_seals_and_all_open() -> None:
    old = read(f"2030:{GOOD}\n")
    new = read(f"# rotated in spring\n\n2031:{OTHER}\n2030:{GOOD}\n")
    assert new.names == ("2031", "2030")
    assert new.open("/a", old.seal("/a", b"value")) == b"value"
    assert new.seal("/a", b"value").startswith(b"pilothouse:sealed:v1:2031:")


def test_a_line_that_was_made_can_be_read() -> None:
    assert read(new_key_line("spring-2031")).names == ("spring-2031",)


def test_a_made_key_needs_a_good_name() -> None:
    with pytest.raises(ValueError, match="letters, digits"):
        new_key_line("a:b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no key"),
        ("# nothing\n\n", "holds no key"),
        (f"a:{GOOD}\nb {OTHER}\n", "line 2: no colon"),
        (f":{GOOD}", "line 1: the name before the colon"),
        (f"a b:{GOOD}", "line 1: the name before the colon"),
        (f"\n\nä:{GOOD}", "line 3: the name before the colon"),
        (f"{'x' * 64}:{GOOD}", "line 1: the name before the colon"),
        ("a:not base64!", "line 1: what follows the colon is not base64"),
        ("a:c2hvcnQ=", "line 1: the key has 5 bytes and must have 32"),
        (f"a:{GOOD}\nb:{OTHER}\na:{OTHER}", "line 3: the name 'a' of line 1 again"),
        (f"a:{GOOD}\n\nb:{GOOD}", "line 3: the key of line 1 under another name"),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, said: str) -> None:
    with pytest.raises(KeyFileError) as refused:
        read(text)
    assert "keys.txt" in str(refused.value)
    assert said in str(refused.value)


def test_no_message_shows_a_key() -> None:
    with pytest.raises(KeyFileError) as refused:
        read(f"a:{GOOD}\na:{GOOD}")
    assert GOOD not in str(refused.value)
    with pytest.raises(KeyFileError) as refused:
        read(GOOD)
    assert GOOD not in str(refused.value)
