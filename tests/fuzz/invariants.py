"""What holds after any request, however odd, and the requests that find out."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

from tests.fuzz.samples import Object, Samples, path_of
from tests.kit.core import Answered, CoreServer

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"


def tried(server: CoreServer, method: str, path: str, body: object = None, **more: Any) -> Answered:
    """The answer to a request that may be refused: never a 5xx, and a refusal has a reason and no effect."""
    before = server.revision
    answer = server.send(method, path, body, **more)
    said = f"{method} {path} {more} {str(body)[:3000]}: {answer.status} {answer.body[:1000]!r}"
    assert answer.status < 500, said
    if answer.status >= 400:
        assert server.revision == before, f"refused, but written: {said}"
        if answer.content_type.startswith("application/json"):
            status = answer.json
            assert status["kind"] == "Status", said
            assert status["message"], said
            assert status["code"] == answer.status, said
    return answer


def by_name(name: str) -> str:
    """The query for one object of a collection."""
    escaped = re.sub(r"([\\,=])", r"\\\1", name)
    return f"fieldSelector=metadata.name%3D{quote(escaped)}"


def check_readable(server: CoreServer, samples: Samples, obj: Object) -> None:
    """An object that was accepted can be seen in every form and version, and written back without a change."""
    collection, path = path_of(server, obj), path_of(server, obj, named=True)
    only = by_name(obj["metadata"]["name"])
    found = server.send("GET", path).expect(200)
    assert found["metadata"]["uid"] == obj["metadata"]["uid"]
    if found["metadata"]["resourceVersion"] == obj["metadata"]["resourceVersion"]:
        assert found == obj, f"{found} was answered as {obj}"
    listed = server.send("GET", collection, query=only).expect(200)
    assert [each["metadata"]["uid"] for each in listed["items"]] == [obj["metadata"]["uid"]], (obj, listed)
    for accept in (TABLE, PARTIAL, "application/yaml"):
        assert server.send("GET", path, accept=accept).status == 200, accept
    for accept in (TABLE, PARTIAL_LIST):
        server.send("GET", collection, query=only, accept=accept).expect(200)
    for accept in ("", TABLE, PARTIAL):
        events = server.watched(collection, only, accept=accept)
        assert [event["type"] for event in events] == ["ADDED"], (accept, events)
    if obj["kind"] == "CustomResourceDefinition":
        # The server settles a definition's status with each write, also one that someone else has put there.
        server.send("PUT", path, found).expect(200)
    before = server.revision
    for kind in samples.served((obj["apiVersion"], obj["kind"])).resource.kinds:
        if kind.served:
            elsewhere = path.replace(f"/{obj['apiVersion']}/", f"/{kind.api_version}/")
            seen = server.send("GET", elsewhere).expect(200)
            assert seen["metadata"]["uid"] == obj["metadata"]["uid"]
            answer = server.send("PUT", elsewhere, seen)
            said = f"{json.dumps(seen)[:3000]} came back as {answer.body[:3000]!r}"
            assert answer.status == 200, said
            assert server.revision == before, said


def remove(server: CoreServer, path: str) -> None:
    """Take an object away again, whatever holds it."""
    free = {"metadata": {"finalizers": None}}
    tried(server, "DELETE", path, {"gracePeriodSeconds": 0})
    server.settle()
    left = server.send("PATCH", path, free, type=MERGE)
    if left.status == 200 and left.json["kind"] == "Namespace":
        server.send("PUT", f"{path}/finalize", {"metadata": {"name": left.json["metadata"]["name"]}})
    server.settle()
    assert server.send("GET", path).status == 404, f"{path} does not go"
