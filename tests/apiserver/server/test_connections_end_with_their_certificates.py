from __future__ import annotations

import asyncio
import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from tests.apiserver.server.wire import PATIENCE, Dial, Serve, Wire
from tests.kit.requests import key_pem

from pilothouse.apiserver.server.messages import Request, Response, StreamingResponse, StreamSink
from pilothouse.pki.keyring import Keyring

LIFETIME = datetime.timedelta(seconds=4)
"""Long enough to get in with."""


class Door:
    """Answers at once, or when it is told to, or in a stream."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.open = asyncio.Event()

    async def handler(self, request: Request) -> Response | StreamingResponse:
        match request.path:
            case "/slow":
                self.begun.set()
                await self.open.wait()
            case "/watch":
                return StreamingResponse(self._run)
        return Response(200, request.user.name.encode())

    async def _run(self, sink: StreamSink) -> None:
        self.begun.set()
        await self.open.wait()


@pytest.fixture
def bob(keyring: Keyring, tmp_path: Path) -> dict[str, Path]:
    """A certificate that will soon be over."""
    now = datetime.datetime.now(datetime.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "bob")])
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
    certificate = keyring.authority(now).certify(
        subject, key.public_key(), [(purpose, False)], now=now, lifetime=LIFETIME
    )
    return _written(tmp_path / "bob", certificate.public_bytes(serialization.Encoding.PEM), key_pem(key))


@pytest.fixture
def carol(keyring: Keyring, tmp_path: Path) -> dict[str, Path]:
    """A certificate that lasts."""
    now = datetime.datetime.now(datetime.UTC)
    credential = keyring.authority(now).client("carol", [], now)
    return _written(tmp_path / "carol", credential.certificate, credential.key)


def _written(stem: Path, certificate: bytes, key: bytes) -> dict[str, Path]:
    files = {"certificate": stem.with_suffix(".crt"), "key": stem.with_suffix(".key")}
    files["certificate"].write_bytes(certificate)
    files["key"].write_bytes(key)
    return files


async def ended(wire: Wire) -> bool:
    async with asyncio.timeout(PATIENCE):
        return await wire.reader.read(1) == b""


async def test_a_connection_is_over_when_its_certificate_is(
    serve: Serve, dial: Dial, bob: dict[str, Path]
) -> None:
    wire = await dial(await serve(Door().handler), **bob)
    assert (await wire.get("/a")).body == b"bob"
    assert await ended(wire)


async def test_so_is_a_stream(serve: Serve, dial: Dial, bob: dict[str, Path]) -> None:
    wire = await dial(await serve(Door().handler), **bob)
    wire.writer.write(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (await wire.head()).status == 200
    assert await wire.chunk() == b""
    assert await ended(wire)


async def test_whoever_is_dismissed_has_to_come_in_again(
    serve: Serve, dial: Dial, carol: dict[str, Path]
) -> None:
    place = await serve(Door().handler)
    wire, nobody = await dial(place, **carol), await dial(place)
    assert (await wire.get("/a")).body == b"carol"
    assert (await nobody.get("/a")).body == b"system:anonymous"
    place.edge.dismiss()
    assert await ended(wire)
    # A certificate had nothing to do with this one.
    assert (await nobody.get("/a")).status == 200
    assert (await (await dial(place, **carol)).get("/a")).body == b"carol"


async def test_a_request_that_was_begun_gets_its_answer(
    serve: Serve, dial: Dial, carol: dict[str, Path]
) -> None:
    door = Door()
    place = await serve(door.handler)
    wire = await dial(place, **carol)
    wire.writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
    await door.begun.wait()
    place.edge.dismiss()
    door.open.set()
    reply = await wire.reply()
    assert (reply.status, reply.body, reply.header("Connection")) == (200, b"carol", "close")
    assert await ended(wire)
