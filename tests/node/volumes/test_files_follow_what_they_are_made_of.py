from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path

import pytest
from tests.node.volumes.conftest import World

from pilothouse.api.kind_names import ConfigMap, Pod, Secret, ServiceAccount
from pilothouse.base.clock import ManualClock
from pilothouse.client.api import Api
from pilothouse.node.interfaces import VolumeNotReady
from pilothouse.node.volumes.mount_table import mounts
from pilothouse.node.volumes.pod_tokens import account_uid
from pilothouse.node.volumes.pod_volumes import PodVolumes


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


async def test_a_config_map_is_a_folder_of_files(world: World, volumes: PodVolumes) -> None:
    await world.config("app", {"a.conf": "one"}, binaryData={"b.bin": "AAEC"})
    pod = await world.pod({"name": "c", "configMap": {"name": "app"}})
    prepared = (await volumes.prepare(pod))["c"]
    assert prepared.read_only
    assert (prepared.path / "a.conf").read_text() == "one"
    assert (prepared.path / "b.bin").read_bytes() == b"\0\1\2"
    assert mode(prepared.path / "a.conf") == 0o644
    assert os.readlink(prepared.path / "a.conf") == "..data/a.conf"


async def test_a_secret_is_decoded_and_has_the_modes_that_are_asked_for(
    world: World, volumes: PodVolumes
) -> None:
    await world.secret("db", {"password": "hunter2", "user": "app"})
    source = {
        "secretName": "db",
        "defaultMode": 0o400,
        "items": [{"key": "password", "path": "in/pw", "mode": 0o440}, {"key": "user", "path": "user"}],
    }
    pod = await world.pod({"name": "s", "secret": source})
    path = (await volumes.prepare(pod))["s"].path
    assert (path / "in" / "pw").read_text() == "hunter2"
    assert (mode(path / "in" / "pw"), mode(path / "user")) == (0o440, 0o400)
    assert sorted(one.name for one in path.iterdir() if not one.name.startswith("..")) == ["in", "user"]


async def test_secrets_are_in_memory(world: World, volumes: PodVolumes) -> None:
    await world.secret("db", {"password": "hunter2"})
    path = (await volumes.prepare(await world.pod({"name": "s", "secret": {"secretName": "db"}})))["s"].path
    holder = max(
        (one for one in mounts() if one.target in (path, *path.parents)), key=lambda one: len(str(one.target))
    )
    assert holder.kind == "tmpfs"


@pytest.mark.parametrize(
    ("kept", "count"),
    [({"big": "x" * 1_000_000}, 40), ({f"k{number}": "" for number in range(5000)}, 2)],
    ids=["large-ones", "many-small-ones"],
)
async def test_secrets_of_one_pod_do_not_fill_the_machines_memory(
    world: World, volumes: PodVolumes, kept: dict[str, str], count: int
) -> None:
    await world.secret("mb", kept)
    sources = [{"name": f"s{number}", "secret": {"secretName": "mb"}} for number in range(count)]
    greedy = await world.pod(*sources, name="greedy")
    with pytest.raises(VolumeNotReady, match="secrets and tokens of the pod") as told:
        await volumes.prepare(greedy)
    assert told.value.reason == "FailedMount"
    assert (await volumes.prepare(await world.pod(sources[0], name="modest")))["s0"].path.is_dir()
    await volumes.release(greedy.uid)


async def test_a_secret_that_grows_too_large_stays_as_it_was(world: World, volumes: PodVolumes) -> None:
    await world.secret("a", {"small": "one"})
    sources = [{"name": f"s{number}", "secret": {"secretName": "a"}} for number in range(40)]
    pod = await world.pod(*sources)
    prepared = await volumes.prepare(pod)
    for _ in range(2):
        await volumes.refresh()
    await world.secret("a", {"small": "x" * 1_000_000})
    await volumes.refresh()
    sizes = [(each.path / "small").stat().st_size for each in prepared.values()]
    assert sum(sizes) < 33_000_000
    assert 3 in sizes


async def test_files_change_all_at_once(world: World, volumes: PodVolumes) -> None:
    await world.config("app", {"a": "1", "b": "1", "old": "x"})
    pod = await world.pod({"name": "c", "configMap": {"name": "app"}})
    path = (await volumes.prepare(pod))["c"].path
    held = os.open(path / "..data", os.O_RDONLY | os.O_DIRECTORY)
    try:
        before = os.readlink(path / "..data")
        await world.config("app", {"a": "2", "b": "2", "new": "y"})
        await volumes.refresh()
        assert ((path / "a").read_text(), (path / "b").read_text(), (path / "new").read_text()) == (
            "2",
            "2",
            "y",
        )
        assert not (path / "old").is_symlink()
        assert os.readlink(path / "..data") != before
        assert sorted(os.listdir(path)) == sorted(["..data", os.readlink(path / "..data"), "a", "b", "new"])
        # Whoever had opened the old folder never saw a mixture: it is gone as a whole.
        assert os.listdir(held) == []
    finally:
        os.close(held)


