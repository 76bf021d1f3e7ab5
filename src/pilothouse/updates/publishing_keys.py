"""The keys of a publisher of updates, in a private folder.

    PublishingKeys.create(Path("keys"))
    keys = PublishingKeys(Path("keys"))
    keys.payload_key()                   # minisign: signs payloads
    keys.signer("timestamp")             # TUF: signs the metadata of a channel

``minisign.pub`` is for machines (``--trusted-keys``). ``root.pem`` signs only the list of the other keys: it
may be kept elsewhere until keys are replaced.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pilothouse.pki.ed25519_keys import load_ed25519
from pilothouse.pki.minisign import SecretKey, SignatureError
from pilothouse.pki.private_files import private_folder, write_private

if TYPE_CHECKING:
    from securesystemslib.signer import CryptoSigner

ROLES: Final = ("root", "targets", "snapshot", "timestamp")
PAYLOAD_KEY: Final = "minisign.key"
PAYLOAD_PUBLIC_KEY: Final = "minisign.pub"


class PublishError(Exception):
    """What was asked of a publisher can't be done; says why."""


class PublishingKeys:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path) -> PublishingKeys:
        """New keys, in a folder that has none. Raises PublishError."""
        keys = cls(folder)
        there = [name for name in (PAYLOAD_KEY, *map(keys.file, ROLES)) if (folder / name).exists()]
        if there:
            raise PublishError(f"{folder} has keys already ({', '.join(there)}); name another folder")
        make = _signer_class()
        signers = {role: make.generate_ed25519() for role in ROLES}
        secret = SecretKey.generate()
        try:
            private_folder(folder)
            for role, signer in signers.items():
                write_private(folder / keys.file(role), signer.private_bytes)
            write_private(folder / PAYLOAD_KEY, secret.dump().encode())
            (folder / PAYLOAD_PUBLIC_KEY).write_text(secret.public().dump())
        except OSError as problem:
            raise PublishError(f"{folder}: {problem.strerror or problem}") from None
        return keys

    @staticmethod
    def file(role: str) -> str:
        return f"{role}.pem"

    def payload_key(self) -> SecretKey:
        """Raises PublishError."""
        path = self.folder / PAYLOAD_KEY
        try:
            return SecretKey.parse(_read(path).decode("ascii", "replace"))
        except SignatureError as problem:
            raise PublishError(f"{path}: {problem}") from None

    def has(self, role: str) -> bool:
        return (self.folder / self.file(role)).is_file()

    def signer(self, role: str) -> CryptoSigner:
        """Raises PublishError."""
        path = self.folder / self.file(role)
        content = _read(path)
        make = _signer_class()
        try:
            return make(load_ed25519(content))
        except ValueError as problem:
            raise PublishError(f"{path} is not a private key: {problem}") from None


def _signer_class() -> type[CryptoSigner]:
    try:
        from securesystemslib.signer import CryptoSigner
    except ImportError:
        raise PublishError("publishing needs python-tuf: pip install 'pilothouse[updates]'") from None
    return CryptoSigner


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise PublishError(f"{path} does not exist; `pilothouse updates key` makes keys") from None
    except OSError as problem:
        raise PublishError(f"{path} can't be read: {problem.strerror or problem}") from None
