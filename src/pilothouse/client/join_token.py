"""What a machine is handed to join: where the server is, by which hash to know it, and a bootstrap token.

    token = JoinToken.parse("pilothouse://abcdef.0123456789abcdef@10.0.0.5:6443/sha256:3f2c…")
    token.url, token.bearer, token.pins
    str(token)

It is one word that can be pasted into a shell. Whoever has it can join one machine, so it is handed over like a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

SCHEME = "pilothouse"
_BEARER = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")
_PIN = re.compile(r"[0-9a-f]{64}")
_FORM = "pilothouse://ID.SECRET@HOST:PORT/sha256:HASH, as `pilothouse token create` prints it"


class JoinTokenError(ValueError):
    """A text that is no token to join with; the message says what is wrong, and never repeats the secret."""


@dataclass(frozen=True)
class JoinToken:
    """A server, and a way in."""

    url: str
    bearer: str
    pins: tuple[str, ...]
    """SHA-256 of the keys of the authorities that may vouch for the server, in hexadecimal."""

    @classmethod
    def parse(cls, text: str) -> JoinToken:
        """Raises ``JoinTokenError``."""
        if _BEARER.fullmatch(text.strip()):
            raise JoinTokenError(
                f"this is a bootstrap token alone, without server and hash; a token to join with is {_FORM}"
            )
        try:
            parts = urlsplit(text.strip())
            host, port = parts.hostname, parts.port
        except ValueError as problem:
            raise JoinTokenError(f"not a token ({problem}); it has the form {_FORM}") from None
        bearer = parts.netloc.rpartition("@")[0]
        if parts.scheme != SCHEME or not host or not port or not _BEARER.fullmatch(bearer):
            raise JoinTokenError(f"not a token; it has the form {_FORM}")
        pins = tuple(parts.path.removeprefix("/").removeprefix("sha256:").split(","))
        if not all(_PIN.fullmatch(pin) for pin in pins):
            raise JoinTokenError(
                f"the token's hash is not 64 hexadecimal digits: was its end cut off? It has the form {_FORM}"
            )
        return cls(f"https://{_bracketed(host)}:{port}", bearer, pins)

    def __str__(self) -> str:
        place = self.url.removeprefix("https://")
        return f"{SCHEME}://{self.bearer}@{place}/sha256:{','.join(self.pins)}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
