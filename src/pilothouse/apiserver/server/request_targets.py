"""Parses and normalises request targets.

    split("/api/v1/namespaces/t/pods/a%2Db?watch=1")   # ("/api/v1/namespaces/t/pods/a-b", "watch=1")

Only the origin form of RFC 9112 is accepted; the absolute form, fragments, backslashes and a leading ``//``
are ambiguous and refused. The result is valid text of limited length, without control characters and ``.`` or
``..`` segments.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from pilothouse.meta.errors import StatusError, bad_request

LONGEST = 4096
"""Characters of a path, several times what the longest names need. Paths are cached, so they are bounded."""
_HEX = frozenset("0123456789abcdefABCDEF")


def split(target: str) -> tuple[str, str]:
    """The decoded path and the raw query. In ``target`` bytes that are not UTF-8 are lone surrogates."""
    path, _, query = target.partition("?")
    plain = target.isascii() and "%" not in path and "#" not in target and "\\" not in path
    if not (plain and path.startswith("/") and "/." not in path and not path.startswith("//")):
        path, query = _carefully(target)
    if len(path) > LONGEST:
        raise StatusError(
            414,
            "RequestURITooLong",
            f"the request's path has {len(path)} characters; at most {LONGEST} are taken",
        )
    return path, query


def _carefully(target: str) -> tuple[str, str]:
    try:
        target.encode()
    except UnicodeEncodeError:
        raise bad_request("the request's path holds bytes that are not UTF-8") from None
    raw, _, query = target.partition("?")
    if not raw.startswith("/") or raw.startswith("//"):
        raise bad_request('the request\'s target must be a path that begins with one "/"')
    if "#" in target:
        raise bad_request("the request's target may not have a fragment")
    if "\\" in raw:
        raise bad_request("the request's path may not hold a backslash")
    path = _decode(raw)
    for character in path:
        if character < " " or character == "\x7f":
            raise bad_request(f"the request's path holds the control character {character!r}")
    for segment in path.split("/"):
        if segment in (".", ".."):
            raise bad_request(f'the request\'s path may not hold a "{segment}" segment')
    return path, query


def _decode(raw: str) -> str:
    """Strict percent-decoding: each ``%`` needs two hex digits, and the result must be UTF-8."""
    at = raw.find("%")
    while at >= 0:
        digits = raw[at + 1 : at + 3]
        if len(digits) != 2 or not _HEX.issuperset(digits):
            raise bad_request(
                f"the request's path has a bad percent encoding: {raw[at : at + 3]!r} at position {at}"
            )
        at = raw.find("%", at + 3)
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise bad_request("the request's path is percent-encoded, but not as UTF-8") from None
