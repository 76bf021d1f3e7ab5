"""What a machine needs to join: server addresses, CA hashes and a bootstrap token, as one word.

    token = JoinToken.parse("pilothouse://abcdef.0123456789abcdef@10.0.0.5:6443/sha256:3f2c…")
    token.urls, token.bearer, token.pins
    str(token)

It can join one machine, so it is a secret like a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEME = "pilothouse"
_BEARER = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_PIN = re.compile(r"[0-9a-f]{64}")
_FORM = "pilothouse://ID.SECRET@HOST:PORT[,HOST:PORT…]/sha256:HASH, as `pilothouse token create` prints it"


class JoinTokenError(ValueError):
    """An invalid join token; the message says what is wrong, and never repeats the secret."""


@dataclass(frozen=True)
class JoinToken:
    url: str
    bearer: str
    pins: tuple[str, ...]
    """SHA-256 of the keys of the authorities that may vouch for the server, in hexadecimal."""
    others: tuple[str, ...] = ()
    """Further addresses of the same API."""

    @property
    def identifier(self) -> str:
        """Its public name, as in `token list`."""
        return self.bearer.partition(".")[0]

    @property
    def urls(self) -> tuple[str, ...]:
        return self.url, *self.others

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Raises ``JoinTokenError``."""
        if _BEARER.fullmatch(text.strip()):
            raise JoinTokenError(
                f"this is a bootstrap token alone, without server and hash; a token to join with is {_FORM}"
            )
        try:
            parts = urlsplit(text.strip())
            bearer, _, places = parts.netloc.rpartition("@")
            urls = tuple(_url(place) for place in places.split(","))
        except ValueError as problem:
            raise JoinTokenError(f"not a token ({problem}); it has the form {_FORM}") from None
        if parts.scheme != SCHEME or not all(urls) or not _BEARER.fullmatch(bearer):
            raise JoinTokenError(f"not a token; it has the form {_FORM}")
        pins = tuple(parts.path.removeprefix("/").removeprefix("sha256:").split(","))
        if not all(_PIN.fullmatch(pin) for pin in pins):
            raise JoinTokenError(
                f"the token's hash is not 64 hexadecimal digits: was its end cut off? It has the form {_FORM}"
            )
        return cls(urls[0], bearer, pins, urls[1:])

    def __str__(self) -> str:
        places = ",".join(url.removeprefix("https://") for url in self.urls)
        return f"{SCHEME}://{self.bearer}@{places}/sha256:{','.join(self.pins)}"


def _url(place: str) -> str:
    """Of HOST:PORT; empty if it is not that. Raises ``ValueError``."""
    parts = urlsplit(f"//{place}")
    if not parts.hostname or not parts.port or parts.path:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"https://{host}:{parts.port}"
