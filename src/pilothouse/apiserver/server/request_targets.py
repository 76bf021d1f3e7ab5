"""Request targets: what the first line of a request asks for, made safe to work with.

    split("/api/v1/namespaces/t/pods/a%2Db?watch=1")   # ("/api/v1/namespaces/t/pods/a-b", "watch=1")

A target is a path that begins with one slash, and a query (origin form, RFC 9112). A proxy's absolute form, a fragment, a
backslash and two slashes at the beginning, which others read as a host, are refused: what they ask for depends on the reader.

What comes out is valid text of a reasonable length, without control characters and without ``.`` or ``..`` segments, so
that no other code has to check for them. Everything else about a path is up to ``request_info``.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from pilothouse.meta.errors import StatusError, bad_request

LONGEST = 4096
"""Characters of a path, several times what the longest names can make. Paths are remembered, so they have bounds."""
_HEX = frozenset("0123456789abcdefABCDEF")


def split(target: str) -> tuple[str, str]:
    """The decoded path and the query as it came. ``target`` is how the parser hands it over: bytes that are not UTF-8
    stand in it as lone surrogates.
    """
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
    """Percent-decoding that does not guess: each ``%`` has two hex digits after it, and the result is UTF-8."""
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
