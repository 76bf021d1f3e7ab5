"""Whatever is wrong with a request about a Secret or a token: neither the answer nor any log quotes what is secret in it.

The same value is planted in the stored Secret and in what is sent, in its plain form and in base64; every way to fail is
tried against a real server, and every answer, the server's output, its audit log and all events are searched for it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.kit.http import APPLY, JSON, JSON_PATCH, MERGE, PROTOBUF, STRATEGIC, TABLE, Answer, Http
from tests.kit.pilothouse_server import PilothouseServer

PLANTED = "hunter2-correct-horse-battery-staple"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
SECRETS = "/api/v1/namespaces/default/secrets"
SECRET = f"{SECRETS}/stored"
FROZEN = f"{SECRETS}/frozen"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
TOKENS = "/api/v1/namespaces/default/serviceaccounts/default/token"
YAML = "application/yaml"


class Attempt(NamedTuple):
    """A request that fails, and what else it asks for."""

    method: str
    path: str
    body: Any
    type: str = JSON
    query: Mapping[str, Any] = MappingProxyType({})


def secret(name: str = "stored", **parts: Any) -> dict[str, Any]:
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "data": {"password": ENCODED},
        **parts,
    }


STORED = secret(metadata={"annotations": {"copy": json.dumps({"data": ENCODED})}})


def misfits(name: str) -> Iterator[dict[str, Any]]:
    """Secrets that are none, with what is secret in the place that is wrong, or beside it."""
    yield secret(name, data={"password": PLANTED + "!"})
    yield secret(name, data={"password": {"nested": PLANTED}})
    yield secret(name, data={"password": [PLANTED]})
    yield secret(name, data=PLANTED)
    yield secret(name, data=[PLANTED])
    yield secret(name, stringData={"password": {"nested": PLANTED}})
    yield secret(name, stringData=PLANTED)
    yield secret(name, stringData=[{"password": PLANTED}])
    yield secret(name, data={"not a key/": ENCODED})
    yield secret(name, immutable=PLANTED)
    yield secret(name, immutable={"a": PLANTED})
    yield secret(name, type={"a": PLANTED})
    yield secret(name, type="kubernetes.io/tls")
    yield secret(name, type="kubernetes.io/basic-auth")
    yield secret(name, type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": ENCODED})
    yield secret(name, type="kubernetes.io/dockercfg", stringData={".dockercfg": PLANTED})
    yield secret(name, metadata={"annotations": {"a": {"b": PLANTED}}})
    yield secret(name, metadata={"annotations": {"not a/key/": PLANTED}})
    yield secret(name, metadata={"labels": {"a b": PLANTED}})
    yield secret(name, metadata={"finalizers": ["no finalizer"]})
    yield secret(name, metadata={"uid": "another", "resourceVersion": "7"})
    yield secret(name, metadata={"namespace": "another"})
    yield secret(name, data={"password": ENCODED, "more": base64.b64encode(b"x" * 2**20).decode()})


def broken_texts() -> Iterator[tuple[str, bytes]]:
    """Bodies that can't be decoded."""
    whole = json.dumps(secret()).encode()
    yield JSON, whole[:-3]
    yield JSON, whole + b"}"
    yield JSON, whole.replace(b'"data": ', b'"data" ')
    yield JSON, whole.replace(ENCODED.encode(), ENCODED.encode() + b"\\x")
    yield JSON, whole.replace(ENCODED.encode(), ENCODED.encode() + b"\xff")
    yield JSON, whole.replace(b'"data"', b'"unknown": 1e999999, "data"')
    for line in (
        f"  password: !!int {PLANTED}",
        f"  password: !!float {PLANTED}",
        f"  password: !!null {PLANTED}",
        f"  password: !!bool {PLANTED}",
        f"  password: !!{PLANTED} x",
        f"  password: *{PLANTED}",
        f'  password: "{PLANTED}',
        f"  password: %{PLANTED}",
        f"  password: {PLANTED}: {PLANTED}",
        f"  {{[{PLANTED}]: x}}",
        f"  <<: {PLANTED}",
        f"  password: '{PLANTED}' '{PLANTED}'",
    ):
        yield (
            YAML,
            f"apiVersion: v1\nkind: Secret\nmetadata: {{name: stored}}\nstringData:\n{line}\n".encode(),
        )
    yield PROTOBUF, b"k8s\x00" + whole
    yield PROTOBUF, b"k8s\x00\n\x0c\n\x02v1\x12\x06Secret\x12\x7f" + PLANTED.encode()
    yield "text/" + "plain", whole


