from __future__ import annotations

import pytest

from pilothouse.apiserver.authentication.authenticator import Authenticator, TokenFileError, read_tokens
from pilothouse.apiserver.server.messages import User


def identify(text: str, token: str) -> User:
    return Authenticator(read_tokens(text, "tokens.csv")).identify(None, f"Bearer {token}")


def test_groups_are_one_quoted_column() -> None:
    user = identify('t1,alice,1,"dev, ops"\nt2,bob,2,qa\nt3,carol,3\n', "t1")
    assert user == User("alice", "1", ("dev", "ops", "system:authenticated"))


def test_a_line_may_have_one_group_or_none() -> None:
    text = 't1,alice,1,"dev, ops"\nt2,bob,2,qa\nt3,carol,3\n'
    assert identify(text, "t2").groups == ("qa", "system:authenticated")
    assert identify(text, "t3").groups == ("system:authenticated",)


def test_empty_lines_and_comments_are_skipped() -> None:
    assert identify("\n# who we are\n  \nt1,alice,1\n", "t1").name == "alice"


def test_the_scheme_is_matched_without_case() -> None:
    assert Authenticator(read_tokens("t1,alice,1", "f")).identify(None, "bEaReR  t1 ").name == "alice"


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer  ", ""])
def test_what_is_no_token_is_nobody(header: str) -> None:
    assert Authenticator().identify(None, header).name == "system:anonymous"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t1,alice", 'tokens.csv, line 1: 2 of the columns token,user,uid[,"group,group"]'),
        (
            "t1,a,1\n\nt2,bob,2,dev,ops",
            'line 3, column 5: one column too many; several groups go in one, quoted: "dev,ops"',
        ),
        (",alice,1", "line 1, column 1: the token is empty"),
        ("t1,,1", "line 1, column 2: the user is empty"),
        ("t1,alice,1\nt1,bob,2", "line 2, column 1: the token of line 1 again"),
        ('t1,alice,1,"dev', "line 1"),
    ],
)
def test_mistakes_are_named_by_line_and_column(text: str, message: str) -> None:
    with pytest.raises(TokenFileError) as caught:
        read_tokens(text, "tokens.csv")
    assert message in str(caught.value)


def test_no_message_shows_a_token() -> None:
    with pytest.raises(TokenFileError) as caught:
        read_tokens("s3cret,alice,1\ns3cret,bob,2", "tokens.csv")
    assert "s3cret" not in str(caught.value)
