from __future__ import annotations

import datetime
import stat
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pilothouse.pki.authority import RENEW_BEFORE, Authority, KeyPair, UnusableError, names_of
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.certificate_request import new_request
from pilothouse.pki.keyring import Keyring

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
NAMES = ["localhost", "127.0.0.1", "::1"]


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


def test_nobody_else_can_read_them(tmp_path: Path) -> None:
    folder = tmp_path / "pki"
    keyring = Keyring(folder)
    authority = keyring.authority(NOW)
    keyring.serving(authority, NAMES, NOW)
    keyring.admin(authority, NOW)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes(folder) == {
        f"{name}.{kind}": 0o600 for name in ("ca", "apiserver", "admin") for kind in ("crt", "key")
    }


def test_a_second_start_finds_the_same(tmp_path: Path) -> None:
    def start() -> dict[str, bytes]:
        keyring = Keyring(tmp_path)
        authority = keyring.authority(NOW)
        keyring.serving(authority, NAMES, NOW)
        keyring.admin(authority, NOW)
        return {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    assert start() == start()


def test_keys_of_clients_are_in_the_form_that_every_client_reads(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)
    keys = [
        keyring.admin(authority, NOW).key,
        keyring.controller_manager(authority, NOW).key.read_bytes(),
        keyring.peer(authority, NOW).key.read_bytes(),
        keyring.node("n", authority, NOW).key.read_bytes(),
        new_request("system:node:n", ["system:nodes"]).key,
    ]
    assert [key.splitlines()[0] for key in keys] == [b"-----BEGIN EC PRIVATE KEY-----"] * len(keys)


@pytest.mark.parametrize("name", ["admin", "node"])
def test_a_key_of_an_earlier_version_that_some_clients_cannot_read_is_made_again(
    tmp_path: Path, name: str
) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)

    def made() -> bytes:
        keyring.admin(authority, NOW)
        keyring.node("n", authority, NOW)
        return (tmp_path / f"{name}.key").read_bytes()

    key = serialization.load_pem_private_key(made(), None)
    old = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / f"{name}.key").write_bytes(old)
    assert made().startswith(b"-----BEGIN EC PRIVATE KEY-----")
    assert made() == made()


def test_other_names_need_another_certificate(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)
    first = keyring.serving(authority, NAMES, NOW).certificate.read_bytes()
    again = keyring.serving(authority, list(reversed(NAMES)), NOW).certificate.read_bytes()
    other = keyring.serving(authority, [*NAMES, "10.0.0.1"], NOW).certificate.read_bytes()
    assert first == again
    assert first != other


def test_what_is_about_to_expire_is_made_again(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)
    first = keyring.admin(authority, NOW)
    later = NOW + datetime.timedelta(days=365) - RENEW_BEFORE
    assert keyring.admin(authority, later - datetime.timedelta(days=1)) == first
    assert keyring.admin(authority, later + datetime.timedelta(days=1)) != first


def test_what_another_authority_signed_is_made_again(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    first = keyring.admin(keyring.authority(NOW), NOW)
    keyring.keep_authorities(Authorities(Authority.make("another", NOW).credential))
    assert keyring.admin(keyring.authority(NOW), NOW) != first


def test_a_half_written_pair_is_made_again(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)
    keyring.admin(authority, NOW)
    (tmp_path / "admin.key").write_bytes(authority.client("other", [], NOW).key)
    admin = keyring.admin(authority, NOW)
    assert authority.stands_behind(admin, NOW)


def test_garbage_is_made_again(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    authority = keyring.authority(NOW)
    keyring.admin(authority, NOW)
    (tmp_path / "admin.crt").write_text("not a certificate")
    assert authority.stands_behind(keyring.admin(authority, NOW), NOW)


def test_the_authority_is_never_replaced_silently(tmp_path: Path) -> None:
    Keyring(tmp_path).authority(NOW)
    (tmp_path / "ca.key").unlink()
    with pytest.raises(UnusableError, match=r"ca\.key is missing"):
        Keyring(tmp_path).authority(NOW)
    (tmp_path / "ca.key").touch()
    with pytest.raises(UnusableError, match=r"ca\.key is empty"):
        Keyring(tmp_path).authority(NOW)
    (tmp_path / "ca.key").write_text("garbage")
    with pytest.raises(UnusableError, match=r"ca\.crt and .*ca\.key"):
        Keyring(tmp_path).authority(NOW)


def test_an_empty_certificate_is_no_leave_to_make_another_authority(tmp_path: Path) -> None:
    Keyring(tmp_path).authority(NOW)
    (tmp_path / "ca.crt").write_bytes(b"")
    with pytest.raises(UnusableError, match=r"ca\.crt is empty"):
        Keyring(tmp_path).authority(NOW)


def test_an_authority_out_of_its_dates_says_so(tmp_path: Path) -> None:
    Keyring(tmp_path).authority(NOW)
    with pytest.raises(UnusableError, match="not valid at this time"):
        Keyring(tmp_path).authority(NOW + datetime.timedelta(days=20 * 365))


def test_certificates_say_what_they_are_for() -> None:
    authority = Authority.make("test", NOW)
    serving = authority.serving(NAMES, NOW)
    assert names_of(serving) == frozenset(NAMES)
    client = x509.load_pem_x509_certificate(authority.client("admin", ["system:masters"], NOW).certificate)
    assert client.subject.rfc4514_string() == "CN=admin,O=system:masters"
    assert names_of(authority.client("admin", [], NOW)) == frozenset()


def test_a_secret_is_made_once(tmp_path: Path) -> None:
    made = iter([b"one", b"two"])
    keyring = Keyring(tmp_path)
    assert keyring.secret("token.key", lambda: next(made)) == b"one"
    assert keyring.secret("token.key", lambda: next(made)) == b"one"
    keyring.keep_secret("token.key", b"from elsewhere")
    assert keyring.secret("token.key", lambda: next(made)) == b"from elsewhere"
    assert stat.S_IMODE((tmp_path / "token.key").stat().st_mode) == 0o600


def test_a_key_that_takes_long_to_read_or_to_sign_with_is_not_taken() -> None:
    """Anybody may put a key into a Secret that a controller reads. Checking primes of this one takes 20 seconds."""
    p, q, e = 2**4253 - 1, 2**4423 - 1, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), pow(q, -1, p), rsa.RSAPublicNumbers(e, p * q)
    )
    large = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    pem = large.private_bytes(encoding, form, serialization.NoEncryption())
    certificate = Authority.make("x", NOW).certificate
    with pytest.raises(UnusableError, match="8676 bits; at most 4096"):
        Authority(KeyPair(certificate, pem))
    with pytest.raises(UnusableError, match="at most 16384 are read"):
        Authority(KeyPair(certificate, pem * 3))
