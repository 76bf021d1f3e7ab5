"""The requests that carry a small object of their own: reviews, tokens, bindings, evictions, verdicts, protobuf bodies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.breaking import ODD, broken_objects
from tests.fuzz.effort import QUICK, long
from tests.fuzz.invariants import check_readable, remove, tried
from tests.fuzz.samples import Object, Samples, path_of
from tests.kit.core import CoreServer

from pilothouse.meta.schema.model import Schema

DEFAULT = "/api/v1/namespaces/default"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
RESOURCE = {"verb": "get", "group": "apps", "resource": "statefulsets", "namespace": "default", "name": "a"}
OPTIONS = {"gracePeriodSeconds": 0, "propagationPolicy": "Background", "preconditions": {"uid": "u"}}
REQUESTS: dict[str, Object] = {
    "/apis/authentication.k8s.io/v1/tokenreviews": {"spec": {"token": "t", "audiences": ["a"]}},
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": {},
    "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews": {},
    f"{AUTHORIZATION}/selfsubjectaccessreviews": {"spec": {"resourceAttributes": RESOURCE}},
    f"{AUTHORIZATION}/subjectaccessreviews": {
        "spec": {"user": "u", "groups": ["g"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}
    },
    f"{AUTHORIZATION}/namespaces/default/localsubjectaccessreviews": {
        "spec": {"user": "u", "resourceAttributes": RESOURCE, "extra": {"a": ["b"]}}
    },
    f"{AUTHORIZATION}/selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    f"{DEFAULT}/serviceaccounts/sample/token": {
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 3600,
            "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "sample", "uid": "u"},
        }
    },
    f"{DEFAULT}/pods/sample/binding": {
        "target": {"kind": "Node", "name": "n"},
        "metadata": {"name": "sample"},
    },
    f"{DEFAULT}/pods/sample/eviction": {"metadata": {"name": "sample"}, "deleteOptions": OPTIONS},
}
VECTORS = sorted((Path(__file__).parents[1] / "api/kubernetes/vectors").glob("*.pb"))
PROTOBUF = "application/vnd.kubernetes.protobuf"


def present(server: CoreServer, samples: Samples, kind: str) -> str:
    sample = samples.of(("v1", kind))
    server.send("POST", path_of(server, sample), sample).expect(201, 409)
    return path_of(server, sample, named=True)


def pose(server: CoreServer, samples: Samples, path: str, data: st.DataObject) -> None:
    present(server, samples, "ServiceAccount")
    pod = present(server, samples, "Pod")
    try:
        good = {"metadata": {}, **REQUESTS[path]}
        tried(server, "POST", path, data.draw(broken_objects(good, Schema())))
        tried(server, "POST", path, data.draw(ODD))
        if "/pods/" in path and (seen := server.send("GET", pod)).status == 200:
            check_readable(server, samples, seen.json)
    finally:
        remove(server, pod)


def judge(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    """A verdict on a request for a certificate, odd in its conditions."""
    request = samples.of(("certificates.k8s.io/v1", "CertificateSigningRequest"))
    server.send("POST", path_of(server, request), request).expect(201)
    path = path_of(server, request, named=True)
    try:
        condition = {"type": "Approved", "status": "True", "reason": "a", "message": "b"}
        verdict = {**request, "status": {"conditions": [condition]}}
        schema = samples.served((request["apiVersion"], request["kind"])).kind.schema
        for part in ("approval", "status"):
            tried(server, "PUT", f"{path}/{part}", data.draw(broken_objects(verdict, schema)))
        check_readable(server, samples, server.send("GET", path).expect(200))
    finally:
        remove(server, path)


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """A protobuf body with a few bytes changed, dropped, repeated or put in."""
    body = bytearray(good)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["change", "cut", "repeat", "insert", "end"])):
            case "change" if at < len(body):
                body[at] = draw(st.integers(0, 255))
            case "cut":
                del body[at : at + draw(st.integers(0, 20))]
            case "repeat":
                body[at:at] = body[at : at + 30]
            case "insert":
                body[at:at] = draw(st.binary(max_size=12))
            case "end":
                del body[at:]
    return bytes(body)


def decode(server: CoreServer, samples: Samples, file: Path, data: st.DataObject) -> None:
    kinds = [kind for kind in samples.kinds() if kind[1].lower() == file.stem]
    body: Any = data.draw(damaged(file.read_bytes()))
    for kind in kinds:
        collection = path_of(server, samples.of(kind))
        answer = tried(server, "POST", collection, body, type=PROTOBUF)
        if answer.status == 201:
            server.settle()
            try:
                check_readable(server, samples, answer.json)
            finally:
                remove(server, path_of(server, answer.json, named=True))


every_request = pytest.mark.parametrize("path", sorted(REQUESTS))
every_vector = pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.stem)


@every_request
@settings(QUICK, max_examples=30)
@given(data=st.data())
def test_posing(server: CoreServer, samples: Samples, path: str, data: st.DataObject) -> None:
    pose(server, samples, path, data)


@settings(QUICK, max_examples=40)
@given(data=st.data())
def test_judging(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    judge(server, samples, data)


@every_vector
@settings(QUICK, max_examples=40)
@given(data=st.data())
def test_decoding(server: CoreServer, samples: Samples, file: Path, data: st.DataObject) -> None:
    decode(server, samples, file, data)


@pytest.mark.long
@every_request
@long(1_500)
@given(data=st.data())
def test_posing_for_long(server: CoreServer, samples: Samples, path: str, data: st.DataObject) -> None:
    pose(server, samples, path, data)


@pytest.mark.long
@long(2_000)
@given(data=st.data())
def test_judging_for_long(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    judge(server, samples, data)


@pytest.mark.long
@every_vector
@long(2_000)
@given(data=st.data())
def test_decoding_for_long(server: CoreServer, samples: Samples, file: Path, data: st.DataObject) -> None:
    decode(server, samples, file, data)
