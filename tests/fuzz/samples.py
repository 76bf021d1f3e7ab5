"""A good object of every kind that is served, to be broken: the project's examples and those in ``samples.yaml``."""

from __future__ import annotations

import copy
from base64 import b64encode
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.kit import manifests
from tests.kit.core import CoreServer

from pilothouse.apiserver.discovery.catalog import ServedVersion
from pilothouse.apiserver.storage import codec

Object = dict[str, Any]
_HERE = Path(__file__).parent
_EXAMPLES = _HERE.parents[1] / "examples"


class Samples:
    """Good objects by ``apiVersion`` and kind, each tried on the server that they are for."""

    def __init__(self, server: CoreServer) -> None:
        self._server = server
        self._found: dict[tuple[str, str], Object] = {}
        for obj in [*_written(), _signing_request()]:
            if obj["kind"] == "CustomResourceDefinition":
                server.send("POST", path_of(server, obj), obj).expect(201)
                server.settle()
                obj = _another(obj)
            self._keep(obj)

    def kinds(self) -> list[tuple[str, str]]:
        return sorted(self._found)

    def of(self, kind: tuple[str, str]) -> Object:
        """A copy of one's own."""
        return copy.deepcopy(self._found[kind])

    def served(self, kind: tuple[str, str]) -> ServedVersion:
        found = self._server.core.catalog.of_kind(*kind)
        assert found is not None, kind
        return found

    def _keep(self, obj: Object) -> None:
        """Keep an object in every version of its kind, as the server converts it."""
        served = self._server.core.catalog.of_kind(obj["apiVersion"], obj["kind"])
        assert served is not None, obj
        self._found[obj["apiVersion"], obj["kind"]] = obj
        for other in served.resource.kinds:
            if other.served and other.api_version != obj["apiVersion"]:
                converted = codec.convert(served.resource, copy.deepcopy(obj), other.version)
                if other.version == "v1alpha1" and other.name.endswith("Cluster"):
                    converted["spec"]["pilotImage"] = {"repository": "example.io/pilot", "tag": "1"}
                self._found[other.api_version, other.name] = converted


def path_of(server: CoreServer, obj: Object, *, named: bool = False) -> str:
    """Where an object of this kind is created, or with ``named`` found."""
    served = server.core.catalog.of_kind(obj["apiVersion"], obj["kind"])
    assert served is not None, obj
    kind = served.kind
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    collection = f"{root}/namespaces/default/{kind.plural}" if kind.namespaced else f"{root}/{kind.plural}"
    return f"{collection}/{obj['metadata']['name']}" if named else collection


def _another(definition: Object) -> Object:
    """The definition of another kind of the same shape: to be broken while objects of the first are."""
    other = copy.deepcopy(definition)
    other["metadata"]["name"] = f"gizmos.{other['spec']['group']}"
    other["spec"]["names"] = {"plural": "gizmos", "kind": "Gizmo"}
    return other


def _written() -> list[Object]:
    found = manifests.load(_HERE / "samples.yaml")
    for file in sorted(_EXAMPLES.glob("*.yaml")):
        found += manifests.load(file)
    for obj in found:
        obj["metadata"].pop("namespace", None)
    return found


def _signing_request() -> Object:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mate")])
    made = x509.CertificateSigningRequestBuilder().subject_name(name)
    pem = made.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(
        serialization.Encoding.PEM
    )
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "sample"},
        "spec": {
            "request": b64encode(pem).decode(),
            "signerName": "example.io/signer",
            "usages": ["client auth"],
        },
    }
