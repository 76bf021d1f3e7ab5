"""Which requests for certificates are approved without anybody's hand."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from tests.kit.placing import node, seen
from tests.kit.requests import request_for

from pilothouse.api.objects import Tree
from pilothouse.controllers.node_requests import node_requests
from pilothouse.runtime.intents import Patch, Wait

NODE = "system:node:a"
JOINING = {
    "username": "system:bootstrap:abcdef",
    "groups": ["system:bootstrappers:pilothouse", "system:authenticated"],
}
RENEWING = {"username": NODE, "groups": ["system:nodes", "system:authenticated"]}


def request(pem: bytes | None = None, *, status: Tree | None = None, **spec: Any) -> Tree:
    pem = request_for(NODE, "system:nodes") if pem is None else pem
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "csr-1"},
        "spec": {
            "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["client auth", "digital signature"],
            "request": b64encode(pem).decode(),
            **spec,
        },
        "status": status or {},
    }


@pytest.mark.parametrize("who", [JOINING, RENEWING], ids=["joining", "renewing"])
def test_a_node_is_approved(who: Tree) -> None:
    (patch,) = seen(node_requests, request(**who))
    assert isinstance(patch, Patch)
    assert (patch.subresource, patch.exact) == ("approval", True)
    (verdict,) = patch.fields["status"]["conditions"]
    assert (verdict["type"], verdict["status"], verdict["reason"]) == ("Approved", "True", "AutoApproved")


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(username="eve", groups=["system:authenticated"]), id="anybody"),
        pytest.param(request(username="system:node:b", groups=["system:nodes"]), id="another node"),
        pytest.param(request(username=NODE, groups=["system:authenticated"]), id="by name alone"),
        pytest.param(request(username="eve", groups=["system:bootstrappersx"]), id="a group of a similar name"),
        pytest.param(request(request_for("admin", "system:masters"), **JOINING), id="a master"),
        pytest.param(request(request_for(NODE, "system:nodes", "system:masters"), **JOINING), id="a master besides"),
        pytest.param(request(request_for("admin", "system:nodes"), **JOINING), id="not a node's name"),
        pytest.param(request(request_for(NODE, "system:nodes", dns=["a"]), **JOINING), id="other names"),
        pytest.param(request(usages=["client auth", "digital signature", "server auth"], **JOINING), id="usages"),
        pytest.param(request(usages=["client auth"], **JOINING), id="too few usages"),
        pytest.param(request(b"nonsense", **JOINING), id="nonsense"),
    ],
)  # fmt: skip
def test_all_else_is_left_to_people_who_are_told(asked: Tree) -> None:
    (wait,) = seen(node_requests, asked)
    assert isinstance(wait, Wait)
    assert wait.remedy.endswith("kubectl certificate approve csr-1")


def test_a_token_is_not_enough_to_take_the_place_of_a_node_that_is_there() -> None:
    (wait,) = seen(node_requests, request(**JOINING), node("a"))
    assert isinstance(wait, Wait)
    assert "there is a node a already" in wait.because
    (patch,) = seen(node_requests, request(**RENEWING), node("a"))
    assert isinstance(patch, Patch)


def serving(*organizations: str, **names: list[str]) -> Tree:
    """A request for the certificate of the node's own server, made by the node."""
    pem = request_for(NODE, *(organizations or ("system:nodes",)), **names)
    signer = "kubernetes.io/kubelet-serving"
    return request(pem, signerName=signer, usages=["server auth", "digital signature"], **RENEWING)


def test_a_nodes_server_may_have_its_own_name() -> None:
    (patch,) = seen(node_requests, serving(dns=["a.node.pilothouse.internal"]))
    assert isinstance(patch, Patch)
    assert "serving certificate" in patch.because


@pytest.mark.parametrize(
    "names",
    [
        pytest.param({"dns": ["a"]}, id="its plain name, which a host may have"),
        pytest.param({"dns": ["b.node.pilothouse.internal"]}, id="another node's"),
        pytest.param({"dns": ["a.node.pilothouse.internal", "kubernetes"]}, id="the API server's besides"),
        pytest.param({"dns": ["a.node.pilothouse.internal"], "addresses": ["10.0.0.1"]}, id="an address"),
        pytest.param({}, id="none"),
    ],
)
def test_a_nodes_server_gets_no_other_name_by_itself(names: dict[str, list[str]]) -> None:
    (wait,) = seen(node_requests, serving(**names))
    assert isinstance(wait, Wait)


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(request(signerName="kubernetes.io/kube-apiserver-client", **JOINING), id="any client"),
        pytest.param(request(status={"conditions": [{"type": "Denied", "status": "True"}]}, **JOINING), id="denied"),
        pytest.param(request(status={"conditions": [{"type": "Approved", "status": "True"}]}, **JOINING), id="done"),
    ],
)  # fmt: skip
def test_other_signers_and_verdicts_are_not_touched(asked: Tree) -> None:
    assert seen(node_requests, asked) == []
