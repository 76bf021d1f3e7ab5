from __future__ import annotations

import datetime
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.apiserver.server.wire import Dial, Serve
from tests.kit.requests import key_pem

from pilothouse.apiserver.server.messages import Request, Response
from pilothouse.pki.authority import Authority, KeyPair
from pilothouse.pki.keyring import Keyring


async def whoami(request: Request) -> Response:
    groups = ",".join(request.user.groups)
    return Response(200, f"{request.user.name}/{request.user.uid}/{groups}".encode())


def write(folder: Path, credential: KeyPair) -> dict[str, Path]:
    (folder / "c.crt").write_bytes(credential.certificate)
    (folder / "c.key").write_bytes(credential.key)
    return {"certificate": folder / "c.crt", "key": folder / "c.key"}


@pytest.fixture
def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


async def test_nobody_is_anonymous(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(whoami))).get("/a")
    assert reply.body == b"system:anonymous//system:unauthenticated"


async def test_a_certificate_names_user_and_groups(
    serve: Serve, dial: Dial, keyring: Keyring, now: datetime.datetime, tmp_path: Path
) -> None:
    credential = keyring.authority(now).client("bob", ["dev", "system:masters"], now)
    wire = await dial(await serve(whoami), **write(tmp_path, credential))
    for _ in range(2):
        assert (await wire.get("/a")).body == b"bob//dev,system:masters,system:authenticated"


async def test_a_certificate_of_another_authority_is_refused(
    serve: Serve, dial: Dial, now: datetime.datetime, tmp_path: Path
) -> None:
    credential = Authority.make("stranger", now).client("bob", ["system:masters"], now)
    place = await serve(whoami)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        await (await dial(place, **write(tmp_path, credential))).get("/a")


@pytest.mark.parametrize("away", [-datetime.timedelta(minutes=4), datetime.timedelta(days=1)])
async def test_a_certificate_out_of_its_dates_is_refused(
    away: datetime.timedelta,
    serve: Serve,
    dial: Dial,
    keyring: Keyring,
    now: datetime.datetime,
    tmp_path: Path,
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = keyring.authority(now).certify(
        subject, key.public_key(), [(purpose, False)], now=now + away, lifetime=datetime.timedelta(seconds=1)
    )
    pem = serialization.Encoding.PEM
    credential = KeyPair(certificate.public_bytes(pem), key_pem(key))
    place = await serve(whoami)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        await (await dial(place, **write(tmp_path, credential))).get("/a")


async def test_a_serving_certificate_lets_nobody_in(
    serve: Serve, dial: Dial, keyring: Keyring, now: datetime.datetime, tmp_path: Path
) -> None:
    credential = keyring.authority(now).serving(["localhost"], now)
    place = await serve(whoami)
    with pytest.raises((ssl.SSLError, ConnectionError, EOFError)):
        await (await dial(place, **write(tmp_path, credential))).get("/a")


async def test_a_token_names_user_uid_and_groups(serve: Serve, dial: Dial) -> None:
    wire = await dial(await serve(whoami))
    assert (
        await wire.get("/a", "Authorization: Bearer s3cret")
    ).body == b"alice/42/dev,ops,system:authenticated"
    assert (await wire.get("/a")).body == b"system:anonymous//system:unauthenticated"


@pytest.mark.parametrize("token", ["wrong", "s3cre", "s3cretx"])
async def test_a_wrong_token_is_unauthorized(token: str, serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(whoami))).get("/a", f"Authorization: Bearer {token}")
    assert (reply.status, reply.json()["message"]) == (401, "Unauthorized")
    assert reply.header("X-Content-Type-Options") == "nosniff"
    assert "details" not in reply.json()


@pytest.mark.parametrize("size", [1000, 20_000, 60_000])
async def test_a_huge_token_is_unauthorized(size: int, serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(whoami))).get("/a", f"Authorization: Bearer {'x' * size}")
    assert reply.status == 401


async def test_a_token_beyond_all_bounds_ends_the_connection(serve: Serve, dial: Dial) -> None:
    reply = await (await dial(await serve(whoami))).get("/a", f"Authorization: Bearer {'x' * 100_000}")
    assert reply.status in (400, 431)


async def test_a_certificate_counts_before_a_token(
    serve: Serve, dial: Dial, keyring: Keyring, now: datetime.datetime, tmp_path: Path
) -> None:
    credential = keyring.authority(now).client("bob", [], now)
    wire = await dial(await serve(whoami), **write(tmp_path, credential))
    assert (await wire.get("/a", "Authorization: Bearer wrong")).body == b"bob//system:authenticated"


async def test_tls_before_1_3_is_refused(serve: Serve) -> None:
    place = await serve(whoami)
    context = ssl.create_default_context(cafile=place.authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    import asyncio

    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", place.port, ssl=context)
