"""What is written for a limit and read of a usage, with cgroups of version 1, of version 2, of both, and with none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.containers import needs_ordinary_user

from pilothouse.supervise.cgroup_settings import (
    DeviceThrottle,
    Limits,
    Setting,
    Usage,
    settings_v1,
    settings_v2,
    usage_v1,
    usage_v2,
)
from pilothouse.supervise.cgroups import Cgroups, find

FULL = Limits(
    cpu_request=0.5,
    cpu=1.5,
    memory_request=1000,
    memory=2000,
    pids=30,
    throttles=(DeviceThrottle("7:0", read_bytes=1, write_operations=4),),
)


def values(settings: tuple[Setting, ...]) -> dict[str, str]:
    return {each.file: each.value for each in settings}


def test_version_1() -> None:
    assert values(settings_v1(FULL)) == {
        "cpu.shares": "512",
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "150000",
        "memory.memsw.limit_in_bytes": "2000",
        "memory.limit_in_bytes": "2000",
        "memory.kmem.tcp.limit_in_bytes": "2000",
        "memory.soft_limit_in_bytes": "1000",
        "pids.max": "30",
        "blkio.throttle.read_bps_device": "7:0 1",
        "blkio.throttle.write_bps_device": "7:0 0",
        "blkio.throttle.read_iops_device": "7:0 0",
        "blkio.throttle.write_iops_device": "7:0 4",
    }


def test_version_2() -> None:
    assert values(settings_v2(FULL)) == {
        "cpu.weight": "20",
        "cpu.max": "150000 100000",
        "memory.max": "2000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "memory.low": "1000",
        "pids.max": "30",
        "io.max": "7:0 rbps=1 wbps=max riops=max wiops=4",
    }


def test_no_limit_is_written_too() -> None:
    assert values(settings_v1(Limits()))["memory.limit_in_bytes"] == "-1"
    assert values(settings_v1(Limits()))["cpu.cfs_quota_us"] == "-1"
    assert values(settings_v2(Limits()))["cpu.max"] == "max 100000"
    assert values(settings_v2(Limits()))["memory.max"] == "max"
    assert all(not each.limit for each in settings_v2(Limits())), "nobody asked, so nobody is told"


@pytest.mark.parametrize(
    ("request_", "shares", "weight"), [(None, 2, 1), (0.001, 2, 1), (1, 1024, 39), (1000, 262144, 10000)]
)
def test_requests_become_shares_as_in_kubernetes(request_: float | None, shares: int, weight: int) -> None:
    limits = Limits(cpu_request=request_)
    assert values(settings_v1(limits))["cpu.shares"] == str(shares)
    assert values(settings_v2(limits))["cpu.weight"] == str(weight)


def test_a_tiny_share_of_a_processor_is_the_least_the_kernel_takes() -> None:
    assert values(settings_v1(Limits(cpu=0.001)))["cpu.cfs_quota_us"] == "1000"


def test_usage_of_version_1() -> None:
    files = {
        "cpuacct.usage": "1500000000\n",
        "memory.usage_in_bytes": "1000\n",
        "memory.stat": "cache 5\ntotal_inactive_file 300\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n",
        "pids.current": "7\n",
        "blkio.throttle.io_service_bytes": "8:0 Read 10\n8:0 Write 20\n8:16 Read 1\nTotal 31\n",
    }
    assert usage_v1(files) == Usage(1.5, 1000, 700, 7, 2, 11, 20)
    assert usage_v1({}) == Usage()


def test_usage_of_version_2() -> None:
    files = {
        "cpu.stat": "usage_usec 1500000\nuser_usec 1\n",
        "memory.current": "1000\n",
        "memory.stat": "file 5\ninactive_file 300\n",
        "memory.events": "low 0\noom 3\noom_kill 2\n",
        "pids.current": "7\n",
        "io.stat": "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=0\n",
    }
    assert usage_v2(files) == Usage(1.5, 1000, 700, 7, 2, 11, 20)
    assert usage_v2({}) == Usage()


class Machine:
    """Folders that look like a machine's /proc and cgroup filesystems. What a kernel makes up in them is put there by hand."""

    def __init__(self, folder: Path) -> None:
        self.proc = folder / "proc"
        (self.proc / "self").mkdir(parents=True)
        self._folder = folder
        self._mounts: list[str] = []
        self._own: list[str] = []

    def v1(self, controller: str, own: str = "/") -> Path:
        top = self._folder / controller
        self._group(top / own.strip("/"), top)
        self._mounts.append(f"30 29 0:27 / {top} rw,relatime - cgroup cgroup rw,{controller}")
        self._own.append(f"1:{controller}:{own}")
        return top

    def v2(self, controllers: str, own: str = "/") -> Path:
        top = self._folder / "unified"
        for group in self._group(top / own.strip("/"), top):
            (group / "cgroup.controllers").write_text(controllers)
            (group / "cgroup.subtree_control").write_text("")
        self._mounts.append(f"31 29 0:28 / {top} rw,relatime - cgroup2 cgroup2 rw")
        self._own.append(f"0::{own}")
        return top

    def _group(self, group: Path, top: Path) -> list[Path]:
        group.mkdir(parents=True)
        groups = [group, *(each for each in group.parents if each.is_relative_to(top))]
        for each in groups:
            (each / "cgroup.procs").write_text("")
        return groups

    def describe(self) -> Path:
        (self.proc / "self/mountinfo").write_text(
            "\n".join(["22 1 8:1 / / rw - ext4 /dev/sda1 rw", *self._mounts])
        )
        (self.proc / "self/cgroup").write_text("\n".join(self._own))
        return self.proc


