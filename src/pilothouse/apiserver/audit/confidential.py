"""What must never get into an audit record, whatever the policy says.

Bodies of Secrets, token requests and token reviews are not recorded, even if sent to a wrong path. (A
certificate signing request holds no secret.) Error messages may quote the body, so for these kinds only
messages about names and permissions are recorded.
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
    """Whether requests there carry secrets."""
    about = (place.group, place.plural)
    return about in (_SECRETS, _REVIEWS) or (*about, place.subresource) == _TOKENS


def is_object(value: Any) -> bool:
    """Whether a decoded body is, or holds, an object of a secret kind."""
    if not isinstance(value, dict):
        return False
    items = value.get("items")
    inner = items if isinstance(items, list) else []
    return value.get("kind") in KINDS or any(is_object(item) for item in inner)


def may_record_message(place: RequestInfo, status: int, body: bytes) -> bool:
    """Whether the message of an error response may be recorded, because it can't quote a secret.

    A body that could not be decoded is searched for the names of secret kinds.
    """
    if status in _QUOTING_NOTHING or not body:
        return True
    return not (is_place(place) or mentions(body))


def mentions(body: bytes) -> bool:
    """Whether the name of a secret kind may stand in a body."""
    return _MENTION.search(body) is not None
