"""Signs approved CertificateSigningRequests for the server's own signers.

    signing = CertificateSigner(catalog, cache, objects, authority, clock, spend, claims.serving_problem)
    cache.listen(signing)
    await signing.run()

The result is ``status.certificate`` or the condition ``Failed``. Every instance tries; a compare-and-swap
lets one win. A bootstrap token is spent before its request is signed. A node's serving certificate is limited
to the node's own names and addresses, regardless of who approved it.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Any

from pilothouse.api.kubernetes.certificates_v1 import GROUP
from pilothouse.apiserver.authentication import bootstrap_tokens
from pilothouse.apiserver.discovery.catalog import ROOT, KindCatalog
from pilothouse.apiserver.registry.certificate_requests import requested_in
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.collection import CacheEvent, Collection
from pilothouse.apiserver.storage.objects import ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import errors
from pilothouse.meta.conditions import condition_is
from pilothouse.meta.kind import Object
from pilothouse.pki.authority import Authority, UnusableError
from pilothouse.pki.request_signing import RequestedCertificate, RequestError, sign_request
from pilothouse.pki.signers import NODE_SERVING, SIGNERS, why_refused

PLURAL = "certificatesigningrequests"
_RETRY = 5.0

Spend = Callable[[str, str, RequestedCertificate], Awaitable[str]]
"""Uses up the bootstrap token of this id for the request of that name; returns any objection."""

log = logging.getLogger(__name__)


def is_due(request: Object) -> bool:
    """Whether a request is approved, for our signers, and neither signed nor failed."""
    status = request.get("status") or {}
    conditions = status.get("conditions")
    return (
        request["spec"].get("signerName") in SIGNERS
        and condition_is(conditions, "Approved")
        and not condition_is(conditions, "Denied")
        and not condition_is(conditions, "Failed")
        and not status.get("certificate")
    )


def signed(request: Object, authority: Authority, now: float, refusal: str = "") -> Object:
    """The request with its certificate, or with the reason why it gets none. Raises ``UnusableError``."""
    spec = request["spec"]
    status: dict[str, Any] = dict(request.get("status") or {})
    try:
        requested = requested_in(request)
        if problem := refusal or why_refused(spec["signerName"], requested, spec.get("usages") or ()):
            raise RequestError(problem)
        moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
        certificate = sign_request(
            authority, requested, spec.get("usages") or (), seconds=spec.get("expirationSeconds"), now=moment
        )
    except RequestError as problem:
        failed = {
            "type": "Failed",
            "status": "True",
            "reason": "SignerValidationFailure",
            "message": str(problem),
            "lastUpdateTime": format_time(now),
            "lastTransitionTime": format_time(now),
        }
        status["conditions"] = [*(status.get("conditions") or ()), failed]
    else:
        status["certificate"] = b64encode(certificate).decode()
    return {**request, "status": status}


class CertificateSigner:
    def __init__(
        self,
        catalog: KindCatalog,
        cache: WatchCache,
        objects: ObjectStorage,
        authority: Callable[[], Authority],
        clock: Clock,
        spend: Spend,
        serving_problem: Callable[[RequestedCertificate], str],
    ) -> None:
        """``authority`` returns the current authority."""
        self._catalog = catalog
        self._cache = cache
        self._objects = objects
        self._authority = authority
        self._clock = clock
        self._spend = spend
        self._serving_problem = serving_problem
        self._due: dict[str, None] = {}
        self._work = asyncio.Event()

    def happened(self, collection: Collection, event: CacheEvent) -> None:
        if collection.path == f"{GROUP}/{PLURAL}" and event.after is not None:
            self._consider(event.after.name, event.after.value)

    def advanced(self) -> None: ...

    def broken(self) -> None:
        for item in self._cache.collection(f"{GROUP}/{PLURAL}").items.values():
            self._consider(item.name, item.value)

    def _consider(self, name: str, value: bytes) -> None:
        if b'"Approved"' in value and is_due(codec.decode(value)):
            self._due[name] = None
            self._work.set()

    async def run(self) -> None:
        self.broken()
        while True:
            await self._work.wait()
            self._work.clear()
            for name in list(self._due):
                try:
                    await self.sign(name)
                except (errors.StatusError, UnusableError) as problem:
                    log.warning("the certificate request %s can't be signed yet: %s", name, problem)
                    asyncio.get_running_loop().call_later(_RETRY, self._work.set)
                except Exception:
                    # One request that can't be handled must not keep all others from being signed.
                    log.exception(
                        "the certificate request %s can't be signed; it is tried again when it changes", name
                    )
                    self._due.pop(name, None)
                else:
                    self._due.pop(name, None)

    async def sign(self, name: str) -> None:
        """Sign the request of that name, if it is due."""
        served = self._catalog.find(GROUP, "v1", PLURAL)
        if served is None:
            return

        item = self._cache.get(f"{GROUP}/{PLURAL}", f"{ROOT}{GROUP}/{PLURAL}/{name}")
        judged = codec.decode(item.value) if item is not None else None
        if judged is None or not is_due(judged):
            return
        refusal = await self._refusal(judged)

        def change(live: Object) -> Object:
            # Another request of the same name: the cache will report it.
            if live["metadata"]["uid"] != judged["metadata"]["uid"] or not is_due(live):
                return live
            return signed(live, self._authority(), self._clock.now(), refusal)

        try:
            await self._objects.amend(served, "", name, change)
        except errors.StatusError as problem:
            if problem.code != 404:
                raise

    async def _refusal(self, request: Object) -> str:
        """Why not to sign; spends a bootstrap token. Spec and requester are immutable, so the cache will
        do."""
        try:
            requested = requested_in(request)
        except RequestError as unreadable:
            return str(unreadable)
        spec = request["spec"]
        if problem := why_refused(spec["signerName"], requested, spec.get("usages") or ()):
            return problem
        if spec["signerName"] == NODE_SERVING and (problem := self._serving_problem(requested)):
            return problem
        user = str(spec.get("username") or "")
        if not user.startswith(bootstrap_tokens.USER):
            return ""
        return await self._spend(
            user.removeprefix(bootstrap_tokens.USER), request["metadata"]["name"], requested
        )