def test_a_machine_without_cgroups(tmp_path: Path) -> None:
    found = find("base", proc=Machine(tmp_path).describe())
    assert set(found.unavailable) == {"cpu", "memory", "pids", "io"}
    group = found.group("pod")
    assert group.folders == ()
    assert group.make(Limits(memory=5, cpu=1)) == (
        "cpu is not enforced: no cgroup filesystem is mounted",
        "memory is not enforced: no cgroup filesystem is mounted",
    )
    assert group.usage() == Usage()


def test_a_machine_of_version_2(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    top = machine.v2("cpu memory pids")
    found = find("base", proc=machine.describe())
    assert found.unavailable == {"io": f"the kernel does not offer it at {top}"}
    group = found.group("pod/db")
    for folder in (top / "base", top / "base/pod"):
        folder.mkdir()
        (folder / "cgroup.controllers").write_text("cpu memory pids")
        (folder / "cgroup.subtree_control").write_text("")
    assert group.folders == (str(top / "base/pod/db"),)
    complaints = group.make(FULL)
    assert complaints == (f"I/O of device 7:0 is not enforced: the kernel does not offer it at {top}",)
    assert (top / "base/pod/db/memory.max").read_text() == "2000"
    assert (top / "base/pod/cgroup.subtree_control").read_text().startswith("+")


def test_a_machine_with_both(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    memory = machine.v1("memory", own="/some/where")
    cpu = machine.v1("cpu,cpuacct")
    unified = machine.v2("hugetlb")
    found = find("base", proc=machine.describe())
    assert set(found.unavailable) == {"pids", "io"}
    assert set(found.group("pod").folders) == {str(top / "base/pod") for top in (memory, cpu, unified)}


@needs_ordinary_user
def test_an_ordinary_user_gets_what_was_delegated(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    top = machine.v2("cpu memory pids io", own="/user.slice/user@1000.service/app.slice/us.scope")
    for group in (top, top / "user.slice"):
        (group / "cgroup.procs").chmod(0o444)
        group.chmod(0o555)
    found = find("base", proc=machine.describe())
    assert found.unavailable == {}
    assert found.group("pod").folders == (str(top / "user.slice/user@1000.service/base/pod"),)


@needs_ordinary_user
def test_nothing_delegated_is_told_with_what_would_help(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    top = machine.v2("cpu memory", own="/session.scope")
    for group in (top, top / "session.scope"):
        (group / "cgroup.procs").chmod(0o444)
        group.chmod(0o555)
    found = find("base", proc=machine.describe())
    assert "systemd-run --user --scope -p Delegate=yes" in found.unavailable["memory"]
    assert found.group("pod").make(Limits(memory=5))[0].startswith("memory is not enforced: no part of")


def test_we_leave_a_group_that_is_to_have_others_below_it(tmp_path: Path) -> None:
    """Version 2: processes in a group, or limits below it, but not both."""
    machine = Machine(tmp_path)
    top = machine.v2("cpu memory pids io", own="/ours")
    (top / "cgroup.type").write_text("domain")
    (top / "cgroup.procs").write_text("12\n")
    find("base/node", proc=machine.describe())
    assert (top / "base-agent/cgroup.procs").read_text() == "12"


def test_groups_that_nothing_is_in_any_more_are_taken_away(tmp_path: Path) -> None:
    trees = {"cpu": tmp_path / "cpu", "memory": tmp_path / "memory"}
    for tree in trees.values():
        (tree / "pilothouse/n1/pods").mkdir(parents=True)
    (tmp_path / "memory/pilothouse/n2").mkdir()
    (tmp_path / "memory/pilothouse/n1/pods/u").mkdir()
    groups = Cgroups("pilothouse/n1", trees, None, {})
    groups.remove_empty()
    assert list((tmp_path / "cpu").iterdir()) == []
    assert (tmp_path / "memory/pilothouse/n1/pods/u").is_dir()
    (tmp_path / "memory/pilothouse/n1/pods/u").rmdir()
    groups.remove_empty()
    assert [each.name for each in (tmp_path / "memory/pilothouse").iterdir()] == ["n2"]
