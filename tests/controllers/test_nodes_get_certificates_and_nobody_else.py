"""Which requests for certificates are approved without anybody's hand."""

from __future__ import annotations

import dataclasses
import ipaddress
from base64 import b64encode
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from tests.kit.requests import new_key, request_for
from tests.kit.scheduling_objects import NOW, node, seen

from pilothouse.api.kind_names import ControlNode
from pilothouse.api.objects import Tree
from pilothouse.base.rfc3339 import format_time
from pilothouse.controllers.node_certificate_approval import node_requests
from pilothouse.pki.request_signing import RequestError, read_request
from pilothouse.pki.signers import NODE_CLIENT as CLIENT_SIGNER
from pilothouse.pki.signers import NODE_SERVING as SERVING_SIGNER
from pilothouse.pki.signers import why_refused
from pilothouse.runtime.intents import PatchObject, Wait

NODE = "system:node:a"
JOINING: Tree = {
    "username": "system:bootstrap:abcdef",
    "groups": ["system:bootstrappers:pilothouse", "system:authenticated"],
}
RENEWING: Tree = {"username": NODE, "groups": ["system:nodes", "system:authenticated"]}


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
    assert isinstance(patch, PatchObject)
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
    assert "node a exists already" in wait.because
    controller = {"apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": {"name": "a"}}
    (wait,) = seen(node_requests, request(**JOINING), controller)
    assert "node a exists already" in wait.because
    (patch,) = seen(node_requests, request(**RENEWING), node("a"))
    assert isinstance(patch, PatchObject)


