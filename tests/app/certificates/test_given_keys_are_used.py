from __future__ import annotations

import datetime
from pathlib import Path

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.cli.running import Server, pilothouse
from tests.kit import kubeconfig
from tests.kit.http import Http
from tests.kit.servers import Target

from pilothouse.pki.authority import Authority
from pilothouse.pki.jwt import SigningKey

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, Path]:
    """An authority of another make, with an RSA key."""
    corporate = trustme.CA(organization_name="corporate", key_type=trustme.KeyType.RSA)
    certificate, key = tmp_path / "corp.crt", tmp_path / "corp.key"
    corporate.cert_pem.write_to_path(str(certificate))
    corporate.private_key_pem.write_to_path(str(key))
    return certificate, key


def test_an_authority_of_ones_own_signs_everything(tmp_path: Path, authority: tuple[Path, Path]) -> None:
    certificate, key = authority
    flags = ("--cluster-signing-cert-file", str(certificate), "--cluster-signing-key-file", str(key))
    with Server(tmp_path / "data", *flags) as server:
        assert server.get("/api/v1/namespaces").status == 200
    pki = tmp_path / "data" / "pki"
    issuer = x509.load_pem_x509_certificate(certificate.read_bytes())
    for name in ("apiserver.crt", "admin.crt"):
        made = x509.load_pem_x509_certificate((pki / name).read_bytes())
        made.verify_directly_issued_by(issuer)
        assert made.not_valid_after_utc <= issuer.not_valid_after_utc
    assert not (pki / "ca.key").exists()


def test_files_that_do_not_go_together_are_refused(tmp_path: Path, authority: tuple[Path, Path]) -> None:
    certificate, _ = authority
    other = tmp_path / "other.key"
    other.write_bytes(Authority.make("other", NOW).credential.key)
    start = ("apiserver", "--data", str(tmp_path / "data"), "--listen", "127.0.0.1:0")
    done = pilothouse(*start, "--cluster-signing-cert-file", str(certificate))
    assert (done.returncode, "go together" in done.stderr) == (2, True)
    done = pilothouse(
        *start, "--cluster-signing-cert-file", str(certificate), "--cluster-signing-key-file", str(other)
    )
    assert done.returncode == 1
    assert "the key is not the certificate's" in done.stderr
    assert "--cluster-signing-key-file" in done.stderr


def test_a_signing_key_that_is_none_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "sa.key"
    start = ("apiserver", "--data", str(tmp_path / "data"), "--service-account-signing-key-file", str(key))
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    rsa_pem = private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for content in (b"nonsense", rsa_pem, b""):
        key.write_bytes(content)
        done = pilothouse(*start)
        assert done.returncode == 1
        assert f"{key} is not a key for signing tokens" in done.stderr


async def test_tokens_are_signed_with_the_given_key(tmp_path: Path) -> None:
    key = tmp_path / "sa.key"
    signing = SigningKey.generate()
    key.write_bytes(signing.to_pem())
    with Server(tmp_path / "data", "--service-account-signing-key-file", str(key)) as server:
        access = kubeconfig.read(server.kubeconfig, unpack=tmp_path / "pki")
        async with Http.to(Target("ours", access, server.kubeconfig)) as http:
            accounts = "/api/v1/namespaces/default/serviceaccounts"
            (await http.post(accounts, {"metadata": {"name": "robot"}})).expect(201)
            minted = (await http.post(f"{accounts}/robot/token", {"spec": {}})).expect(201)
    claims = signing.verify(minted["status"]["token"])
    assert claims["sub"] == "system:serviceaccount:default:robot"
    assert not (tmp_path / "data" / "pki" / "token-signing.key").exists()
