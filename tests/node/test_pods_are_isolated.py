"""Pods as real processes, with the ids, rights and system calls that their manifests ask for, and no more."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kit.containers import needs_root
from tests.kit.waiting import eventually
from tests.node.real import RealNode, printed, real_node, shell
from tests.node.stage import phase

from pilothouse.api.objects import Object, Tree
from pilothouse.node.containers.pilot_installation import installation
from pilothouse.node.containers.seccomp_profiles import is_enforced
from pilothouse.node.machine.id_ranges import SIZE
from pilothouse.node.settings import DEFAULT_RANGE
from pilothouse.supervise.machine_survey import Capability

needs_filters = pytest.mark.skipif(not is_enforced(), reason="there are no filters for this architecture")
RIGHTS = "sed -nE 's/^(NoNewPrivs|Seccomp|CapBnd):\\s+//p' /proc/self/status"


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RealNode]:
    async with real_node(tmp_path) as one:
        yield one


async def rights(node: RealNode, script: str = "", **own: Any) -> list[str]:
    """Capabilities, no_new_privs and seccomp mode of a container."""
    return (await printed(node, f"{RIGHTS}; {script}", container={"securityContext": own})).splitlines()


@needs_filters
async def test_without_a_word_a_container_gains_nothing_and_its_calls_are_filtered(node: RealNode) -> None:
    bounding, no_new_privileges, seccomp, *refused = await rights(
        node, "unshare -U true 2>&1; unshare -m true 2>&1; mount -t tmpfs x /mnt 2>&1"
    )
    assert (no_new_privileges, seccomp) == ("1", "2")
    assert int(bounding, 16) & (1 << 21) == 0, "no CAP_SYS_ADMIN"
    assert len(refused) >= 3
    assert "Operation not permitted" in refused[0]
    assert "Operation not permitted" in refused[1]


@needs_filters
async def test_where_pods_share_a_user_they_make_nobody_that_user_and_share_no_ports(node: RealNode) -> None:
    program = "import os, socket; os.open('/tmp/y', os.O_CREAT | os.O_WRONLY, 0o4755)"
    ports = "import socket; socket.socket().setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)"
    script = (
        "cp /bin/true /tmp/x; chmod 4755 /tmp/x 2>&1 && echo made; chmod 2755 /tmp/x 2>&1 && echo made; "
        f'/usr/bin/python3 -I -c "{program}" 2>&1 && echo made; /usr/bin/python3 -I -c "{ports}" 2>&1 && echo shared; '
        "chmod 1755 /tmp/x && echo fine"
    )
    said = (await printed(node, script)).splitlines()
    assert said[-1] == "fine"
    if os.geteuid() == 0:
        assert said == ["made"] * 3 + ["shared", "fine"]
    else:
        assert not {"made", "shared"} & set(said)
        assert sum("Operation not permitted" in line for line in said) == 3
        assert "Protocol not available" in said[-2]


async def test_what_is_written_out_is_given(node: RealNode) -> None:
    asked: dict[str, Any] = {
        "allowPrivilegeEscalation": True,
        "seccompProfile": {"type": "Unconfined"},
        "capabilities": {"drop": ["ALL"], "add": ["CHOWN"]},
    }
    # With the one id that an ordinary user has there is nothing to be gained.
    gains = "0" if os.geteuid() == 0 else "1"
    assert await rights(node, **asked) == ["0000000000000001", gains, "0"]


@needs_filters
async def test_a_profile_of_the_node_is_kept_to(node: RealNode) -> None:
    profiles = node.settings.data / "seccomp"
    profiles.mkdir(parents=True)
    refused = {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}
    (profiles / "full.json").write_text(json.dumps(profile))
    asked = {"seccompProfile": {"type": "Localhost", "localhostProfile": "full.json"}}
    assert "No space left" in await printed(node, "mkdir /tmp/x 2>&1", container={"securityContext": asked})


@needs_root
async def test_each_pod_has_ids_of_its_own(node: RealNode) -> None:
    script = "cat /proc/self/uid_map /proc/self/gid_map; id -u"
    firsts = []
    for name in ("one", "two"):
        pod = await node.pod({"restartPolicy": "Never", "containers": [shell(script)]}, name)
        await node.until(ended, name)
        *maps, uid = node.log(pod).split()
        assert maps[:3] == maps[3:] == ["0", maps[1], str(SIZE)]
        assert uid == "0"
        firsts.append(int(maps[1]))
    assert abs(firsts[0] - firsts[1]) >= SIZE
    assert min(firsts) >= DEFAULT_RANGE.first
    await node.delete("one", grace=0)
    await node.until_gone("one")
    claims = Path("/run/pilothouse/ids")

    async def freed() -> bool:
        return not (claims / str(firsts[0])).exists()

    await eventually(freed)
    assert (claims / str(firsts[1])).exists()


@needs_root
async def test_owners_on_disk_are_those_of_the_manifest(node: RealNode) -> None:
    volume: Tree = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod = await node.pod(
        {
            "restartPolicy": "Never",
            "initContainers": [
                shell("touch /data/roots; chmod 777 /data", "init", **volume),
            ],
            "containers": [
                shell(
                    "touch /data/own /tmp/x; stat -c %u:%g /data/own /data/roots; (echo x > /data/roots) 2>/dev/null || echo refused; sleep 1000",
                    securityContext={"runAsUser": 999, "runAsGroup": 998},
                    **volume,
                )
            ],
            "volumes": [{"name": "data", "emptyDir": {}}],
        }
    )

    async def said() -> bool:
        return node.log(pod).endswith("refused")

    await eventually(said)
    assert node.log(pod).split("\n")[:2] == ["999:998", "0:0"]
    (own,) = node.settings.data.parent.glob("volumes/*/data/own")
    assert (own.stat().st_uid, own.stat().st_gid) == (999, 998)
    (written,) = node.settings.pods.glob(f"{pod.uid}/containers/app/0/own/tmp/x")
    assert written.stat().st_uid >= DEFAULT_RANGE.first + 999, (
        "what is the container's alone is nobody's outside"
    )


@pytest.mark.parametrize("own", [{}, {"runAsUser": 999}], ids=["", "as-somebody"])
async def test_standard_output_can_be_opened_by_its_name(node: RealNode, own: dict[str, int]) -> None:
    script = "echo one > /dev/stdout; echo two > /proc/1/fd/1; echo three > /dev/stderr"
    said = await printed(node, script, container={"securityContext": own})
    assert sorted(said.split()) == ["one", "three", "two"]


@needs_root
async def test_who_asks_for_the_machines_ids_has_them(node: RealNode) -> None:
    assert (await printed(node, "cat /proc/self/uid_map", hostUsers=True)).split() == ["0", "0", "4294967295"]


@needs_root
@pytest.mark.parametrize("accepted", [False, True])
async def test_where_ids_can_not_be_had_pods_wait_unless_that_is_accepted(
    tmp_path: Path, accepted: bool
) -> None:
    async with real_node(tmp_path, agent=False) as node:
        node.survey = msgspec.structs.replace(node.survey, ids=Capability(False, "Linux 5.4"))
        node.settings = msgspec.structs.replace(node.settings, allow_host_users=accepted)
        node.start_agent()
        pod = await node.pod({"restartPolicy": "Never", "containers": [shell("cat /proc/self/uid_map")]})
        if accepted:
            await node.until(ended)
            assert node.log(pod).split() == ["0", "0", "4294967295"]
            return
        waits = await node.until(lambda pod: waiting(pod).get("reason") == "UserNamespaceUnavailable")
        assert "Linux 5.4" in waiting(waits)["message"]
        assert "--allow-host-users" in waiting(waits)["message"]


async def test_what_the_node_exposes_is_seen_and_can_not_be_changed(tmp_path: Path) -> None:
    tool = tmp_path / "opt" / "java" / "bin" / "java"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\necho a machine in a machine\n")
    tool.chmod(0o755)
    (tmp_path / "opt" / "secret").write_text("secret")
    (tmp_path / "opt" / "jdk").symlink_to("java")
    for folder in (tool.parent, tool.parent.parent):
        folder.chmod(0o755)
    async with real_node(tmp_path, agent=False) as node:
        node.settings = msgspec.structs.replace(node.settings, exposed=(tmp_path / "opt" / "jdk",))
        node.start_agent()
        script = f"cd {tmp_path}/opt && jdk/bin/java; ls; touch jdk/x 2>/dev/null || echo read-only"
        said = (await printed(node, script)).splitlines()
    assert said == ["a machine in a machine", "java", "jdk", "read-only"]


async def test_without_that_nothing_of_the_machine_is_seen(node: RealNode, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    said = await printed(
        node,
        f"ls -d {tmp_path} /boot /etc/shadow /etc/ssh /etc/sudoers 2>/dev/null; ls -A /tmp /home /mnt /srv",
    )
    # A checkout or its environment may be in one of them; containers run pilots from there.
    ours = {
        Path(each).parts[2]
        for each in installation()
        if each.startswith(("/home/", "/mnt/", "/srv/", "/tmp/"))
    }
    assert [name for name in said.split() if name not in ours] == ["/home:", "/mnt:", "/srv:", "/tmp:"]


def ended(pod: Object) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def waiting(pod: Object) -> dict[str, str]:
    statuses = pod.status.get("containerStatuses") or [{}]
    return dict((statuses[0].get("state") or {}).get("waiting") or {})
