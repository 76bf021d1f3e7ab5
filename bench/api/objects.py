"""What the servers are made to hold: objects of one kilobyte, of a built-in kind or of a custom one.

    kind = KINDS["configmaps"]
    kind.at("bench-list", "obj-00000007")     # /api/v1/namespaces/bench-list/configmaps/obj-00000007
    kind.manifest("obj-00000007")             # 1,024 bytes of JSON

The text inside is made of seeded words, different in every object, and deflates about 2.5 times: neither the best nor
the worst case of a gzipped list. kube-apiserver stores a ConfigMap as protobuf and a custom object as JSON.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Any

SIZE = 1024

# The widths of what changes between requests, so that a request has the same length every time.
DIGITS = 8

_SYLLABLES = (
    "ba",
    "ce",
    "di",
    "fo",
    "gu",
    "ka",
    "le",
    "mi",
    "no",
    "pu",
    "ra",
    "se",
    "ti",
    "vo",
    "xu",
    "za",
    "ber",
)


@dataclass(frozen=True)
class Kind:
    """A kind of namespaced objects, and the field that holds their strings."""

    plural: str
    api_version: str
    name: str
    field: str
    definition: dict[str, Any] | None = None

    def collection(self, namespace: str) -> str:
        root = "/apis" if "/" in self.api_version else "/api"
        return f"{root}/{self.api_version}/namespaces/{namespace}/{self.plural}"

    def at(self, namespace: str, name: str) -> str:
        return f"{self.collection(namespace)}/{name}"

    def manifest(self, name: str, *, serial: str = "0" * DIGITS, seed: int = 0) -> bytes:
        """An object with this name whose string `n` is the serial; exactly SIZE bytes."""

        def build(text: str) -> bytes:
            strings = {"n": serial, "settings": text}
            meta = {"name": name, "labels": {"app": "bench"}}
            body = {"apiVersion": self.api_version, "kind": self.name, "metadata": meta, self.field: strings}
            return json.dumps(body, separators=(",", ":")).encode()

        return build(_text(SIZE - len(build("")), seed))

    def patch(self, serial: str) -> bytes:
        """A merge patch that sets the string `n`."""
        return json.dumps({self.field: {"n": serial}}, separators=(",", ":")).encode()


def numbered(number: int) -> str:
    return f"obj-{number:0{DIGITS}}"


def _text(length: int, seed: int) -> str:
    """Lines of settings whose JSON form has this length; a line break takes two bytes there, so none is used."""
    choice = random.Random(seed)
    words: list[str] = []
    size = 0
    while size < length:
        key = "".join(choice.choices(_SYLLABLES, k=3))
        words.append(f"{key}={choice.choice(_SYLLABLES)}{choice.randrange(10000)}; ")
        size += len(words[-1])
    return "".join(words)[:length]


def _definition() -> dict[str, Any]:
    group, plural = "bench.example.com", "widgets"
    strings = {"type": "object", "properties": {"n": {"type": "string"}, "settings": {"type": "string"}}}
    schema = {"type": "object", "properties": {"spec": strings}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
            ],
        },
    }


KINDS = {
    "configmaps": Kind("configmaps", "v1", "ConfigMap", "data"),
    "widgets": Kind("widgets", "bench.example.com/v1", "Widget", "spec", _definition()),
}
