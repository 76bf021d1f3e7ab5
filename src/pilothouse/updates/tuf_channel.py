"""Channels that are TUF repositories, read with python-tuf.

    offer = await ask_repository(api, session, config, facts, token, fence)

The repository's metadata is below ``metadata/`` of the channel, and ``index.yaml`` is one of its targets. The
trust begins with ``spec.trustedRoot``; from there python-tuf follows root to root, and refuses metadata that
is unsigned, expired, older than what was seen before, or does not belong together. What was seen is kept in
ConfigMap ``kube-system/update-channel-NAME``, so that it outlives processes: without it, a server could offer
an old state again. It is kept as far as it was verified, also when the rest is refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pilothouse.api.kind_names import ConfigMap
from pilothouse.api.objects import Object, Tree
from pilothouse.client.api import Api
from pilothouse.runtime.intent_executor import FenceOf
from pilothouse.updates.channel_client import NoOffer, authorization, channel_url
from pilothouse.updates.channel_index import BadIndex, ChannelOffer, parse_offer
from pilothouse.updates.cluster_facts import ClusterFacts
from pilothouse.updates.http_fetch import FetchError, FetchSession, fetch

if TYPE_CHECKING:
    from tuf.ngclient import FetcherInterface

NAMESPACE: Final = "kube-system"
INDEX: Final = "index.yaml"
METADATA: Final = "metadata/"
REPOSITORY: Final = "pilothouse.io/repository"
"""The annotation that says which repository, from which root on, was seen."""
_LONGEST: Final = 256 * 1024
_ROTATIONS: Final = 32
_MOST_KEPT: Final = 900 * 1024
_PATIENCE: Final = 120.0
_ROOTS: Final = "root_history"
Get = Callable[[str], bytes]
"""Fetches a document and blocks meanwhile; raises FetchError."""
_KEPT: Final = ("timestamp.json", "snapshot.json", "targets.json")


async def ask_repository(
    api: Api,
    session: FetchSession,
    config: Object,
    facts: ClusterFacts,
    token: str,
    fence: FenceOf,
) -> ChannelOffer:
    """What the index of a repository offers. Raises NoOffer."""
    url = channel_url(config.spec["updateServer"], config.spec["channel"])
    root = config.spec["trustedRoot"].encode()
    headers = {**facts.headers(), **authorization(url, token)}
    name = state_name(config.name)
    repository = hashlib.sha256(url.encode() + b"\n" + root).hexdigest()
    kept = await api.find(ConfigMap, name, NAMESPACE)
    seen = kept.tree.get("data") or {} if kept and kept.annotations.get(REPOSITORY) == repository else {}
    loop = asyncio.get_running_loop()

    def get(address: str) -> bytes:
        """Called in the thread of python-tuf."""
        asked = fetch(session, address, headers, longest=_LONGEST)
        return asyncio.run_coroutine_threadsafe(asked, loop).result()

    with tempfile.TemporaryDirectory(prefix="pilothouse-tuf-") as folder:
        _restore(Path(folder), seen)
        try:
            async with asyncio.timeout(_PATIENCE):
                body = await asyncio.to_thread(_read_index, Path(folder), url, root, get)
        except TimeoutError:
            raise NoOffer(f"{url} was not read within {_PATIENCE:g} s") from None
        finally:
            state = _state(Path(folder))
            if state != seen:
                await api.apply(ConfigMap, _config_map(name, repository, state), force=True, fence=fence())
    try:
        return parse_offer(body, f"{url}{INDEX}")
    except BadIndex as error:
        raise NoOffer(f"{url}{INDEX}: {error}") from None


def state_name(config: str) -> str:
    """The ConfigMap that keeps what was seen of a config's channel."""
    name = f"update-channel-{config}"
    if len(name) <= 253:
        return name
    return f"{name[:200]}-{hashlib.sha256(config.encode()).hexdigest()[:16]}"


def _read_index(folder: Path, url: str, root: bytes, get: Get) -> bytes:
    """The verified index. Blocks. Raises NoOffer."""
    try:
        from tuf.api import exceptions
        from tuf.ngclient import Updater, UpdaterConfig
    except ImportError:
        raise NoOffer(
            "spec.trustedRoot needs python-tuf, which is not installed: pip install 'pilothouse[updates]'"
        ) from None
    limits = UpdaterConfig(
        max_root_rotations=_ROTATIONS,
        root_max_length=_LONGEST,
        snapshot_max_length=_LONGEST,
        targets_max_length=_LONGEST,
    )
    try:
        updater = Updater(
            str(folder),
            f"{url}{METADATA}",
            str(folder / "downloads"),
            url,
            fetcher=_fetcher(get),
            config=limits,
            bootstrap=root,
        )
    except (exceptions.RepositoryError, ValueError) as error:
        raise NoOffer(f"spec.trustedRoot is not the root metadata of a TUF repository: {error}") from None
    try:
        updater.refresh()
        info = updater.get_targetinfo(INDEX)
        if info is None:
            raise NoOffer(f"the repository {url} has no target {INDEX}")
        return Path(updater.download_target(info)).read_bytes()
    except exceptions.ExpiredMetadataError as error:
        raise NoOffer(
            f"{url} shows expired metadata: {error}; it is held back on the way, or was not signed again"
        ) from None
    except exceptions.BadVersionNumberError as error:
        raise NoOffer(f"{url} shows metadata that is older than was seen, or mixed: {error}") from None
    except exceptions.LengthOrHashMismatchError as error:
        raise NoOffer(f"{url} shows files that don't belong together: {error}") from None
    except exceptions.UnsignedMetadataError as error:
        raise NoOffer(f"{url} shows metadata that no trusted key has signed: {error}") from None
    except exceptions.DownloadError as error:
        raise NoOffer(str(error.__cause__ or error)) from None
    except exceptions.RepositoryError as error:
        raise NoOffer(f"{url} is not a valid TUF repository: {error}") from None


def _fetcher(get: Get) -> FetcherInterface:
    from tuf.api.exceptions import DownloadError, DownloadHTTPError
    from tuf.ngclient import FetcherInterface as Interface

    class Fetcher(Interface):
        def _fetch(self, url: str) -> Iterator[bytes]:
            try:
                return iter([get(url)])
            except FetchError as error:
                if error.status:
                    raise DownloadHTTPError(str(error), error.status) from error
                raise DownloadError(str(error)) from error

    return Fetcher()


def _restore(folder: Path, seen: Mapping[str, str]) -> None:
    (folder / _ROOTS).mkdir()
    (folder / "downloads").mkdir()
    for name, content in seen.items():
        target = folder / _ROOTS / name if name.endswith(".root.json") else folder / name
        if target.name in _KEPT or target.name.endswith(".root.json"):
            target.write_text(content)


def _state(folder: Path) -> dict[str, str]:
    """What python-tuf has verified. Root metadata that is needed no more is left out where space is short."""
    kept = {name: (folder / name).read_text() for name in _KEPT if (folder / name).is_file()}
    roots = sorted((folder / _ROOTS).glob("*.root.json"), key=lambda path: int(path.name.split(".")[0]))
    for path in roots:
        if sum(map(len, kept.values())) + path.stat().st_size > _MOST_KEPT:
            break
        kept[path.name] = path.read_text()
    return kept


def _config_map(name: str, repository: str, state: Mapping[str, str]) -> Tree:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {REPOSITORY: repository}},
        "data": dict(state),
    }
