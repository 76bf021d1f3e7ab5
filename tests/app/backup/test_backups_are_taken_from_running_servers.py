"""Backup and restore as an operator does them."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.running import Server, pilothouse
from tests.kit import kubeconfig
from tests.kit.etcd import EtcdServer
from tests.kit.http import Http
from tests.kit.servers import Target

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"

Flags = Callable[[str, str], tuple[str, ...]]


def target(server: Server, folder: Path) -> Target:
    access = kubeconfig.read(server.kubeconfig, unpack=folder)
    return Target("ours", access, server.kubeconfig)


def config_map(name: str, value: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": {"value": value}}


def backed_up(server: Server, file: Path) -> str:
    done = pilothouse("backup", str(file), "--kubeconfig", str(server.kubeconfig))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    server = EtcdServer.start(tmp_path_factory.mktemp("etcd"))
    yield server
    server.stop()


@pytest.fixture
def flags(request: pytest.FixtureRequest, etcd: EtcdServer) -> Flags:
    """Of two control planes, the old one and the restored one, by the kinds of their stores."""

    def of(store: str, prefix: str) -> tuple[str, ...]:
        if store == "sqlite":
            return ()
        return (
            "--store",
            "etcd",
            "--etcd-servers",
            etcd.endpoint,
            "--etcd-prefix",
            f"/{request.node.name}/{prefix}",
        )

    return of


KINDS = [
    ("sqlite", "sqlite"),
    pytest.param("sqlite", "etcd", marks=pytest.mark.etcd),
    pytest.param("etcd", "sqlite", marks=pytest.mark.etcd),
    pytest.param("etcd", "etcd", marks=pytest.mark.etcd),
]


@pytest.mark.parametrize(("before", "after"), KINDS)
async def test_a_control_plane_comes_back_as_it_was(
    tmp_path: Path, flags: Flags, before: str, after: str
) -> None:
    file = tmp_path / "all.backup"
    with Server(tmp_path / "old", *flags(before, "old")) as old:
        async with Http.to(target(old, tmp_path / "old-pki")) as http:
            for n in range(20):
                (await http.post(CONFIG_MAPS, config_map(f"c{n}"))).expect(201)
            accounts = "/api/v1/namespaces/default/serviceaccounts"
            (await http.post(accounts, {"metadata": {"name": "robot"}})).expect(201)
            minted = (await http.post(f"{accounts}/robot/token", {"spec": {}})).expect(201)
            review = {"spec": {"token": minted["status"]["token"]}}
            known = (await http.post(REVIEWS, review)).expect(201)["status"]
            said = backed_up(old, file)
            later = (await http.post(CONFIG_MAPS, config_map("later"))).expect(201)
            remembered = int(later["metadata"]["resourceVersion"])
            lists = {path: (await http.get(path)).expect(200) for path in (CONFIG_MAPS, "/api/v1/namespaces")}
    assert "verified" in said
    assert "Secrets in it are not encrypted, nor are the control plane's keys" in said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.glob("*backup*")] == ["all.backup"]  # noqa: ASYNC240

    done = pilothouse("restore", str(file), "--data", str(tmp_path / "new"), *flags(after, "new"))
    assert done.returncode == 0, done.stderr
    assert "verified" in done.stdout

    with Server(tmp_path / "new", *flags(after, "new")) as new:
        access = kubeconfig.read(old.kubeconfig, unpack=tmp_path / "old-pki")
        moved = kubeconfig.Access(new.url, access.ca, access.cert, access.key)
        # Whoever trusted the old servers trusts the new ones, and is known to them.
        async with Http.to(Target("ours", moved, new.kubeconfig)) as http:
            for path, listed in lists.items():
                found = (await http.get(path)).expect(200)
                assert _content(found) == [
                    each for each in _content(listed) if each["metadata"]["name"] != "later"
                ]
                assert all(int(each["metadata"]["resourceVersion"]) > remembered for each in found["items"])
            original, restored = (_kube_system(each) for each in (lists["/api/v1/namespaces"], found))
            assert (
                restored["annotations"]["pilothouse.io/restored-from"] == original["uid"] != restored["uid"]
            )
            for version in (remembered - 1, remembered, remembered + 1000):
                async with http.watch(CONFIG_MAPS, resourceVersion=version) as watch:
                    event = await watch.next()
                assert (event.type, event.object["code"], event.object["reason"]) == ("ERROR", 410, "Expired")
            assert (await http.post(REVIEWS, review)).expect(201)["status"] == known
            written = (await http.post(CONFIG_MAPS, config_map("after"))).expect(201)
            assert int(written["metadata"]["resourceVersion"]) > remembered + 10**9


def _kube_system(listed: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the namespace whose uid is the control plane's."""
    return next(each["metadata"] for each in listed["items"] if each["metadata"]["name"] == "kube-system")


