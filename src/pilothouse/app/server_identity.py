"""The certificates of a server, the authorities that it trusts, and the kubeconfigs that it writes.

    identity = ServerIdentity(options, folder, keyring, authorities, clock)
    context = identity.tls()
    identity.admit(url)

Each call renews what is about to expire, or was signed by an authority that no longer signs.
"""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from pilothouse.apiserver.server.https_server import tls_context
from pilothouse.app import addresses
from pilothouse.app.data_folder import DataFolder
from pilothouse.app.kubeconfig import kubeconfig, kubeconfig_beside
from pilothouse.app.options import ApiServerOptions, StartError, explain, read_file
from pilothouse.base.clock import Clock
from pilothouse.pki.authority import Authority, KeyPair, UnusableError, names_of
from pilothouse.pki.authority_rotation import Authorities
from pilothouse.pki.certificate_info import why_no_certificate, why_no_key
from pilothouse.pki.certificate_request import is_due, is_signed_by, new_request
from pilothouse.pki.keyring import Keyring, Pair
from pilothouse.pki.private_files import private_folder, write_private
from pilothouse.pki.request_signing import read_request, sign_request
from pilothouse.pki.signers import NODE, NODES, serving_name

_END_OF_CERTIFICATE = b"-----END CERTIFICATE-----"


class ServerIdentity:
    """The server's certificates, its own or those given by flags."""

    def __init__(
        self,
        options: ApiServerOptions,
        folder: DataFolder,
        keyring: Keyring,
        authorities: Authorities,
        clock: Clock,
    ) -> None:
        self._options = options
        self._folder = folder
        self._keyring = keyring
        self._clock = clock
        self._authorities = authorities
        self.authority = Authority(authorities.current)
        """The authority that signs."""
        if self.authority.expiring(self.now()):
            raise UnusableError(
                "the authority's certificate is not valid at this time; correct the clock, or replace it: "
                "see `pilothouse certs rotate-ca --help`"
            )

    def adopt(self, authorities: Authorities) -> None:
        self.authority = Authority(authorities.current)
        self._authorities = authorities

    def now(self) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self._clock.now(), datetime.UTC)

    def pair(self) -> Pair:
        """The files of the serving certificate and its key."""
        given = self._options
        if given.tls_cert_file is not None and given.tls_private_key_file is not None:
            return Pair(given.tls_cert_file, given.tls_private_key_file)
        # Pods reach it through the Service default/kubernetes, which has the first address of the range.
        names = addresses.names(given.host, str(given.service_addresses[1]))
        return self._keyring.serving(self.authority, names, self.now())

    def peer(self) -> Pair:
        """The client certificate of this server for other instances."""
        return self._keyring.peer(self.authority, self.now())

    def towards_nodes(self) -> ssl.SSLContext:
        """The TLS context towards node agents, whose certificates have to be our own."""
        context = ssl.create_default_context(cadata=self._authorities.trusted.decode())
        # Below 1.3 a node could choose a prime for the key exchange that costs this server seconds.
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        pair = self.peer()
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    def tls(self) -> ssl.SSLContext:
        """Trusts client certificates of our own authorities and of ``--client-ca-file``."""
        pair = self.pair()
        try:
            context = tls_context(pair.certificate, pair.key, self._authorities.trusted)
        except (OSError, ssl.SSLError) as problem:
            raise StartError(_why_unusable(pair, problem)) from None
        extra = self._options.client_ca_file
        if extra is not None:
            try:
                context.load_verify_locations(extra)
            except (OSError, ssl.SSLError) as problem:
                why = why_no_certificate(read_file(extra)) or f"can't be used: {explain(problem)}"
                raise StartError(f"--client-ca-file {extra} {why}") from None
        return context

    @property
    def trusted(self) -> bytes:
        """The authorities that clients verify the server with."""
        given = self._options.tls_cert_file
        return read_file(given) if given is not None else self._authorities.trusted

    @property
    def looks(self) -> tuple[bytes, ...]:
        """The inputs of the TLS context; when they change, the context is reloaded."""
        pair, extra = self.pair(), self._options.client_ca_file
        files = [pair.certificate, pair.key, *([extra] if extra is not None else [])]
        return (*map(read_file, files), self._authorities.trusted)

    @property
    def client_authorities(self) -> frozenset[bytes]:
        """The authorities of client certificates."""
        extra = self._options.client_ca_file
        pem = self._authorities.trusted + (read_file(extra) if extra is not None else b"")
        return frozenset(block.strip() for block in pem.split(_END_OF_CERTIFICATE) if block.strip())

    def admit(self, url: str) -> None:
        """Write the kubeconfigs of this machine if they are outdated: the administrator's, the
        controller-manager's and, if there is one, the node's."""
        admin = self._keyring.admin(self.authority, self.now())
        _keep(self._folder.admin_kubeconfig, kubeconfig(url, self.trusted, "admin", admin))
        manager = self._keyring.controller_manager(self.authority, self.now())
        self._admit_beside(self._folder.manager_kubeconfig, url, "controller-manager", manager)
        if name := self._options.local_node:
            node = self._keyring.node(name, self.authority, self.now())
            self._admit_beside(self._folder.node_kubeconfig, url, f"system:node:{name}", node)
            self._issue_node_serving(name)

    def _issue_node_serving(self, name: str) -> None:
        """Issue the certificate of the node's own server, which need not wait for approval."""
        file, now = self._folder.node_serving, self.now()
        if file.exists():
            kept = file.read_bytes()
            try:
                good = is_signed_by(kept, self.authority.certificate) and not is_due(kept, now)
                if good and names_of(KeyPair(kept, b"")) == {serving_name(name)}:
                    return
            except UnusableError:
                pass  # Not even a certificate.
        request = new_request(f"{NODE}{name}", [NODES], [serving_name(name)])
        usages = ("digital signature", "server auth")
        certificate = sign_request(self.authority, read_request(request.pem), usages, now=now)
        private_folder(file.parent)
        write_private(file, certificate.rstrip() + b"\n" + request.key)

    def _admit_beside(self, file: Path, url: str, user: str, pair: Pair) -> None:
        within = [str(each.relative_to(self._folder.path)) for each in (pair.certificate, pair.key)]
        _keep(file, kubeconfig_beside(url, self.trusted, user, *within))


def _keep(file: Path, content: bytes) -> None:
    if not file.exists() or file.read_bytes() != content:
        write_private(file, content)


def _why_unusable(pair: Pair, problem: OSError) -> str:
    """Which of the two files is wrong; if neither is, the TLS error."""
    if why := why_no_certificate(read_file(pair.certificate)):
        return f"{pair.certificate} {why}"
    if why := why_no_key(read_file(pair.key)):
        return f"{pair.key} {why}"
    if getattr(problem, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"{pair.key} is not the key of {pair.certificate}"
    return f"{pair.certificate} and {pair.key} can't be used: {explain(problem)}"
