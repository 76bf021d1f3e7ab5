from __future__ import annotations

import datetime
import ssl

from pilothouse.app.renewing import Renewal
from pilothouse.pki.authority import Authority
from pilothouse.pki.keyring import Pair

NOW = datetime.datetime.now(datetime.UTC)


def place(folder, credential):
    (folder / "tls.crt").write_bytes(credential.certificate)
    (folder / "tls.key").write_bytes(credential.key)


def shown(context: ssl.SSLContext, authority: Authority) -> str:
    """The serial number that a client sees."""
    client = ssl.create_default_context(cadata=authority.certificate.decode())
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = context.wrap_bio(ours, theirs, server_side=True)
    client_side = client.wrap_bio(theirs, ours, server_hostname="localhost")
    for _ in range(10):
        for side in (client_side, server_side):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    found = client_side.getpeercert()
    assert found
    return str(found["serialNumber"])


def test_a_certificate_that_is_replaced_is_taken_up(tmp_path, caplog):
    authority = Authority.make("test", NOW)
    pair = Pair(tmp_path / "tls.crt", tmp_path / "tls.key")
    place(tmp_path, authority.serving(["localhost"], NOW))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    asked = []
    renewal = Renewal(context, lambda: pair, lambda: asked.append(1))
    first = shown(context, authority)

    assert not renewal.renew()
    assert shown(context, authority) == first

    place(tmp_path, authority.serving(["localhost"], NOW))
    assert renewal.renew()
    second = shown(context, authority)
    assert second != first

    pair.certificate.write_text("half a certif")
    assert not renewal.renew()
    assert "could not be renewed" in caplog.text
    assert shown(context, authority) == second
    assert len(asked) == 3