def json_patches() -> Iterator[list[dict[str, Any]]]:
    for name in ("add", "copy", "move", "remove", "replace", "test", "jump"):
        for path in (
            "",
            "/data/absent/x",
            "/data/password/x",
            "/data/password",
            "/metadata/managedFields/99",
            "/metadata/managedFields/x",
            "data",
            "/data",
            "/immutable",
        ):
            yield [{"op": name, "path": path, "from": path, "value": PLANTED}]
    yield [{"op": "test", "path": "/data", "value": {"password": PLANTED}}]
    yield [{"op": "test", "path": "/data/password", "value": PLANTED}]
    for place in ("name", "namespace", "uid", "resourceVersion", "labels", "generateName", "finalizers"):
        yield [{"op": "copy", "from": "/data/password", "path": f"/metadata/{place}"}]
    yield [
        {"op": "add", "path": "/metadata/labels", "value": {}},
        {"op": "copy", "from": "/data/password", "path": "/metadata/labels/a b"},
    ]
    yield [{"op": "copy", "from": "/data", "path": "/metadata/labels"}]
    for place in ("kind", "apiVersion", "type", "immutable"):
        yield [{"op": "copy", "from": "/data/password", "path": f"/{place}"}]
        yield [{"op": "copy", "from": "/metadata/annotations/copy", "path": f"/{place}"}]
    yield [{"op": "add", "path": "/data/copy", "value": {"a": PLANTED}}]
    yield [{"op": "replace", "path": "/data", "value": ENCODED}]


def strategic_patches() -> Iterator[dict[str, Any]]:
    yield {"data": {"$patch": PLANTED}}
    yield {"metadata": {"ownerReferences": [{"name": PLANTED}]}}
    yield {"metadata": {"ownerReferences": [PLANTED]}}
    yield {"metadata": {"$retainKeys": ["x"], "annotations": {"a": PLANTED}}}
    yield {"metadata": {"$setElementOrder/finalizers": PLANTED}}
    yield {"$deleteFromPrimitiveList/data": PLANTED}
    yield {"data": {"$retainKeys": [], "password": ENCODED}}


def reviews() -> Iterator[Attempt]:
    for spec in (
        {"token": {"a": PLANTED}},
        {"token": [PLANTED]},
        {"token": PLANTED, "audiences": PLANTED},
        PLANTED,
        [PLANTED],
    ):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
        yield Attempt("POST", REVIEWS, body)
    yield Attempt(
        "POST", REVIEWS, {"spec": {"token": PLANTED, "tokn": PLANTED}}, query={"fieldValidation": "Strict"}
    )
    for spec in ({"boundObjectRef": PLANTED}, {"expirationSeconds": PLANTED}, PLANTED):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        yield Attempt("POST", TOKENS, body)


