"""What must never get into an audit record, whatever the policy says.

The bodies of Secrets, of requests for tokens and of reviews of tokens are secrets themselves: of those a
record tells that they were asked for, by whom, and what came of it, no more. That holds for a body of such a
kind sent to a wrong path, too. (A certificate signing request holds a public key and gives a certificate;
neither is secret.)

Messages of refusals may quote what was sent. They are left out where what was sent is confidential, except
for those refusals that speak of names and rights alone.
"""

from __future__ import annotations

import re
from typing import Any

from pilothouse.apiserver.endpoints.request_info import RequestInfo

KINDS = frozenset({"Secret", "SecretList", "TokenRequest", "TokenReview"})
_SECRETS = ("", "secrets")
_TOKENS = ("", "serviceaccounts", "token")
_REVIEWS = ("authentication.k8s.io", "tokenreviews")
_MENTION = re.compile(rb"Secret\b|SecretList\b|TokenRe(quest|view)\b|\\u00")
_QUOTING_NOTHING = frozenset({401, 403, 404, 405, 409, 410, 429})


def is_place(place: RequestInfo) -> bool:
    """Whether what is read and written there is secret."""
    about = (place.group, place.plural)
    return about in (_SECRETS, _REVIEWS) or (*about, place.subresource) == _TOKENS


def is_object(value: Any) -> bool:
    """Whether a decoded body is, or holds, an object of a secret kind."""
    if not isinstance(value, dict):
        return False
    items = value.get("items")
    inner = items if isinstance(items, list) else []
    return value.get("kind") in KINDS or any(is_object(item) for item in inner)


def may_tell_refusal(place: RequestInfo, status: int, body: bytes) -> bool:
    """Whether the message of a refusal may be recorded: it quotes no secret of the body.

    The body may be one that could not be decoded, so that its text is looked at for the names of secret
    kinds.
    """
    if status in _QUOTING_NOTHING or not body:
        return True
    return not (is_place(place) or mentions(body))


def mentions(body: bytes) -> bool:
    """Whether the name of a secret kind may stand in a body."""
    return _MENTION.search(body) is not None
