"""What a server shows of itself, whom it trusts, and the administrator's way in.

    identity = Identity(options, folder, keyring, authority)
    context = identity.tls()
    identity.admit_admin(url)

Asking again is how things are renewed: what is about to expire is made again on the way.
"""

from __future__ import annotations

import datetime
import ssl

from pilothouse.apiserver.http import tls_context
from pilothouse.app import addresses
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.kubeconfig import kubeconfig
from pilothouse.app.options import ApiServerOptions, StartError, explain, read_file
from pilothouse.pki.authority import Authority
from pilothouse.pki.files import write_private
from pilothouse.pki.keyring import Keyring, Pair


class Identity:
    """The server's certificates, its own or those it was given."""

    def __init__(
        self, options: ApiServerOptions, folder: DataFolder, keyring: Keyring, authority: Authority
    ) -> None:
        self._options = options
        self._folder = folder
        self._keyring = keyring
        self._authority = authority

    def pair(self) -> Pair:
        """Where the serving certificate and its key lie."""
        given = self._options
        if given.tls_cert_file is not None and given.tls_private_key_file is not None:
            return Pair(given.tls_cert_file, given.tls_private_key_file)
        return self._keyring.serving(self._authority, addresses.names(given.host), _now())

    def tls(self) -> ssl.SSLContext:
        """A context with the certificate. Clients' may be our own authority's or, where given, another's."""
        pair = self.pair()
        try:
            context = tls_context(pair.certificate, pair.key, self._keyring.authority_file)
        except (OSError, ssl.SSLError) as problem:
            raise StartError(f"{pair.certificate} and {pair.key} can't be used: {explain(problem)}") from None
        extra = self._options.client_ca_file
        if extra is not None:
            try:
                context.load_verify_locations(extra)
            except (OSError, ssl.SSLError) as problem:
                raise StartError(f"--client-ca-file {extra}: {explain(problem)}") from None
        return context

    @property
    def trusted(self) -> bytes:
        """What clients check the server's certificate against."""
        given = self._options.tls_cert_file
        return read_file(given) if given is not None else self._authority.certificate

    def admit_admin(self, url: str) -> None:
        """Write the administrator's kubeconfig, unless it is there as it should be."""
        admin = self._keyring.admin(self._authority, _now())
        content = kubeconfig(url, self.trusted, "admin", admin)
        file = self._folder.admin_kubeconfig
        if not file.exists() or file.read_bytes() != content:
            write_private(file, content)


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
