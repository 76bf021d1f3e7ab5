from __future__ import annotations

from pilothouse.apiserver.authorization.authorizer import (
    NO_OPINION,
    Attributes,
    AuthorizationDecision,
    Authorizer,
    Chain,
    Masters,
)
from pilothouse.apiserver.server.messages import User

ASKED = Attributes("get", resource="pods")
ALICE = User("alice")
YES = AuthorizationDecision(True, "granted")
NO = AuthorizationDecision(False, "beyond its scope", denied=True)


class Always:
    def __init__(self, decision: AuthorizationDecision) -> None:
        self._decision = decision

    def decide(self, user: User, attributes: Attributes) -> AuthorizationDecision:
        return self._decision


def decided(*opinions: AuthorizationDecision | Authorizer, user: User = ALICE) -> AuthorizationDecision:
    authorizers = [Always(each) if isinstance(each, AuthorizationDecision) else each for each in opinions]
    return Chain(authorizers).decide(user, ASKED)


def test_whoever_denies_first_is_not_overruled() -> None:
    assert decided(NO, YES) == NO
    assert decided(NO_OPINION, NO, YES) == NO


def test_whoever_allows_first_is_not_overruled() -> None:
    assert decided(YES, NO) == YES


def test_no_opinion_at_all_is_a_no_with_every_reason() -> None:
    assert decided() == NO_OPINION
    assert decided(NO_OPINION, NO_OPINION) == NO_OPINION
    assert decided(
        AuthorizationDecision(False, "a"), NO_OPINION, AuthorizationDecision(False, "b")
    ) == AuthorizationDecision(False, "a\nb")


def test_masters_go_ahead_of_every_restriction() -> None:
    assert decided(Masters(), NO, user=User("root", groups=("system:masters",))).allowed
    assert decided(Masters(), NO, user=User("system:masters")) == NO
