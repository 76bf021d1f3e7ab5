"""A request that the controller approves and the server signs."""

from __future__ import annotations

from base64 import b64decode, b64encode

from tests.kit.requests import request_for
from tests.runtime.conftest import Bench

from pilothouse.api.kind_names import CertificateSigningRequest
from pilothouse.apiserver.authorization.authorizer import MASTERS
from pilothouse.apiserver.server.messages import User
from pilothouse.controllers.node_certificate_approval import node_requests
from pilothouse.pki.certificate_info import certificates_in

JOINING = User("joining", groups=(MASTERS, "system:bootstrappers:pilothouse"))


def test_who_has_a_bootstrap_token_gets_a_certificate(bench: Bench) -> None:
    async def scenario(bench: Bench) -> None:
        bench.manage([node_requests])
        request = {
            "apiVersion": "certificates.k8s.io/v1",
            "kind": "CertificateSigningRequest",
            "metadata": {"name": "csr-1"},
            "spec": {
                "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["client auth", "digital signature"],
                "request": b64encode(request_for("system:node:a", "system:nodes")).decode(),
            },
        }
        await bench.server.api("joining", user=JOINING).create(CertificateSigningRequest, request)
        await bench.settle()
        answered = await bench.api.get(CertificateSigningRequest, "csr-1")
        assert answered.is_true("Approved")
        (certificate,) = certificates_in(b64decode(answered.status["certificate"]))
        assert "system:node:a" in certificate.subject
        before = bench.server.revision
        await bench.settle(600)
        assert bench.server.revision == before

    bench.run(scenario)
