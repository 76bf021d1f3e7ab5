"""Authorities in a folder.

    ca.crt, ca.key             the one that signs
    ca-next.crt, ca-next.key   the one that will (while it is being replaced)
    ca-previous.crt            those that did, and still are trusted

A step writes several files in an order that lets ``read`` find the state before an interrupted step, or
complete it.
"""

from __future__ import annotations

from pathlib import Path

from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.private_files import write_private


def read(folder: Path) -> Authorities | None:
    """What is in the folder; None if there is no authority. Raises ``UnusableError``."""
    if not (folder / "ca.crt").exists():
        return None
    certificate, key = _part(folder / "ca.crt"), _part(folder / "ca.key")
    current = KeyPair(certificate, key)
    coming = _pair(folder, "ca-next")
    if coming is not None and coming.key == key:
        # A switch that was cut short: its key is in place, so the certificate follows.
        write_private(folder / "ca.crt", coming.certificate)
        _remove(folder, "ca-next")
        current, coming = coming, None
    try:
        Authority(current)
    except UnusableError as problem:
        raise UnusableError(f"{folder / 'ca.crt'} and {folder / 'ca.key'}: {problem}") from None
    leaving = _read(folder / "ca-previous.crt")
    return Authorities(current, coming, b"" if leaving == current.certificate else leaving)


def write(folder: Path, authorities: Authorities) -> None:
    if authorities.leaving:
        _keep(folder / "ca-previous.crt", authorities.leaving)
    _keep(folder / "ca.key", authorities.current.key)
    _keep(folder / "ca.crt", authorities.current.certificate)
    if authorities.coming is not None:
        _keep(folder / "ca-next.key", authorities.coming.key)
        _keep(folder / "ca-next.crt", authorities.coming.certificate)
    else:
        _remove(folder, "ca-next")
    if not authorities.leaving:
        (folder / "ca-previous.crt").unlink(missing_ok=True)


def _part(file: Path) -> bytes:
    """A file that an authority can't do without. Raises ``UnusableError``."""
    content = _read(file)
    if not content:
        raise UnusableError(
            f"{file} is {'empty' if file.exists() else 'missing'}; put it back from a copy of the folder, "
            "or restore "
            "a backup with `pilothouse restore`; `pilothouse apiserver --cluster-signing-cert-file FILE "
            "--cluster-signing-key-file FILE` uses another authority"
        )
    return content


def _pair(folder: Path, name: str) -> KeyPair | None:
    certificate, key = _read(folder / f"{name}.crt"), _read(folder / f"{name}.key")
    return KeyPair(certificate, key) if certificate and key else None


def _remove(folder: Path, name: str) -> None:
    (folder / f"{name}.crt").unlink(missing_ok=True)
    (folder / f"{name}.key").unlink(missing_ok=True)


def _keep(file: Path, content: bytes) -> None:
    if _read(file) != content:
        write_private(file, content)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""