async def test_files_that_have_not_changed_are_left_alone(world: World, volumes: PodVolumes) -> None:
    await world.config("app", {"a": "1"})
    pod = await world.pod({"name": "c", "configMap": {"name": "app"}})
    path = (await volumes.prepare(pod))["c"].path
    before = os.readlink(path / "..data")
    await volumes.refresh()
    await volumes.prepare(pod)
    assert os.readlink(path / "..data") == before


async def test_files_stay_when_what_they_are_made_of_goes(
    api: Api, world: World, volumes: PodVolumes
) -> None:
    await world.config("app", {"a": "1"})
    path = (await volumes.prepare(await world.pod({"name": "c", "configMap": {"name": "app"}})))["c"].path
    await api.delete(ConfigMap, "app", "default")
    await volumes.refresh()
    assert (path / "a").read_text() == "1"


async def test_an_exchange_that_was_cut_short_is_finished_by_the_next(
    world: World, volumes: PodVolumes
) -> None:
    await world.config("app", {"a": "1"})
    pod = await world.pod({"name": "c", "configMap": {"name": "app"}})
    path = (await volumes.prepare(pod))["c"].path
    (path / "..half").mkdir()
    (path / "..half" / "a").write_text("half")
    (path / "..data_next").symlink_to("..half")
    await world.config("app", {"a": "2"})
    await volumes.refresh()
    assert (path / "a").read_text() == "2"
    assert not (path / "..half").exists()


async def test_an_exchange_that_lacks_its_last_step_gets_it(world: World, volumes: PodVolumes) -> None:
    await world.config("app", {"a": "1", "b": "2"})
    pod = await world.pod({"name": "c", "configMap": {"name": "app"}})
    path = (await volumes.prepare(pod))["c"].path
    (path / "b").unlink()
    (path / "gone").symlink_to("..data/gone")
    await volumes.refresh()
    assert (path / "b").read_text() == "2"
    assert not (path / "gone").is_symlink()


async def test_nothing_is_written_for_a_pod_that_goes_while_its_files_are_looked_at(
    api: Api, data: Path, clock: ManualClock, world: World, volumes: PodVolumes
) -> None:
    await world.secret("db", {"password": "x"})
    pod = await world.pod(
        {"name": "s", "secret": {"secretName": "db"}},
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    )
    paths = [one.path for one in (await volumes.prepare(pod)).values()]
    looking = asyncio.create_task(volumes.refresh())
    await asyncio.sleep(0)
    await volumes.release(pod.uid)
    await looking
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"configMap": {"name": "none"}}, 'configmap "none" not found'),
        ({"secret": {"secretName": "none"}}, 'secret "none" not found'),
        (
            {"configMap": {"name": "app", "items": [{"key": "zz", "path": "zz"}]}},
            'references non-existent configmap key: zz (configmap "app")',
        ),
        ({"projected": {"sources": [{"secret": {"name": "none"}}]}}, 'secret "none" not found'),
    ],
)
async def test_what_is_missing_is_named(
    world: World, volumes: PodVolumes, source: dict[str, object], said: str
) -> None:
    await world.config("app", {"a": "1"})
    with pytest.raises(VolumeNotReady) as caught:
        await volumes.prepare(await world.pod({"name": "c", **source}))
    assert (caught.value.reason, said in caught.value.message) == ("FailedMount", True)


async def test_what_is_optional_may_be_missing_and_come_later(world: World, volumes: PodVolumes) -> None:
    pod = await world.pod({"name": "c", "configMap": {"name": "later", "optional": True}})
    path = (await volumes.prepare(pod))["c"].path
    assert [one for one in os.listdir(path) if not one.startswith("..")] == []
    await world.config("later", {"a": "1"})
    await volumes.refresh()
    assert (path / "a").read_text() == "1"