def test_the_agent_of_a_control_host_joins_by_a_token_that_names_it_until_one_has_reported() -> None:
    named = {**JOINING, "extra": {"pilothouse.io/node-name": ["a"]}}
    controller = {"apiVersion": ControlNode.api_version, "kind": "ControlNode", "metadata": {"name": "a"}}
    (patch,) = seen(node_requests, request(**named), controller)
    assert isinstance(patch, PatchObject)
    # The heartbeat of the machine's manager is no report of an agent.
    alive = {**controller, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (patch,) = seen(node_requests, request(**named), alive)
    assert isinstance(patch, PatchObject)
    reported = {**controller, "status": {"k0sVersion": "v1.0.0"}}
    for asked in (
        seen(node_requests, request(**named), reported),
        seen(node_requests, request(**named), controller, node("a")),
        seen(node_requests, request(**{**named, "extra": {"pilothouse.io/node-name": ["b"]}}), controller),
    ):
        (wait,) = asked
        assert isinstance(wait, Wait)
        assert "node a exists already" in wait.because


BAD_NAMES = [
    "*",
    "",
    "a..b",
    "..",
    ".",
    "A",
    "a_b",
    "a/b",
    "a b",
    "-a",
    "a.",
    ".a",
    "a\n",
    "*.a",
    "ä",
    "a" * 254,
]


@pytest.mark.parametrize("name", [each for each in BAD_NAMES if len(each) < 50])
@pytest.mark.parametrize("who", ["joining", "renewing"])
def test_a_name_that_no_node_can_have_is_not_approved(name: str, who: str) -> None:
    user = f"system:node:{name}"
    asker = JOINING if who == "joining" else {**RENEWING, "username": user}
    (wait,) = seen(node_requests, request(request_for(user, "system:nodes"), **asker))
    assert isinstance(wait, Wait)
    assert "is no name for a node" in wait.because


@pytest.mark.parametrize("name", BAD_NAMES)
def test_nor_is_it_signed_whoever_approved_it(name: str) -> None:
    plain = read_request(request_for(NODE, "system:nodes"))
    asked = dataclasses.replace(plain, common_name=f"system:node:{name}")
    assert "is no name for a node" in why_refused(CLIENT_SIGNER, asked, ["client auth", "digital signature"])
    served = dataclasses.replace(asked, dns_names=(f"{name}.node.pilothouse.internal",))
    assert "is no name for a node" in why_refused(
        SERVING_SIGNER, served, ["server auth", "digital signature"]
    )


@pytest.mark.parametrize(
    "names",
    [
        {"dns": ["*.node.pilothouse.internal"]},
        {"dns": ["b.node.pilothouse.internal"]},
        {"dns": ["node.pilothouse.internal"]},
        {"dns": ["*"]},
        {"dns": ["a..b"]},
        {"dns": [""]},
        {"dns": ["KUBERNETES"]},
        {"dns": ["a.node.pilothouse.internal", "kubernetes"]},
        {"dns": ["kubernetes.default.svc"]},
        {"dns": ["kubernetes.default.svc.cluster.local"]},
        {"dns": ["db.shop.svc"]},
        {"dns": ["localhost"]},
        {"addresses": ["127.0.0.1"]},
        {"addresses": ["0.0.0.0"]},
        {"addresses": ["::1"]},
        {"addresses": ["169.254.169.254"]},
        {"dns": ["a.node.pilothouse.internal"], "emails": ["a@example.com"]},
        {"dns": ["a.node.pilothouse.internal"], "uris": ["spiffe://a"]},
    ],
    ids=str,
)
def test_no_serving_certificate_is_signed_for_names_that_are_not_a_nodes(names: dict[str, Any]) -> None:
    asked = read_request(request_for(NODE, "system:nodes", **names))
    assert why_refused(SERVING_SIGNER, asked, ["server auth", "digital signature"])


def with_alternative(other: x509.GeneralName) -> bytes:
    """A node's request that asks for a subject alternative name beside its own."""
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
            x509.NameAttribute(NameOID.COMMON_NAME, NODE),
        ]
    )
    names = x509.SubjectAlternativeName([x509.DNSName("a.node.pilothouse.internal"), other])
    made = x509.CertificateSigningRequestBuilder().subject_name(subject).add_extension(names, critical=False)
    return made.sign(new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_nor_for_names_of_other_types() -> None:
    other = x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubernetes")]))
    assert "nothing but DNS names and IP addresses" in why_refused(
        SERVING_SIGNER, read_request(with_alternative(other)), ["server auth", "digital signature"]
    )


@pytest.mark.parametrize("network", ["10.0.0.0/8", "fd00::/8"])
def test_a_request_for_a_whole_network_is_not_read(network: str) -> None:
    pem = with_alternative(x509.IPAddress(ipaddress.ip_network(network)))
    with pytest.raises(RequestError, match="is a network, not an address"):
        read_request(pem)
    (wait,) = seen(node_requests, request(pem, **RENEWING))
    assert isinstance(wait, Wait)


def signed_before(created: str) -> Tree:
    """Another machine's request for the same node, which got its certificate."""
    other = request(username="system:bootstrap:fedcba", groups=["system:bootstrappers"])
    other["metadata"] = {"name": "csr-0", "creationTimestamp": created}
    other["status"] = {"certificate": "cGVt", "conditions": [{"type": "Approved", "status": "True"}]}
    return other


def test_a_second_token_does_not_take_the_name_of_a_machine_that_is_about_to_register() -> None:
    recent, old = (format_time(NOW - age) for age in (600, 7200))
    (wait,) = seen(node_requests, request(**JOINING), signed_before(recent))
    assert isinstance(wait, Wait)
    assert "pilothouse token create --node a" in wait.because
    (patch,) = seen(node_requests, request(**JOINING), signed_before(old))
    assert isinstance(patch, PatchObject)


def test_a_token_for_that_node_replaces_the_machine() -> None:
    meant = {**JOINING, "extra": {"pilothouse.io/node-name": ["a"]}}
    (patch,) = seen(node_requests, request(**meant), signed_before(format_time(NOW - 600)))
    assert isinstance(patch, PatchObject)
    (wait,) = seen(node_requests, request(**meant), node("a"))
    assert "node a exists already" in wait.because
    elsewhere = {**JOINING, "extra": {"pilothouse.io/node-name": ["b"]}}
    (wait,) = seen(node_requests, request(**elsewhere))
    assert "the token is for the node b" in wait.because


def serving(*organizations: str, **names: Any) -> Tree:
    """A request for the certificate of the node's own server, made by the node."""
    pem = request_for(NODE, *(organizations or ("system:nodes",)), **names)
    signer = "kubernetes.io/kubelet-serving"
    return request(pem, signerName=signer, usages=["server auth", "digital signature"], **RENEWING)


def test_a_nodes_server_may_have_its_own_name() -> None:
    (patch,) = seen(node_requests, serving(dns=["a.node.pilothouse.internal"]))
    assert isinstance(patch, PatchObject)
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


@pytest.mark.parametrize("signer", [CLIENT_SIGNER, SERVING_SIGNER])
def test_nothing_is_signed_that_a_subject_has_besides(signer: str) -> None:
    """Attributes that nobody here reads may mean something to who trusts the same authority."""
    names = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:nodes"),
        x509.NameAttribute(NameOID.COMMON_NAME, NODE),
    ]
    for oid in (NameOID.ORGANIZATIONAL_UNIT_NAME, NameOID.SERIAL_NUMBER, x509.ObjectIdentifier("1.2.3.4.5")):
        subject = x509.Name([*names, x509.NameAttribute(oid, "system:masters")])
        builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
        if signer == SERVING_SIGNER:
            alternatives = x509.SubjectAlternativeName([x509.DNSName("a.node.pilothouse.internal")])
            builder = builder.add_extension(alternatives, critical=False)
        pem = builder.sign(new_key(), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        purpose = "client auth" if signer == CLIENT_SIGNER else "server auth"
        said = why_refused(signer, read_request(pem), [purpose, "digital signature"])
        assert said == (
            "the subject may have nothing but its organization and common name, "
            f"not the attributes {oid.dotted_string}"
        )
