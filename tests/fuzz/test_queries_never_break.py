"""Whatever stands behind the question mark: an answer, or a 4xx that names the parameter; and nothing is written by reading."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz.breaking import ODD, WORDS
from tests.fuzz.effort import QUICK, long
from tests.fuzz.invariants import PARTIAL, PARTIAL_LIST, TABLE, tried
from tests.fuzz.samples import Samples
from tests.kit.core import CoreServer

GADGETS = "/apis/fuzz.example.io/v1/namespaces/default/gadgets"
COLLECTIONS = [
    GADGETS,
    "/apis/fuzz.example.io/v1/gadgets",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces",
    "/api/v1/events",
    "/api/v1/watch/namespaces/default/configmaps",
    "/apis/navigator.jetstack.io/v1alpha1/pilots",
]
OBJECTS = [
    f"{GADGETS}/sample",
    f"{GADGETS}/nobody",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/status",
]
BOOLEANS = st.sampled_from(["", "true", "false", "1", "0", "TRUE", "yes", "2", "\u0131"]) | WORDS
# A revision that has not come is waited for, for seconds: it has a test of its own.
REVISIONS = st.sampled_from(
    ["", "0", "1", "2", "5", "-1", "+1", "1.5", " 1", "1_0", "0x1", "٣", "00", "01", "a"]
)
NAMES = [
    "a",
    "b.c/d",
    "metadata.name",
    "spec.engine",
    "status.phase",
    "sample",
    "in",
    "notin",
    "exists",
    "é",
    "x" * 64,
]
SIGNS = ["=", "==", "!=", "!", ",", "(", ")", ">", "<", " ", "\\", "\\,", "\\=", "\n", "\x00", "/"]
SELECTORS = st.lists(st.sampled_from([*NAMES, *SIGNS]), max_size=8).map("".join)


def token(start: Any, revision: Any, version: Any) -> str:
    body = json.dumps({"v": version, "rv": revision, "start": start}).encode()
    return urlsafe_b64encode(body).decode().rstrip("=")


TOKENS = st.one_of(
    WORDS,
    st.binary(max_size=40).map(lambda raw: urlsafe_b64encode(raw).decode()),
    st.builds(
        token,
        st.sampled_from(["default/sample\0", "default/\0", "\0", "../x\0", "a/b/c/d\0", "\ud800\0", "a"])
        | ODD,
        st.sampled_from([-1, 0, 1, 5, 2**63, -2, 1.5]) | ODD,
        st.sampled_from(["meta.k8s.io/v1"] * 5 + ["v2", 1, None]),
    ),
)
PARAMETERS: dict[str, st.SearchStrategy[str]] = {
    "resourceVersion": REVISIONS,
    "resourceVersionMatch": st.sampled_from(["Exact", "NotOlderThan", "", "exact", "Other"]),
    "limit": st.sampled_from(["", "0", "1", "2", "-1", "9" * 30, "1.5", "a", "1e3", "٣", " 1"]),
    "continue": TOKENS,
    "labelSelector": SELECTORS,
    "fieldSelector": SELECTORS,
    "timeoutSeconds": st.sampled_from(["", "0", "1", "-1", "a", "9" * 30, "1.5"]),
    "watch": BOOLEANS,
    "allowWatchBookmarks": BOOLEANS,
    "sendInitialEvents": BOOLEANS,
    "pretty": BOOLEANS,
    "includeObject": st.sampled_from(["", "None", "Metadata", "Object", "Other"]),
    "timeout": st.sampled_from(["", "1s", "0", "-1s", "a", "9" * 30 + "h"]),
    "dryRun": st.sampled_from(["", "All", "Some"]),
    "fieldManager": WORDS,
    "fieldValidation": st.sampled_from(["", "Strict", "Warn", "Ignore", "Other"]),
    "force": BOOLEANS,
    "gracePeriodSeconds": st.sampled_from(["", "0", "-1", "a", "9" * 30, "1.5", "٣"]),
    "propagationPolicy": st.sampled_from(["", "Orphan", "Background", "Foreground", "Other"]),
    "orphanDependents": BOOLEANS,
    "unheard": WORDS,
}
RAW = st.sampled_from(
    ["%", "%zz", "%00", "%ff", "%ed%a0%80", "&&", "==", ";", "a&b", "+", "limit", "%6cimit=1", "#x"]
)
ACCEPTS = st.sampled_from(
    [
        "",
        TABLE,
        PARTIAL,
        PARTIAL_LIST,
        f"{TABLE},application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json;as=Table;v=v9;g=x",
        "application/json;q=nan",
        "*/*;q=0",
        ",;=,",
        "x" * 5000,
    ]
)


ENCODINGS: list[Callable[[str], str]] = [quote, quote_plus, lambda text: text]


@st.composite
def queries(draw: st.DrawFn) -> str:
    """A query of a few parameters: in any order, repeated, encoded in any way, or not a query at all."""
    parts: list[str] = []
    for name in draw(st.lists(st.sampled_from(sorted(PARAMETERS)), max_size=5)):
        value = draw(PARAMETERS[name])
        encode = draw(st.sampled_from(ENCODINGS))
        try:
            parts.append(f"{name}={encode(value)}")
        except UnicodeEncodeError:
            parts.append(f"{name}=%ed%a0%80")
    if draw(st.integers(0, 5)) == 0:
        parts.append(draw(RAW))
    return "&".join(parts)


def read(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    sample = samples.of(("fuzz.example.io/v1", "Gadget"))
    server.send("POST", GADGETS, sample).expect(201, 409)
    path = data.draw(st.sampled_from(COLLECTIONS + OBJECTS))
    method = data.draw(st.sampled_from(["GET", "GET", "GET", "HEAD", "OPTIONS", "TRACE"]))
    before = server.revision
    tried(server, method, path, query=data.draw(queries()), accept=data.draw(ACCEPTS))
    assert server.revision == before


def write(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    """The same parameters on writes: refused or not, the answer is never worse than a 4xx."""
    path = "/api/v1/namespaces/default/configmaps"
    query, accept = data.draw(queries()), data.draw(ACCEPTS)
    server.send("POST", path, {"metadata": {"name": "a"}}).expect(201, 409)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": "b"}}
    patch = data.draw(st.sampled_from(["merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]))
    tried(server, "PATCH", f"{path}/a", body, type=f"application/{patch}", query=query, accept=accept)
    tried(server, "PUT", f"{path}/a", body, query=query, accept=accept)
    tried(server, "DELETE", f"{path}/a", query=query, accept=accept)
    tried(server, "POST", path, body, query=query, accept=accept)
    tried(server, "DELETE", path, query=query, accept=accept)


def wander(server: CoreServer, data: st.DataObject) -> None:
    """Paths that are nearly right, with any method and a body or none."""
    steps = [
        "",
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "configmaps",
        "pods",
        "watch",
        "status",
        "scale",
        "a",
    ]
    steps += [
        "fuzz.example.io",
        "gadgets",
        "sample",
        "binding",
        "token",
        "finalize",
        "openapi",
        "v3",
        "..",
        ".",
    ]
    known = st.sampled_from(
        ["/api/v1", "/apis/fuzz.example.io/v1", GADGETS, "/api/v1/namespaces/default", ""]
    )
    tail = data.draw(st.lists(st.sampled_from(steps) | WORDS, max_size=6))
    path = "/".join([data.draw(known), *tail]) or "/"
    method = data.draw(
        st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "CONNECT", "get", ""])
    )
    body = data.draw(st.none() | ODD)
    media = data.draw(st.sampled_from(["application/json", "application/merge-patch+json", "text/plain", ""]))
    tried(server, method, path, body, type=media, query=data.draw(queries()))


@settings(QUICK, max_examples=300)
@given(data=st.data())
def test_reading(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    read(server, samples, data)


@settings(QUICK, max_examples=150)
@given(data=st.data())
def test_writing(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    write(server, samples, data)


@settings(QUICK, max_examples=300)
@given(data=st.data())
def test_wandering(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    wander(server, data)


@pytest.mark.parametrize("query", ["resourceVersion=999999999", f"resourceVersion={2**63}"])
def test_a_revision_that_does_not_come_is_not_waited_for_without_end(server: CoreServer, query: str) -> None:
    for path in (GADGETS, "/api/v1/namespaces/default"):
        status = server.send("GET", path, query=query).expect(504)
        assert status["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
    assert server.send("GET", GADGETS, query=f"{query}&watch=1").status == 200


@pytest.mark.long
@long(20_000)
@given(data=st.data())
def test_reading_for_long(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    read(server, samples, data)


@pytest.mark.long
@long(5_000)
@given(data=st.data())
def test_writing_for_long(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    write(server, samples, data)


@pytest.mark.long
@long(20_000)
@given(data=st.data())
def test_wandering_for_long(server: CoreServer, samples: Samples, data: st.DataObject) -> None:
    wander(server, data)
