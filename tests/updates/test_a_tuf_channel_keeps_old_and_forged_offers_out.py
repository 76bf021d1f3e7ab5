"""Channels with a trusted root: what is followed, and what is refused and why."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.kit.channel_server import ChannelServer, serving_channel
from tests.kit.publisher import Publisher
from tests.updates.conftest import Cluster
from tuf.ngclient import Updater
from tuf.ngclient._internal import trusted_metadata_set

from pilothouse.api.kind_names import ConfigMap, UpdateConfig
from pilothouse.updates.tuf_channel import state_name

OLD, NEW = "v1.2.3", "v1.2.4"


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    publisher = Publisher(tmp_path)
    publisher.publish(OLD)
    return publisher


@pytest.fixture
def server(publisher: Publisher) -> Iterator[ChannelServer]:
    with serving_channel(folder=publisher.folder) as server:
        yield server


def keep(publisher: Publisher, name: str) -> Path:
    """A copy of what is served."""
    return Path(shutil.copytree(publisher.folder, publisher.place / name))


def replay(publisher: Publisher, copy: Path) -> None:
    """Serve a copy again."""
    shutil.rmtree(publisher.folder)
    shutil.copytree(copy, publisher.folder)


async def test_a_trusted_offer_is_followed(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    answer = await cluster.answer(1)
    assert (answer.get("message", ""), answer["version"]) == ("", OLD)
    (download,) = answer["downloads"]
    assert download["k0s"]["url"] == f"{server.url}/stable/{OLD}/linux-amd64/program"
    publisher.publish(NEW)
    assert (await cluster.answer(2))["version"] == NEW


async def test_requests_carry_what_those_for_an_index_carry(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    await cluster.answer(1)
    assert len(server.asked) >= 4
    assert all(asked.headers["K0S_ClusterID"] for asked in server.asked)


async def test_a_replayed_offer_is_refused(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    old = keep(publisher, "old")
    await cluster.follow(server.url, trustedRoot=publisher.root)
    publisher.publish(NEW)
    assert (await cluster.answer(1))["version"] == NEW
    replay(publisher, old)
    answer = await cluster.answer(2)
    assert "version" not in answer
    assert "older than was seen" in answer["message"]


async def test_what_was_seen_outlives_the_process(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    old = keep(publisher, "old")
    config = await cluster.follow(server.url, trustedRoot=publisher.root)
    publisher.publish(NEW)
    await cluster.answer(1)
    kept = await cluster.api.get(ConfigMap, state_name(config.name), "kube-system")
    assert json.loads(kept.tree["data"]["timestamp.json"])["signed"]["version"] == 2
    await cluster.api.delete(ConfigMap, kept.name, "kube-system")
    replay(publisher, old)
    # Without it nothing tells the old state from a new one.
    assert (await cluster.answer(2))["version"] == OLD


async def test_another_root_begins_anew(cluster: Cluster, publisher: Publisher, tmp_path: Path) -> None:
    publisher.publish(NEW)
    (tmp_path / "other").mkdir()
    other = Publisher(tmp_path / "other")
    other.publish(OLD)
    with serving_channel(folder=publisher.folder) as server:
        await cluster.follow(server.url, trustedRoot=publisher.root)
        assert (await cluster.answer(1))["version"] == NEW
    with serving_channel(folder=other.folder) as server:
        spec = {"updateServer": server.url, "trustedRoot": other.root}
        await cluster.api.patch(UpdateConfig, "updates", "", {"spec": spec})
        assert (await cluster.answer(2))["version"] == OLD


async def test_expired_metadata_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    publisher = Publisher(tmp_path)
    publisher.later(days=-8)
    publisher.publish(OLD)
    with serving_channel(folder=publisher.folder) as server:
        await cluster.follow(server.url, trustedRoot=publisher.root)
        answer = await cluster.answer(1)
        assert "version" not in answer
        assert "shows expired metadata" in answer["message"]
        publisher.later(days=8)
        assert publisher.renew() == ["snapshot", "timestamp"]
        assert (await cluster.answer(2))["version"] == OLD


class InTenDays(datetime):
    """A clock that is ahead."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> InTenDays:
        ahead = datetime.now(tz) + timedelta(days=10)
        return cls.fromtimestamp(ahead.timestamp(), tz)


