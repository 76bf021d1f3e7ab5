"""Which payloads a machine accepts.

    trust = PayloadTrust("signed", (PublicKey.parse(text),))
    trust.check_order(payload)                   # before anything is downloaded
    trust.verify(path, signature, payload)       # DownloadFailed says why not

``any`` takes what the plan names, ``digest`` needs a hash in the plan, and ``signed`` a signature by a
trusted key beside the payload, whose trusted comment names version and platform: ``version:v1.2.3
platform:linux-amd64``. A signed payload that is older than what runs is taken only by force: the signatures
of old versions stay valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.api.k0s.release_versions import newer
from pilothouse.pki.minisign import SUFFIX, PublicKey, SignatureError, verify_file
from pilothouse.updates.trusted_comments import parse_trusted_comment

PayloadPolicy = Literal["any", "digest", "signed"]
SIGNATURE_LIMIT: Final = 1 << 16


@dataclass(frozen=True)
class PayloadTrust:
    policy: PayloadPolicy = "any"
    keys: tuple[PublicKey, ...] = ()

    @property
    def needs_signature(self) -> bool:
        return self.policy == "signed"

    def check_order(self, payload: Payload) -> None:
        """Whether the plan says enough. Raises DownloadFailed."""
        if self.policy == "digest" and not payload.sha256:
            raise DownloadFailed(
                f"the plan has no sha256 for {payload.platform}, and this machine takes no payload without "
                "(--payloads digest)"
            )
        older = bool(payload.running) and newer(payload.running, payload.version)
        if self.needs_signature and older and not payload.forced:
            raise DownloadFailed(
                f"{payload.version} is older than {payload.running}, which runs; forceupdate installs it"
            )

    def verify(self, path: Path, signature: str, payload: Payload) -> None:
        """Whether a signature is good, and for this payload. Raises DownloadFailed."""
        try:
            comment = verify_file(path, signature, self.keys)
        except SignatureError as problem:
            raise DownloadFailed(f"the signature of {payload.url} is not accepted: {problem}") from None
        named = parse_trusted_comment(comment)
        wanted = {"version": payload.version, "platform": payload.platform}
        missing = [f"{name}:{value}" for name, value in wanted.items() if named.get(name) != value]
        if missing:
            raise DownloadFailed(
                f"the signature of {payload.url} is for something else: its trusted comment {comment!r} does "
                f"not name {' and '.join(missing)}"
            )


def signature_url(url: str) -> str:
    """Where the signature of a URL is.

    >>> signature_url("https://dl.example/k0s?x=1")
    'https://dl.example/k0s.minisig?x=1'
    """
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path}{SUFFIX}").geturl()
