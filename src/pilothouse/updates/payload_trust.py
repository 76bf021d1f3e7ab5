"""Which payloads a machine accepts.

    trust = PayloadTrust("signed", (PublicKey.parse(text),))
    trust.check_payload(payload)                 # before anything is downloaded
    trust.verify(path, signature, payload)       # DownloadFailed says why not

``any`` takes what the plan names, ``digest`` needs a hash in the plan, and ``signed`` a signature by a
trusted key beside the payload, whose trusted comment names version and platform: ``version:v1.2.3
platform:linux-amd64``. A signed payload that is older than what runs is taken only by force: the signatures
of old versions stay valid. If what runs reports no version, the last one counts that the machine is known to
have had; if there is none either, a program that is installed is replaced only by force. Where no program is
installed, and for a first bundle, there is nothing to compare with.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.api.k0s.release_versions import is_release, newer
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

    def check_payload(self, payload: Payload) -> None:
        """Whether a payload may be downloaded, by its hash and version in the plan. Raises DownloadFailed."""
        if self.policy == "digest" and not payload.sha256:
            raise DownloadFailed(
                f"the plan has no sha256 for {payload.platform}, and this machine takes no payload without "
                "(--payloads digest)"
            )
        if self.needs_signature and not payload.forced and (problem := _downgrade(payload)):
            raise DownloadFailed(f"{problem}; forceupdate installs it" if payload.replaces else problem)

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


def _downgrade(payload: Payload) -> str:
    """Why a payload is, or may be, older than what it replaces; empty if it is not."""
    version = payload.version
    if is_release(payload.running):
        older = newer(payload.running, version)
        return f"{version} is older than {payload.running}, which runs" if older else ""
    if is_release(payload.recorded):
        older = newer(payload.recorded, version)
        return f"{version} is older than {payload.recorded}, which this machine had last" if older else ""
    if payload.replaces:
        return f"the version that is installed is not known, so {version} may be older"
    return ""


def signature_url(url: str) -> str:
    """Where the signature of a URL is.

    >>> signature_url("https://dl.example/k0s?x=1")
    'https://dl.example/k0s.minisig?x=1'
    """
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path}{SUFFIX}").geturl()