def _content(listed: dict[str, Any]) -> list[dict[str, Any]]:
    """Items as they are but for their revision, and for what is of the control plane: its uid, and its origin."""
    return [
        {**item, "metadata": {**item["metadata"], **_changed(item["metadata"])}} for item in listed["items"]
    ]


def _changed(metadata: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceVersion": "",
        **({"uid": "", "annotations": {}} if metadata["name"] == "kube-system" else {}),
    }


async def test_a_backup_of_sealed_secrets_stays_sealed(tmp_path: Path) -> None:
    keys, file = tmp_path / "keys.txt", tmp_path / "all.backup"
    keys.write_text(pilothouse("encryption", "new-key", "k1").stdout)
    sealing = ("--encryption-key-file", str(keys))
    secrets = "/api/v1/namespaces/default/secrets"
    with Server(tmp_path / "old", *sealing) as old:
        async with Http.to(target(old, tmp_path / "pki")) as http:
            (
                await http.post(secrets, {"metadata": {"name": "a"}, "data": {"p": "aHVudGVyMmh1bnRlcjI="}})
            ).expect(201)
        assert "To restore it, these keys are needed: k1" in backed_up(old, file)
    assert b"aHVudGVyMmh1bnRlcjI" not in file.read_bytes()
    assert b"PRIVATE KEY" not in file.read_bytes()
    done = pilothouse("restore", str(file), "--data", str(tmp_path / "new"), *sealing)
    assert "an --encryption-key-file that has: k1" in done.stdout
    with Server(tmp_path / "new", *sealing) as new:
        async with Http.to(target(new, tmp_path / "pki")) as http:
            assert (await http.get(f"{secrets}/a")).expect(200)["data"] == {"p": "aHVudGVyMmh1bnRlcjI="}


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good backup."""
    folder = tmp_path_factory.mktemp("saved")
    with Server(folder / "data") as server:
        backed_up(server, folder / "good.backup")
    return folder / "good.backup"


def test_nothing_is_restored_over_something(tmp_path: Path, saved: Path) -> None:
    done = pilothouse("restore", str(saved), "--data", str(saved.parent / "data"))
    assert done.returncode == 1
    assert "is not an empty folder; a backup is restored into a new one" in done.stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("dear")
    assert pilothouse("restore", str(saved), "--data", str(tmp_path / "full")).returncode == 1
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["letter.txt"]


@pytest.mark.etcd
def test_nothing_is_restored_over_something_in_etcd(tmp_path: Path, saved: Path, etcd: EtcdServer) -> None:
    where = ("--store", "etcd", "--etcd-servers", etcd.endpoint, "--etcd-prefix", "/twice")
    assert pilothouse("restore", str(saved), *where).returncode == 0
    again = pilothouse("restore", str(saved), *where)
    assert again.returncode == 1
    assert "the store is not empty" in again.stderr


def test_files_that_are_no_backups_leave_nothing_behind(tmp_path: Path, saved: Path) -> None:
    good = saved.read_bytes()
    for content, said in (
        (good[: len(good) // 2], "ends too early, at byte"),
        (good[:5000] + b"X" + good[5001:], "at byte"),
        (good.replace(b'"version":1', b'"version":7', 1), "version 7"),
        (b"", "is not a backup"),
    ):
        (tmp_path / "bad.backup").write_bytes(content)
        done = pilothouse("restore", str(tmp_path / "bad.backup"), "--data", str(tmp_path / "new"))
        assert done.returncode == 1
        assert said in done.stderr
        assert "bad.backup" in done.stderr
        assert not (tmp_path / "new").exists()


def test_an_empty_folder_that_exists_will_do(tmp_path: Path, saved: Path) -> None:
    (tmp_path / "new").mkdir()
    assert pilothouse("restore", str(saved), "--data", str(tmp_path / "new")).returncode == 0
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_backup_never_takes_the_place_of_a_file(tmp_path: Path, saved: Path) -> None:
    done = pilothouse("backup", str(saved), "--data", str(saved.parent / "data"))
    assert done.returncode == 1
    assert "exists; a backup is written to a new file" in done.stderr


def test_a_server_that_is_not_there_is_told(tmp_path: Path, saved: Path) -> None:
    done = pilothouse("backup", str(tmp_path / "x.backup"), "--data", str(saved.parent / "data"))
    assert done.returncode == 1
    assert "can't be reached" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_contradicting_flags_are_refused(saved: Path) -> None:
    assert "needs --etcd-servers" in pilothouse("restore", str(saved), "--store", "etcd").stderr
    done = pilothouse("restore", str(saved), "--etcd-servers", "http://127.0.0.1:1")
    assert "go with --store etcd" in done.stderr