def attempts() -> Iterator[Attempt]:
    strict = {"fieldValidation": "Strict"}
    manager = {"fieldManager": "other"}
    for at, method, path in (("fresh", "POST", SECRETS), ("stored", "PUT", SECRET)):
        for body in misfits(at):
            yield Attempt(method, path, body)
        yield Attempt(method, path, secret(at, dta={"password": PLANTED}), query=strict)
        yield Attempt(method, path, secret(at, dta=PLANTED), query=strict)
        yield Attempt(method, path, json.dumps(secret(at))[:-1].encode() + b', "data": {}}', query=strict)
        for type_, text in broken_texts():
            yield Attempt(method, path, text, type_)
    for body in misfits("stored"):
        yield Attempt("PATCH", SECRET, body, MERGE)
        yield Attempt("PATCH", SECRET, body, STRATEGIC)
        yield Attempt("PATCH", SECRET, body, APPLY, {**manager, "force": "true"})
        yield Attempt(
            "PATCH",
            f"{SECRETS}/fresh",
            {**body, "metadata": {**body["metadata"], "name": "fresh"}},
            APPLY,
            manager,
        )
    for type_, text in broken_texts():
        for patch in (MERGE, STRATEGIC, JSON_PATCH):
            if type_ == JSON:
                yield Attempt("PATCH", SECRET, text, patch)
        yield Attempt("PATCH", SECRET, text, APPLY, manager)
    for operations in json_patches():
        yield Attempt("PATCH", SECRET, operations, JSON_PATCH)
        yield Attempt("PATCH", SECRET, operations, JSON_PATCH, strict)
    for patch_body in strategic_patches():
        yield Attempt("PATCH", SECRET, patch_body, STRATEGIC)
    for type_ in (MERGE, STRATEGIC):
        yield Attempt("PATCH", SECRET, {"dta": {"password": PLANTED}}, type_, strict)
        yield Attempt("PATCH", SECRET, json.dumps([PLANTED]).encode(), type_)
        yield Attempt("PATCH", SECRET, json.dumps(PLANTED).encode(), type_)
        yield Attempt("PATCH", SECRET, {"type": PLANTED}, type_)
        yield Attempt("PATCH", FROZEN, {"data": {"password": ENCODED}, "immutable": False}, type_)
        yield Attempt(
            "PATCH", SECRET, {"metadata": {"resourceVersion": "1"}, "stringData": {"a": PLANTED}}, type_
        )
    yield Attempt("PUT", SECRET, secret(type=PLANTED))
    yield Attempt("PUT", FROZEN, secret("frozen", stringData={"other": PLANTED}))
    yield Attempt("PUT", SECRET, secret("another"))
    yield Attempt("PUT", SECRET, secret(apiVersion="v2"))
    yield Attempt("POST", SECRETS, secret())
    other = secret(data={"password": base64.b64encode(b"other").decode()})
    yield Attempt("PATCH", SECRET, other, APPLY, manager)
    yield Attempt("PATCH", SECRET, secret(dta=PLANTED), APPLY, {**manager, **strict})
    yield Attempt("PATCH", SECRET, secret(metadata={"managedFields": [{"manager": PLANTED}]}), APPLY, manager)
    yield Attempt(
        "PATCH", FROZEN, {**other, "metadata": {"name": "frozen"}}, APPLY, {**manager, "force": "true"}
    )
    # Sent to the wrong place, where it is no Secret any more.
    for path in ("configmaps", "pods", "services", "serviceaccounts", "events"):
        yield Attempt(
            "POST", f"/api/v1/namespaces/default/{path}", secret("stray", stringData={"a": PLANTED})
        )
    yield Attempt("GET", SECRETS, None, query={"fieldSelector": "data.password!=x"})
    yield Attempt("GET", SECRETS, None, query={"labelSelector": "a b"})
    yield from reviews()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PilothouseServer]:
    server = PilothouseServer(tmp_path_factory.mktemp("server"), "memory")
    yield server
    server.close()


@pytest.fixture
async def client(own_server: PilothouseServer) -> AsyncIterator[Http]:
    async with Http.to(own_server.target) as client:
        for stored in (STORED, secret("frozen", immutable=True)):
            answer = await client.post(SECRETS, stored)
            assert answer.status in (201, 409), answer.text
        yield client


def quotes(text: str) -> bool:
    # The last character of an encoding depends on what follows it.
    return PLANTED in text or ENCODED.rstrip("=")[:-1] in text


async def test_neither_answers_nor_logs_nor_events_quote_it(
    client: Http, own_server: PilothouseServer
) -> None:
    codes: dict[int, int] = {}
    leaks: list[str] = []
    for attempt in attempts():
        method, path, body, type_, query = attempt
        answer = await client.send(method, path, body, type=type_ if body is not None else None, **query)
        codes[answer.status] = codes.get(answer.status, 0) + 1
        if answer.status >= 400 and quotes(_shown(answer)):
            leaks.append(f"{method} {path} {type_}: {answer.status} {answer.text}\n    {str(body)[:300]}")
        assert not any(quotes(warning) for warning in answer.warnings), (attempt, answer.warnings)
        if answer.status in (200, 201) and method != "GET":
            # What went through after all is undone, so that each attempt meets the same.
            await client.delete(f"{SECRETS}/fresh")
            await client.delete(SECRET)
            (await client.post(SECRETS, STORED)).expect(201)
    assert not leaks, f"{len(leaks)} answers quote it:\n" + "\n".join(leaks)
    # Nearly every attempt fails as it should, in all these ways.
    assert {400, 409, 415, 422} <= codes.keys()
    assert 500 not in codes
    assert sum(count for code, count in codes.items() if code >= 400) > 250, codes

    assert quotes((await client.get(SECRET)).text)
    assert not quotes((await client.get(SECRETS, accept=TABLE, includeObject="None")).text)
    assert not quotes((await client.get("/api/v1/events")).text)
    assert not quotes(own_server.process.output())
    audit = own_server.audit_log.read_text()
    assert SECRET in audit
    assert not quotes(audit)


def _shown(answer: Answer) -> str:
    return answer.text + str(dict(answer.headers))
