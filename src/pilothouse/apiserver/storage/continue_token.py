"""Continue tokens: where the next page of a list starts, and at which revision.

    ContinueToken(revision=812, after="t/web-3").encode()
    # eyJydiI6ODEyLCJzdGFydCI6InQvd2ViLTNcdTAwMDAiLCJ2IjoibWV0YS5rOHMuaW8vdjEifQ

The form is Kubernetes': ``start`` is the last key, without the collection's prefix, and a zero byte. Tokens
come from clients, so they are validated (400).
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode

import msgspec

from pilothouse.meta import errors

_VERSION = "meta.k8s.io/v1"
_LONGEST = 2048
_LARGEST = 2**63 - 1
LATEST = -1
"""In a token's ``revision``: continue in the latest state, not in that of earlier pages."""


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


_decoder = msgspec.json.Decoder(_Token)


class ContinueToken(msgspec.Struct, frozen=True):
    """The place after a page."""

    revision: int
    after: str
    """The last key that was shown, without the collection's prefix."""

    def encode(self) -> str:
        body = msgspec.json.encode(_Token(_VERSION, self.revision, f"{self.after}\0"))
        return urlsafe_b64encode(body).rstrip(b"=").decode()

    @classmethod
    def parse(cls, text: str) -> ContinueToken:
        """The token a client sent back; 400 for what can't be one."""
        if len(text) > _LONGEST:
            raise _invalid("it is too long")
        try:
            raw = text.encode("ascii")
            token = _decoder.decode(urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)))
        except (ValueError, binascii.Error, msgspec.MsgspecError):
            raise _invalid("it is not one that this server gave out") from None
        if token.v != _VERSION:
            raise _invalid(f"its version {token.v!r} is not known")
        if token.rv != LATEST and not 0 < token.rv <= _LARGEST:
            raise _invalid("its resource version is out of range")
        after = token.start.removesuffix("\0")
        parts = after.split("/")
        if not _is_text(after) or after == token.start or any(part in ("", ".", "..") for part in parts):
            raise _invalid("its start key is not a key")
        return cls(token.rv, after)


def _is_text(key: str) -> bool:
    """True for what can be part of a key: JSON can say half a surrogate pair, UTF-8 can't."""
    return "\0" not in key and not any("\ud800" <= each <= "\udfff" for each in key)


def _invalid(why: str) -> errors.StatusError:
    return errors.bad_request(f"invalid continue token: {why}")
