from __future__ import annotations

import datetime
import json
import ssl
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
from tests.app.certificates.handshakes import shake

from pilothouse.apiserver.server.reloadable_tls import ReloadableContext
from pilothouse.app.certificate_renewal import CertificateRenewal
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.keys import GivenKeys, KeyStore
from pilothouse.app.options import ApiServerOptions
from pilothouse.app.server_identity import ServerIdentity
from pilothouse.base.clock import ManualClock
from pilothouse.pki.authority import Authority, KeyPair, UnusableError
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.keyring import Keyring

DAY = 86_400
URL = "https://127.0.0.1:6443"


class Server:
    """Everything of a server that has to do with certificates, from this moment on."""

    identity: ServerIdentity
    live: ReloadableContext
    renewal: CertificateRenewal
    dismissals = 0

    def __init__(
        self, folder: DataFolder, options: ApiServerOptions, keys: KeyStore, clock: ManualClock
    ) -> None:
        self.folder, self.options, self.keys, self.clock = folder, options, keys, clock
        self.keyring = Keyring(folder.pki)

    @classmethod
    async def start(cls, tmp_path: Path, given: GivenKeys | None = None, **flags: Any) -> Server:
        options = ApiServerOptions(data=tmp_path / "data", **flags)
        folder = DataFolder.open(options.data)
        clock = ManualClock(datetime.datetime.now(datetime.UTC).timestamp())
        server = cls(folder, options, KeyStore(Keyring(folder.pki), given or GivenKeys(), shared=None), clock)
        authorities = await server.authorities()
        server.identity = ServerIdentity(options, folder, server.keyring, authorities, clock)
        server.live = ReloadableContext(server.identity.tls())
        server.identity.write_kubeconfigs(URL)
        server.renewal = CertificateRenewal(
            server.identity, server.live, server.authorities, URL, server.dismiss
        )
        return server

    def dismiss(self) -> None:
        self.dismissals += 1

    async def authorities(self) -> Authorities:
        return await self.keys.authorities(datetime.datetime.fromtimestamp(self.clock.now(), datetime.UTC))

    def shown(self, client: KeyPair | None = None) -> tuple[str, str]:
        return shake(self.live.listening, self.identity.trusted, client, self.folder.path)

    def admin(self) -> KeyPair:
        """The administrator, by the kubeconfig."""
        user = json.loads(self.folder.admin_kubeconfig.read_text())["users"][0]["user"]
        return KeyPair(b64decode(user["client-certificate-data"]), b64decode(user["client-key-data"]))


async def test_nothing_happens_while_all_is_good(tmp_path: Path) -> None:
    server = await Server.start(tmp_path)
    before = server.shown(server.admin())
    server.clock.advance(200 * DAY)
    assert not await server.renewal.renew()
    assert server.shown(server.admin()) == before


async def test_what_is_about_to_expire_is_made_again(tmp_path: Path) -> None:
    server = await Server.start(tmp_path)
    serving, admin = (server.keyring.folder / name for name in ("apiserver.crt", "admin.crt"))
    before = serving.read_bytes(), admin.read_bytes()
    server.clock.advance(306 * DAY)
    assert await server.renewal.renew()
    after = Authority(server.keyring.authorities(server.identity.now()).current)
    assert after.stands_behind(server.admin(), server.identity.now())
    assert serving.read_bytes() != before[0]
    assert admin.read_bytes() != before[1]
    assert admin.read_bytes() == server.admin().certificate
    assert not await server.renewal.renew()


async def test_a_certificate_that_is_replaced_is_taken_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = Authority.make("own", datetime.datetime.now(datetime.UTC))
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def place() -> None:
        made = own.serving(["localhost"], datetime.datetime.now(datetime.UTC))
        certificate.write_bytes(made.certificate)
        key.write_bytes(made.key)

    place()
    server = await Server.start(tmp_path, tls_cert_file=certificate, tls_private_key_file=key)

    def shown() -> str:
        return shake(server.live.listening, own.certificate)[0]

    first = shown()
    place()
    assert shown() == first
    assert await server.renewal.renew()
    second = shown()
    assert second != first
    certificate.write_text("half a certif")
    assert not await server.renewal.renew()
    assert "could not be renewed" in caplog.text
    assert shown() == second
    place()
    assert await server.renewal.renew()
    assert shown() not in (first, second)


async def test_authorities_are_exchanged_without_shutting_anyone_out(tmp_path: Path) -> None:
    server = await Server.start(tmp_path)
    now = server.identity.now()
    old_admin = server.admin()
    old_trust = server.identity.trusted
    keyring = server.keyring

    keyring.keep_authorities(keyring.authorities(now).prepare(Authority.make("new", now).credential))
    assert await server.renewal.renew()
    both = server.identity.trusted
    assert both.count(b"BEGIN CERTIFICATE") == 2
    # Nothing is signed anew yet: who has learned nothing still gets in.
    assert shake(server.live.listening, old_trust, old_admin, tmp_path)[1]
    assert server.admin() == old_admin

    keyring.keep_authorities(keyring.authorities(now).switch())
    assert await server.renewal.renew()
    assert shake(server.live.listening, both, old_admin, tmp_path)[1]
    assert shake(server.live.listening, both, server.admin(), tmp_path)[1]
    assert server.admin() != old_admin
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(server.live.listening, old_trust)
    assert server.dismissals == 0

    keyring.keep_authorities(keyring.authorities(now).finish())
    assert await server.renewal.renew()
    new_trust = server.identity.trusted
    assert new_trust.count(b"BEGIN CERTIFICATE") == 1
    assert shake(server.live.listening, new_trust, server.admin(), tmp_path)[1]
    with pytest.raises(ssl.SSLError):
        shake(server.live.listening, new_trust, old_admin, tmp_path)
    # Nor does whoever is in already stay by a certificate of the old one.
    assert server.dismissals == 1


async def test_a_short_lived_authority_is_mentioned_in_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = await Server.start(tmp_path)
    server.clock.advance(3650 * DAY - 100 * DAY)
    assert await server.renewal.renew()
    assert "the authority expires in 99 days" in caplog.text
    caplog.clear()
    assert not await server.renewal.renew()
    assert caplog.text == ""
    server.clock.advance(DAY)
    await server.renewal.renew()
    assert "the authority expires in 98 days" in caplog.text
    # What it signs ends with it, and is not made again every minute for that.
    server.clock.advance(97 * DAY)
    await server.renewal.renew()
    assert not await server.renewal.renew()


async def test_after_its_end_an_authority_signs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = await Server.start(tmp_path)
    server.clock.advance(3651 * DAY)
    assert not await server.renewal.renew()
    assert "out of its dates" in caplog.text
    with pytest.raises(UnusableError, match="rotate-ca"):
        ServerIdentity(
            server.options, server.folder, server.keyring, await server.authorities(), server.clock
        )


async def test_a_given_authority_signs_and_is_read_again(tmp_path: Path) -> None:
    now = datetime.datetime.now(datetime.UTC)
    one, two = Authority.make("one", now), Authority.make("two", now)
    certificate, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    certificate.write_bytes(one.certificate)
    key.write_bytes(one.credential.key)
    server = await Server.start(tmp_path, GivenKeys(certificate=certificate, key=key))
    assert one.stands_behind(server.admin(), now)
    assert not (server.keyring.folder / "ca.crt").exists()

    certificate.write_bytes(two.certificate + one.certificate)
    key.write_bytes(two.credential.key)
    old_admin = server.admin()
    assert await server.renewal.renew()
    assert two.stands_behind(server.admin(), now)
    assert shake(server.live.listening, two.certificate, old_admin, tmp_path)[1]
