"""The options of list and watch, from the query; contradictory ones are refused by name.

    options = for_list("limit=500&labelSelector=app%3Dweb")
    options.want    # RevisionMatch.LATEST

``want`` is the outcome of Kubernetes' resourceVersion matrix: which state of the collection is requested.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import lru_cache
from urllib.parse import parse_qsl

import msgspec

from pilothouse.apiserver.server.messages import is_true
from pilothouse.apiserver.storage.continue_token import ContinueToken
from pilothouse.meta import errors
from pilothouse.meta.fields import FieldError

EXACT, NOT_OLDER = "Exact", "NotOlderThan"
_LARGEST = 2**64 - 1


class RevisionMatch(Enum):
    """Which state is send_initial for."""

    LATEST = "every write acknowledged so far is in it"
    ANY = "whatever is at hand"
    AT_LEAST = "no older than a revision"
    EXACTLY = "as of a revision"
    NEXT_PAGE = "where a continue token says"


class ListOptions(msgspec.Struct, frozen=True):
    want: RevisionMatch = RevisionMatch.LATEST
    revision: int = 0
    limit: int = 0
    token: ContinueToken | None = None
    labels: str = ""
    fields: str = ""


class WatchOptions(msgspec.Struct, frozen=True):
    initial: bool = True
    """Begin with an ADDED event for everything there is."""
    revision: int | None = None
    """Changes after this one; with ``initial``, a state no older than it. None: the latest state, 0: any."""
    announce: bool = False
    """Mark the end of the initial events with a bookmark."""
    bookmarks: bool = False
    timeout: int = 0
    """Seconds until the watch ends; 0 leaves it to the server."""
    labels: str = ""
    fields: str = ""


@lru_cache(maxsize=1024)
def for_list(query: str) -> ListOptions:
    params = _params(query)
    revision_text, match = params.get("resourceVersion", ""), params.get("resourceVersionMatch", "")
    limit = max(_integer(params, "limit"), 0)
    problems = _match_problems(revision_text, match)
    if "sendInitialEvents" in params:
        problems.append(FieldError.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    token_text = params.get("continue", "")
    if token_text and match:
        detail = "resourceVersionMatch is forbidden when continue is provided"
        problems.append(FieldError.forbidden("resourceVersionMatch", detail))
    _refuse(problems)
    revision = parse_revision(revision_text)
    if token_text and revision:
        raise errors.bad_request("specifying resource version is not allowed when using continue")
    if token_text:
        want = RevisionMatch.NEXT_PAGE
    elif revision is None:
        want = RevisionMatch.LATEST
    elif revision == 0:
        want = RevisionMatch.ANY
    elif match == EXACT or (limit and not match):
        # A page at a revision without a match rule means exactly that revision, for old clients.
        want = RevisionMatch.EXACTLY
    else:
        want = RevisionMatch.AT_LEAST
    return ListOptions(
        want=want,
        revision=revision or 0,
        # What is at hand comes whole, as it always did; informers count on it.
        limit=0 if want is RevisionMatch.ANY else limit,
        token=ContinueToken.parse(token_text) if token_text else None,
        labels=params.get("labelSelector", ""),
        fields=params.get("fieldSelector", ""),
    )


@lru_cache(maxsize=1024)
def for_watch(query: str) -> WatchOptions:
    params = _params(query)
    revision_text, match = params.get("resourceVersion", ""), params.get("resourceVersionMatch", "")
    send_initial = params.get("sendInitialEvents")
    problems: list[FieldError] = []
    if send_initial is not None and match != NOT_OLDER:
        detail = f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER}"
        problems.append(FieldError.forbidden("resourceVersionMatch", detail))
    elif send_initial is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        problems.append(FieldError.forbidden("resourceVersionMatch", detail))
    if params.get("continue"):
        problems.append(FieldError.forbidden("continue", "continue is forbidden for watch"))
    _refuse(problems)
    revision = parse_revision(revision_text)
    bookmarks = is_true(params.get("allowWatchBookmarks"))
    # Without a revision to start after, the state itself has to come first.
    initial = not revision if send_initial is None else is_true(send_initial)
    return WatchOptions(
        initial=initial,
        revision=revision,
        announce=initial and send_initial is not None and bookmarks,
        bookmarks=bookmarks,
        timeout=max(_integer(params, "timeoutSeconds"), 0),
        labels=params.get("labelSelector", ""),
        fields=params.get("fieldSelector", ""),
    )


def parse_revision(text: str) -> int | None:
    """A resourceVersion parameter; None for one that is not given."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 20 and int(text) <= _LARGEST):
        raise errors.bad_request(f'invalid resource version "{text}": must be a decimal number')
    return int(text)


def _params(query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, value)
    return found


def _match_problems(revision: str, match: str) -> list[FieldError]:
    if not match:
        return []
    field = "resourceVersionMatch"
    if match not in (EXACT, NOT_OLDER):
        return [FieldError.not_supported(field, match, [EXACT, NOT_OLDER, ""])]
    if not revision:
        return [FieldError.forbidden(field, f"{field} is forbidden unless resourceVersion is provided")]
    if match == EXACT and revision == "0":
        return [FieldError.forbidden(field, f'{field} "{EXACT}" is forbidden for resourceVersion "0"')]
    return []


def _integer(params: Mapping[str, str], name: str) -> int:
    text = params.get(name, "")
    if not text:
        return 0
    digits = text[1:] if text[0] in "+-" else text
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 18):
        raise errors.bad_request(f'invalid {name} "{text}": must be an integer')
    return int(text)


def _refuse(problems: list[FieldError]) -> None:
    if problems:
        raise errors.invalid("ListOptions", "meta.k8s.io", "", problems)