async def test_a_frozen_channel_is_noticed(
    cluster: Cluster, publisher: Publisher, server: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that hides what is new shows the same timestamp until that expires."""
    await cluster.follow(server.url, trustedRoot=publisher.root)
    assert (await cluster.answer(1))["version"] == OLD
    assert (await cluster.answer(2))["version"] == OLD
    ahead = SimpleNamespace(datetime=InTenDays, timezone=timezone)
    monkeypatch.setattr(trusted_metadata_set, "datetime", ahead)
    answer = await cluster.answer(3)
    assert "version" not in answer
    assert "shows expired metadata" in answer["message"]


async def test_mixed_metadata_is_refused(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    publisher.publish(NEW)
    shutil.copy(publisher.metadata / "1.snapshot.json", publisher.metadata / "2.snapshot.json")
    answer = await cluster.answer(1)
    assert "version" not in answer
    assert "or mixed" in answer["message"]


async def test_an_index_of_another_time_is_refused(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    (hashed,) = (publisher.folder / "stable").glob("*.index.yaml")
    hashed.write_text(hashed.read_text().replace(OLD, "v9.9.9"))
    answer = await cluster.answer(1)
    assert "don't belong together" in answer["message"]


async def test_a_rotated_root_is_followed(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    assert (await cluster.answer(1))["version"] == OLD
    publisher.rotate()
    publisher.rotate()
    publisher.publish(NEW)
    answer = await cluster.answer(2)
    assert (answer.get("message", ""), answer["version"]) == ("", NEW)
    kept = await cluster.api.get(ConfigMap, state_name("updates"), "kube-system")
    assert {"1.root.json", "2.root.json", "3.root.json"} <= set(kept.tree["data"])


async def test_keys_that_were_replaced_sign_nothing_more(
    cluster: Cluster, publisher: Publisher, server: ChannelServer
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    stolen = publisher.keys
    publisher.rotate()
    assert (await cluster.answer(1))["version"] == OLD
    roots = {path.name: path.read_bytes() for path in publisher.metadata.glob("*.root.json")}
    forger = publisher
    (publisher.metadata / "2.root.json").unlink()
    forger.keys = stolen
    forger.publish(NEW)
    for name, content in roots.items():
        (publisher.metadata / name).write_bytes(content)
    answer = await cluster.answer(2)
    assert "version" not in answer
    assert "no trusted key has signed" in answer["message"]


async def test_a_root_that_no_trusted_key_has_signed_is_refused(
    cluster: Cluster, publisher: Publisher, server: ChannelServer, tmp_path: Path
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    (tmp_path / "other").mkdir()
    other = Publisher(tmp_path / "other")
    other.publish(OLD)
    other.rotate()
    shutil.copy(other.metadata / "2.root.json", publisher.metadata / "2.root.json")
    answer = await cluster.answer(1)
    assert "no trusted key has signed" in answer["message"]


@pytest.mark.parametrize("root", ["x", "{}", '{"signed": {"_type": "root"}, "signatures": []}'])
async def test_a_trusted_root_that_is_none_is_refused(
    cluster: Cluster, server: ChannelServer, root: str
) -> None:
    await cluster.follow(server.url, trustedRoot=root)
    assert "spec.trustedRoot is not the root metadata" in (await cluster.answer(1))["message"]
    assert server.asked == []


async def test_a_server_without_metadata_says_so(cluster: Cluster, publisher: Publisher) -> None:
    with serving_channel() as server:
        await cluster.follow(server.url, trustedRoot=publisher.root)
        assert "timestamp.json answered 404" in (await cluster.answer(1))["message"]
    assert "can't be reached" in (await cluster.answer(2))["message"]


async def test_without_python_tuf_the_answer_says_what_to_install(
    cluster: Cluster, publisher: Publisher, server: ChannelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.follow(server.url, trustedRoot=publisher.root)
    monkeypatch.setitem(sys.modules, "tuf.ngclient", None)
    assert "pip install 'pilothouse[updates]'" in (await cluster.answer(1))["message"]


def test_tufs_own_client_reads_ours(publisher: Publisher, server: ChannelServer, tmp_path: Path) -> None:
    publisher.publish(NEW, "linux-amd64", "linux-arm64")
    (tmp_path / "seen").mkdir()
    (tmp_path / "targets").mkdir()
    client = Updater(
        str(tmp_path / "seen"),
        f"{server.url}/stable/metadata/",
        str(tmp_path / "targets"),
        f"{server.url}/stable/",
        bootstrap=publisher.root.encode(),
    )
    client.refresh()
    for target in ("index.yaml", f"{NEW}/linux-amd64/program", f"{NEW}/linux-arm64/program"):
        info = client.get_targetinfo(target)
        assert info is not None
        got = Path(client.download_target(info)).read_bytes()
        assert got == (publisher.folder / "stable" / target).read_bytes()
