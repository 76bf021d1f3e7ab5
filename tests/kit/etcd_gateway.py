"""etcd's maintenance through its JSON gateway, for cases about forgotten history.

compact("http://127.0.0.1:2379")       # revisions before the latest can't be read or watched any more
"""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any


def revision(endpoint: str) -> int:
    """The store's latest revision."""
    some_key = base64.b64encode(b"\0").decode()
    answer = _call(endpoint, "kv/range", {"key": some_key, "count_only": True})
    return int(answer["header"]["revision"])


def compact(endpoint: str) -> None:
    """Forget every revision before the latest."""
    _call(endpoint, "kv/compaction", {"revision": str(revision(endpoint)), "physical": True})


def _call(endpoint: str, method: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(f"{endpoint}/v3/{method}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found
