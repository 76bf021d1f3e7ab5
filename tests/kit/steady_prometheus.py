"""An HTTP server that answers each query as a Prometheus whose series stay the same.

    with steady_prometheus([({"volumename": "pv-a"}, "60")]) as url:
        file.write_text(f"providers: [{{name: default, type: prometheus, params: 'url={url}'}}]\\n")

Every expression has the same answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Series = Sequence[tuple[Mapping[str, str], str]]
"""Labels and value of each."""


@contextmanager
def steady_prometheus(series: Series) -> Iterator[str]:
    """Its URL, within the context."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = parse_qs(urlsplit(self.path).query)["query"][0]
            result = [
                {
                    "metric": labels,
                    "value": [time.time(), str(time.time()) if "timestamp" in query else value],
                }
                for labels, value in series
            ]
            body = json.dumps(
                {"status": "success", "data": {"resultType": "vector", "result": result}}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
