"""Access from within a pod, by its environment and mounted files.

    access = load(os.environ)

The token is rotated in place; ``Access`` names its file, so that a long-lived client reads it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pilothouse.client.access import Access, AccessError

FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")

OTHER_SERVERS = "PILOTHOUSE_OTHER_API_SERVERS"
"""Set by our nodes: further URLs of the same API, separated by commas."""


def is_available(environ: Mapping[str, str], folder: Path = FOLDER) -> bool:
    """Whether this process runs in a pod that may talk to the API."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def load(environ: Mapping[str, str], folder: Path = FOLDER) -> Access:
    """The pod's own access. Raises ``AccessError`` outside a pod."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise AccessError(
            "not running in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; give a "
            "kubeconfig"
        )
    token = _read(folder / "token").decode().strip()
    namespace = folder / "namespace"
    return Access(
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        others=tuple(url for url in environ.get(OTHER_SERVERS, "").split(",") if url),
        authority=_read(folder / "ca.crt"),
        authority_file=folder / "ca.crt",
        token=token,
        token_file=folder / "token",
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
    )


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as problem:
        raise AccessError(f"{file} can't be read: {problem.strerror or problem}") from None
