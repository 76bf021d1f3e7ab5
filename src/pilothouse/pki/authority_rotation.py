"""Rotation of a control plane's authority.

    there = Authorities(current)
    there = there.prepare(coming)      # signs with the old one, trusts both
    there = there.switch()             # signs with the new one, trusts both
    there = there.finish()             # the old one is forgotten

Clients have to trust the new authority before ``switch``, and have certificates of it before ``finish``, the
only step that invalidates certificates.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from pilothouse.pki.authority import KeyPair, UnusableError


class StepError(Exception):
    """A step that can't be taken now; the message says which can."""


@dataclass(frozen=True)
class Authorities:
    """Who signs, who will, and who did."""

    current: KeyPair
    coming: KeyPair | None = None
    leaving: bytes = b""
    """Certificates (PEM) of authorities that still are trusted and sign no more."""

    @property
    def trusted(self) -> bytes:
        """The certificates (PEM) of all that are trusted, the one that signs first."""
        coming = self.coming.certificate if self.coming is not None else b""
        return b"".join(_line_ended(pem) for pem in (self.current.certificate, coming, self.leaving) if pem)

    def prepare(self, coming: KeyPair) -> Authorities:
        if self.coming is not None:
            raise StepError("a new authority is prepared already; the next step is switch")
        if self.leaving:
            raise StepError("an old authority is still trusted; the next step is finish")
        return Authorities(self.current, coming)

    def switch(self) -> Authorities:
        if self.coming is None:
            following = "finish" if self.leaving else "prepare"
            raise StepError(f"no new authority is prepared; the next step is {following}")
        return Authorities(self.coming, leaving=self.current.certificate)

    def finish(self) -> Authorities:
        if self.coming is not None:
            raise StepError("the new authority does not sign yet; the next step is switch")
        if not self.leaving:
            raise StepError("no old authority is trusted any more; there is nothing to finish")
        return Authorities(self.current)

    @property
    def stage(self) -> str:
        """The state of the rotation, for people."""
        if self.coming is not None:
            return "a new authority is prepared and trusted; the next step is switch"
        if self.leaving:
            return "the new authority signs and the old one is still trusted; the next step is finish"
        return "there is one authority"


class _Stored(msgspec.Struct, omit_defaults=True):
    certificate: str
    key: str
    coming: _StoredPair | None = None
    leaving: str = ""


class _StoredPair(msgspec.Struct):
    certificate: str
    key: str


def encode(authorities: Authorities) -> bytes:
    """As JSON, to be kept in a store."""
    current, coming = authorities.current, authorities.coming
    pair = None
    if coming is not None:
        pair = _StoredPair(coming.certificate.decode(), coming.key.decode())
    leaving = authorities.leaving.decode()
    return msgspec.json.encode(_Stored(current.certificate.decode(), current.key.decode(), pair, leaving))


def decode(content: bytes) -> Authorities:
    """Raises ``UnusableError``."""
    try:
        stored = msgspec.json.decode(content, type=_Stored)
    except msgspec.DecodeError as problem:
        raise UnusableError(f"not a certificate with its key: {problem}") from None
    coming = None
    if stored.coming is not None:
        coming = KeyPair(stored.coming.certificate.encode(), stored.coming.key.encode())
    return Authorities(
        KeyPair(stored.certificate.encode(), stored.key.encode()), coming, stored.leaving.encode()
    )


def _line_ended(pem: bytes) -> bytes:
    return pem if pem.endswith(b"\n") else pem + b"\n"
