"""etcd's maintenance through its JSON gateway, for cases about forgotten history.

compact("http://127.0.0.1:2379", 17)       # revision 17 and those before it can't be read or watched any more
"""

from __future__ import annotations

import json
import urllib.request
from typing import Any


def compact(endpoint: str, forgotten: int) -> None:
    """Forget a revision and those before it."""
    _call(endpoint, "kv/compaction", {"revision": str(forgotten + 1), "physical": True})


def _call(endpoint: str, method: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(f"{endpoint}/v3/{method}", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
        return found
