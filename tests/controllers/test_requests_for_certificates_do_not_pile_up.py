"""Requests for certificates go when they have served their purpose, at the times that Kubernetes has for that."""

from __future__ import annotations

import datetime
from base64 import b64encode

import pytest
from tests.kit.requests import request_for
from tests.kit.scheduling_objects import NOW, seen
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import CertificateSigningRequest
from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.certificate_request_cleaner import certificate_request_cleaner
from pilothouse.pki.authority import Authority
from pilothouse.pki.request_signing import read_request, sign_request
from pilothouse.runtime.intents import Delete, RequeueAfter
from pilothouse.sim.loop import SeededLoop

HOUR, DAY = 3600.0, 86400.0
PEM = request_for("system:node:a", "system:nodes")


def issued(*, ago: float, seconds: int) -> str:
    """A certificate that was made so long ago, for so long."""
    made = datetime.datetime.fromtimestamp(NOW - ago, datetime.UTC)
    authority = Authority.make("kit", made)
    signed = sign_request(authority, read_request(PEM), ["client auth"], now=made, seconds=seconds)
    return b64encode(signed).decode()


def request(*, age: float, said: str = "", ago: float = 0.0, certificate: str = "") -> Tree:
    """One that was made so long ago, about which something was said so long ago."""
    status: Tree = {}
    if said:
        moment = format_time(NOW - ago)
        status["conditions"] = [
            {"type": said, "status": "True", "lastUpdateTime": moment, "lastTransitionTime": moment}
        ]
    if certificate:
        status["certificate"] = certificate
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1", "creationTimestamp": format_time(NOW - age)},
        "spec": {
            "signerName": "example.com/any",
            "usages": ["client auth"],
            "request": b64encode(PEM).decode(),
        },
        "status": status,
    }


LASTING = issued(ago=2 * DAY, seconds=30 * 86400)
GONE = {
    "issued": request(age=DAY, said="Approved", ago=HOUR, certificate=LASTING),
    "denied": request(age=DAY, said="Denied", ago=HOUR),
    "failed": request(age=DAY, said="Failed", ago=HOUR),
    "nothing was said": request(age=DAY),
    "expired": request(age=HOUR, said="Approved", ago=HOUR / 2, certificate=issued(ago=HOUR, seconds=1800)),
    "a certificate that is none": request(age=DAY, said="Approved", ago=HOUR, certificate="bm9uZQ=="),
}
KEPT = {
    "issued": (
        request(age=DAY, said="Approved", ago=HOUR - 60, certificate=LASTING),
        "deleted an hour after its certificate was issued",
    ),
    "denied": (request(age=2 * DAY, said="Denied", ago=HOUR - 60), "deleted an hour after it was denied"),
    "nothing was said": (
        request(age=DAY - 60),
        "deleted a day after it was created, if it is still neither approved nor denied",
    ),
}


@pytest.mark.parametrize("which", GONE)
def test_what_is_settled_or_forgotten_goes(which: str) -> None:
    (intent,) = seen(certificate_request_cleaner, GONE[which])
    assert isinstance(intent, Delete)
    assert intent.exact
    assert intent.because


@pytest.mark.parametrize("which", KEPT)
def test_what_is_fresh_is_looked_at_again_when_it_may_go(which: str) -> None:
    tree, because = KEPT[which]
    (intent,) = seen(certificate_request_cleaner, tree)
    assert isinstance(intent, RequeueAfter)
    assert (intent.seconds, intent.because) == (60, because)


def test_what_is_approved_and_waits_for_its_signer_stays() -> None:
    assert seen(certificate_request_cleaner, request(age=9 * DAY, said="Approved", ago=8 * DAY)) == []


def test_a_server_is_rid_of_a_request_after_a_day() -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([certificate_request_cleaner])
        tree = request(age=0)
        del tree["metadata"]["creationTimestamp"]
        await bench.api.create(CertificateSigningRequest, tree)
        await bench.settle(DAY - 600)
        assert len((await bench.api.list(CertificateSigningRequest)).objects) == 1
        await bench.settle(1200)
        assert (await bench.api.list(CertificateSigningRequest)).objects == []

    with SeededLoop(1) as loop:
        Bench(loop).run(scenario)
