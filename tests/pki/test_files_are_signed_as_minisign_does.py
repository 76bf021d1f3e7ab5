"""Signatures that we make and verify, and Debian's minisign on the other side."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
from pathlib import Path

import pytest
from tests.kit import tools

from pilothouse.pki import minisign
from pilothouse.pki.minisign import PublicKey, SecretKey, SignatureError, sign_file, verify_file

COMMENT = "version:v1.2.3\tplatform:linux-amd64"


@pytest.fixture
def payload(tmp_path: Path) -> Path:
    path = tmp_path / "payload"
    path.write_bytes(b"#!/bin/sh\necho v1.2.3\n" * 10_000)
    return path


@pytest.fixture(scope="module")
def program() -> Path:
    return tools.find("minisign")


def run(program: Path, *args: str, folder: Path, stdin: str = "") -> str:
    done = subprocess.run(
        [str(program), *args], cwd=folder, input=stdin, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_signature_gives_its_trusted_comment(payload: Path) -> None:
    key = SecretKey.generate()
    text = sign_file(payload, key, trusted_comment=COMMENT)
    assert verify_file(payload, text, [SecretKey.generate().public(), key.public()]) == COMMENT


def test_keys_survive_their_files() -> None:
    key = SecretKey.generate()
    assert SecretKey.parse(key.dump()) == key
    assert PublicKey.parse(key.public().dump()) == key.public()
    assert PublicKey.parse(key.public().dump().splitlines()[1]) == key.public()


def test_a_secret_key_is_not_shown() -> None:
    key = SecretKey(b"12345678", b"s" * 32)
    assert "ssss" not in repr(key)


def altered_bytes(text: str, line: int, at: int) -> str:
    lines = text.splitlines()
    content = bytearray(base64.b64decode(lines[line]))
    content[at] ^= 1
    lines[line] = base64.b64encode(content).decode()
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (lambda text: altered_bytes(text, 1, 20), "not the one that was signed"),
        (lambda text: altered_bytes(text, 1, 3), "which is not trusted here"),
        (lambda text: altered_bytes(text, 1, 0), "of a kind that is not known"),
        (lambda text: altered_bytes(text, 3, 20), "trusted comment was altered"),
        (lambda text: text.replace("v1.2.3", "v9.9.9"), "trusted comment was altered"),
        (lambda text: "", "expected four lines"),
        (lambda text: "\n".join(text.splitlines()[:2]), "expected four lines"),
        (lambda text: text.replace("trusted comment: version", "version"), "expected four lines"),
        (lambda text: text + text, "expected four lines"),
        (lambda text: text.replace(text.splitlines()[1], "!!!"), "is not base64"),
        (lambda text: text.replace(text.splitlines()[1], "RWQ="), "cut off"),
        (lambda text: "<html>404</html>", "expected four lines"),
    ],
)
def test_a_damaged_signature_is_refused(payload: Path, alter: object, reason: str) -> None:
    key = SecretKey.generate()
    text = sign_file(payload, key, trusted_comment=COMMENT)
    assert callable(alter)
    with pytest.raises(SignatureError, match=reason):
        verify_file(payload, alter(text), [key.public()])


def test_a_swapped_file_is_refused(payload: Path, tmp_path: Path) -> None:
    key = SecretKey.generate()
    text = sign_file(payload, key, trusted_comment=COMMENT)
    other = tmp_path / "other"
    other.write_bytes(payload.read_bytes() + b"\n")
    with pytest.raises(SignatureError, match="not the one that was signed"):
        verify_file(other, text, [key.public()])


def as_legacy(text: str) -> str:
    """A signature whose letters say that the content itself was signed."""
    lines = text.splitlines()
    lines[1] = base64.b64encode(b"Ed" + base64.b64decode(lines[1])[2:]).decode()
    return "\n".join(lines) + "\n"


def test_the_hash_of_a_signed_file_is_not_a_signed_file(payload: Path, tmp_path: Path) -> None:
    key = SecretKey.generate()
    text = sign_file(payload, key, trusted_comment=COMMENT)
    forged = tmp_path / "forged"
    forged.write_bytes(hashlib.blake2b(payload.read_bytes()).digest())
    with pytest.raises(SignatureError, match="may be the hash of another one"):
        verify_file(forged, as_legacy(text), [key.public()])


def test_the_letters_of_a_signature_do_not_have_a_large_file_read(payload: Path) -> None:
    key = SecretKey.generate()
    text = sign_file(payload, key, trusted_comment=COMMENT)
    os.truncate(payload, (16 << 20) + 1)
    with pytest.raises(SignatureError, match="too many for a signature of the legacy form"):
        verify_file(payload, as_legacy(text), [key.public()])


def test_a_foreign_key_of_the_same_number_is_refused(payload: Path) -> None:
    key = SecretKey.generate()
    forger = SecretKey(key.number, SecretKey.generate().seed)
    text = sign_file(payload, forger, trusted_comment=COMMENT)
    with pytest.raises(SignatureError, match="not the one that was signed"):
        verify_file(payload, text, [key.public()])


def test_without_keys_nothing_is_verified(payload: Path) -> None:
    text = sign_file(payload, SecretKey.generate(), trusted_comment=COMMENT)
    with pytest.raises(SignatureError, match="no trusted key"):
        verify_file(payload, text, [])


@pytest.mark.parametrize("comment", ["a\nb", "a\rb", "a\0b", "é" * 4097])
def test_a_comment_that_would_break_the_file_is_refused(payload: Path, comment: str) -> None:
    with pytest.raises(SignatureError, match="trusted comment"):
        sign_file(payload, SecretKey.generate(), trusted_comment=comment)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a comment line and a base64 line"),
        ("untrusted comment: x\nnot base64!\n", "not base64"),
        ("untrusted comment: x\nRWQ=\n", "expected 42 bytes"),
        ("-----BEGIN PUBLIC KEY-----\nRWQ=\n-----END PUBLIC KEY-----\n", "a comment line and a base64 line"),
    ],
)
def test_what_is_not_a_public_key_says_so(text: str, reason: str) -> None:
    with pytest.raises(SignatureError, match=reason):
        PublicKey.parse(text)


def test_a_damaged_secret_key_is_refused() -> None:
    text = SecretKey.generate().dump()
    with pytest.raises(SignatureError, match="the secret key is damaged"):
        SecretKey.parse(altered_bytes(text, 1, 70))
    with pytest.raises(SignatureError, match="expected 158 bytes"):
        SecretKey.parse(SecretKey.generate().public().dump())


def encrypted(key: SecretKey, password: str, operations: int, memory: int, n: int, p: int) -> str:
    """A key file as minisign encrypts it, with a cost that a test can pay."""
    plain = base64.b64decode(key.dump().splitlines()[1])
    salt = bytes(range(32))
    pad = hashlib.scrypt(password.encode(), salt=salt, n=n, r=8, p=p, dklen=104, maxmem=1 << 26)
    costs = operations.to_bytes(8, "little") + memory.to_bytes(8, "little")
    checksum = hashlib.blake2b(b"Ed" + plain[54:126], digest_size=32).digest()
    body = bytes(a ^ b for a, b in zip(plain[54:126] + checksum, pad, strict=True))
    return base64.b64encode(plain[:2] + b"Sc" + plain[4:6] + salt + costs + body).decode()


def test_a_key_with_a_password_is_read_with_it() -> None:
    key = SecretKey.generate()
    text = encrypted(key, "secret", 524288, 16777216, 16384, 1)
    assert SecretKey.parse(text, "secret") == key
    with pytest.raises(SignatureError, match="password of the secret key is wrong"):
        SecretKey.parse(text, "Secret")
    with pytest.raises(SignatureError, match="its password is needed"):
        SecretKey.parse(text)


def test_debian_verifies_ours(payload: Path, tmp_path: Path, program: Path) -> None:
    key = SecretKey.generate()
    (tmp_path / "key.pub").write_text(key.public().dump())
    (tmp_path / "payload.minisig").write_text(sign_file(payload, key, trusted_comment=COMMENT))
    said = run(program, "-V", "-p", "key.pub", "-m", "payload", folder=tmp_path)
    assert f"Trusted comment: {COMMENT}" in said


@pytest.mark.parametrize(("form", "letters"), [("-H", b"ED"), ("-l", b"Ed")])
def test_we_verify_debians(payload: Path, tmp_path: Path, program: Path, form: str, letters: bytes) -> None:
    run(program, "-G", "-W", "-p", "key.pub", "-s", "key.sec", folder=tmp_path)
    run(program, "-S", form, "-s", "key.sec", "-m", "payload", "-t", COMMENT, folder=tmp_path)
    text = (tmp_path / "payload.minisig").read_text()
    assert base64.b64decode(text.splitlines()[1])[:2] == letters
    assert verify_file(payload, text, [PublicKey.parse((tmp_path / "key.pub").read_text())]) == COMMENT


def test_a_legacy_signature_of_a_large_file_is_refused(
    payload: Path, tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(program, "-G", "-W", "-p", "key.pub", "-s", "key.sec", folder=tmp_path)
    run(program, "-S", "-l", "-s", "key.sec", "-m", "payload", folder=tmp_path)
    monkeypatch.setattr(minisign, "LEGACY_LIMIT", payload.stat().st_size - 1)
    text, key = (tmp_path / "payload.minisig").read_text(), (tmp_path / "key.pub").read_text()
    with pytest.raises(SignatureError, match="minisign -H"):
        verify_file(payload, text, [PublicKey.parse(key)])


def test_secret_keys_go_both_ways(payload: Path, tmp_path: Path, program: Path) -> None:
    run(program, "-G", "-W", "-p", "key.pub", "-s", "key.sec", folder=tmp_path)
    key = SecretKey.parse((tmp_path / "key.sec").read_text())
    assert key.public() == PublicKey.parse((tmp_path / "key.pub").read_text())
    (tmp_path / "ours.sec").write_text(key.dump())
    run(program, "-S", "-s", "ours.sec", "-m", "payload", "-t", COMMENT, folder=tmp_path)
    assert verify_file(payload, (tmp_path / "payload.minisig").read_text(), [key.public()]) == COMMENT


@pytest.mark.long
def test_debians_key_with_a_password_is_read(tmp_path: Path, program: Path) -> None:
    """Costs a GiB of memory, as minisign means it to."""
    run(program, "-G", "-p", "key.pub", "-s", "key.sec", folder=tmp_path, stdin="pass word\npass word\n")
    key = SecretKey.parse((tmp_path / "key.sec").read_text(), "pass word")
    assert key.public() == PublicKey.parse((tmp_path / "key.pub").read_text())