async def test_the_pod_reads_about_itself(api: Api, world: World, volumes: PodVolumes) -> None:
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations"}},
        {"path": "app", "fieldRef": {"fieldPath": "metadata.labels['app']"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {
            "path": "cpu",
            "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"},
        },
        {
            "path": "memory",
            "resourceFieldRef": {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"},
        },
    ]
    pod = await world.pod(
        {"name": "d", "downwardAPI": {"items": items}},
        metadata={"labels": {"app": "db", "tier": "x"}, "annotations": {"said": 'a "b"\nc'}},
        container={"resources": {"limits": {"memory": "64Mi"}}},
    )
    path = (await volumes.prepare(pod))["d"].path
    assert (path / "labels").read_text() == 'app="db"\ntier="x"'
    assert (path / "notes").read_text() == 'said="a \\"b\\"\\nc"'
    assert ((path / "app").read_text(), (path / "name").read_text()) == ("db", "web")
    assert ((path / "cpu").read_text(), (path / "memory").read_text()) == ("4000", "64")
    await api.patch(Pod, "web", "default", {"metadata": {"labels": {"app": "other"}}})
    await volumes.refresh()
    assert (path / "app").read_text() == "other"


async def test_several_sources_share_a_folder_and_a_token_is_renewed_in_time(
    world: World, volumes: PodVolumes, clock: ManualClock
) -> None:
    await world.config("app", {"ca.crt": "CA"})
    sources = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}},
        {"configMap": {"name": "app", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    pod = await world.pod({"name": "t", "projected": {"sources": sources, "defaultMode": 0o644}})
    path = (await volumes.prepare(pod))["t"].path
    first = (path / "token").read_text()
    assert first.count(".") == 2
    assert ((path / "ca.crt").read_text(), (path / "namespace").read_text()) == ("CA", "default")
    clock.advance(1000)
    await volumes.refresh()
    assert (path / "token").read_text() == first
    clock.advance(2000)
    await volumes.refresh()
    assert (path / "token").read_text() != first


async def test_a_token_follows_an_account_that_was_made_again(
    api: Api, world: World, volumes: PodVolumes
) -> None:
    sources = [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}]
    paths = []
    for name in ("web", "other"):
        pod = await world.pod({"name": "t", "projected": {"sources": sources}}, name=name)
        paths.append((await volumes.prepare(pod))["t"].path / "token")
    before = [path.read_text() for path in paths]
    first = await api.get(ServiceAccount, "default", "default")
    assert {account_uid(token) for token in before} == {first.uid}

    await api.delete(ServiceAccount, "default", "default")
    await volumes.refresh()
    assert [path.read_text() for path in paths] == before

    second = await api.create(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}})
    await volumes.refresh()
    after = [path.read_text() for path in paths]
    assert {account_uid(token) for token in after} == {second.uid} != {first.uid}
    await volumes.refresh()
    assert [path.read_text() for path in paths] == after


@pytest.mark.parametrize("token", ["", "opaque", "a.b", "a.e30.c", "a.bnVsbA.c", "a.\u00e4.c"])
def test_a_token_that_does_not_say_whose_it_is_names_nobody(token: str) -> None:
    assert account_uid(token) == ""


async def test_a_token_is_its_users_alone_where_the_pod_has_one_user(
    root: None, world: World, volumes: PodVolumes
) -> None:
    sources = [{"serviceAccountToken": {"path": "token"}}]
    alone = await world.pod(
        {"name": "t", "projected": {"sources": sources}}, securityContext={"runAsUser": 1234}
    )
    path = (await volumes.prepare(alone))["t"].path / "token"
    assert (path.stat().st_uid, mode(path)) == (1234, 0o600)
    group = await world.pod(
        {"name": "t", "projected": {"sources": sources}}, name="group", securityContext={"fsGroup": 4321}
    )
    path = (await volumes.prepare(group))["t"].path / "token"
    assert (path.stat().st_gid, mode(path)) == (4321, 0o640)


async def test_a_group_can_read_what_is_its_pods(root: None, world: World, volumes: PodVolumes) -> None:
    await world.secret("db", {"password": "x"})
    pod = await world.pod(
        {"name": "s", "secret": {"secretName": "db", "defaultMode": 0o400}}, securityContext={"fsGroup": 77}
    )
    file = (await volumes.prepare(pod))["s"].path / "password"
    assert (file.stat().st_gid, mode(file)) == (77, 0o440)


async def test_nothing_is_left_of_a_pod_that_went(
    api: Api, world: World, volumes: PodVolumes, data: Path
) -> None:
    await world.secret("db", {"password": "x"})
    await world.config("app", {"a": "1"})
    pod = await world.pod(
        {"name": "s", "secret": {"secretName": "db"}},
        {"name": "c", "configMap": {"name": "app"}},
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    )
    paths = [one.path for one in (await volumes.prepare(pod)).values()]
    await volumes.release(pod.uid)
    assert not any(path.exists() for path in paths)
    await api.delete(Secret, "db", "default")
    await volumes.refresh()
    await volumes.release(pod.uid)
    assert not any(path.exists() for path in paths)
