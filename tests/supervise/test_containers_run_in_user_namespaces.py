"""A container with ids of its own: root inside, nobody outside, and volumes whose owners stay what they are on disk."""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.containers import PLAIN_VIEW, Box, needs_root, with_mounts

from pilothouse.supervise.launch_spec import IdRange, LaunchError, Mount, ProcessUser
from pilothouse.supervise.shim.namespaces import OWNERS

pytestmark = needs_root

FIRST = 0xFFFD0000
IDS = IdRange(FIRST)
NS_GET_OWNER_UID = 0xB704


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "file").write_text("from the volume\n")
    os.chown(folder / "file", 999, 998)
    (folder / "file").chmod(0o640)
    return folder


async def look(box: Box, script: str, *mounts: Mount, **fields: Any) -> list[str]:
    """What a script prints in a container with ids of its own and these mounts; its complaints too."""
    view = with_mounts(PLAIN_VIEW, mounts=mounts)
    container = await box.shell(f"exec 2>&1; {script}", view=view, ids=IDS, **fields)
    await container.exited()
    return box.output(container)


async def test_it_is_root_inside_and_nobody_outside(views: Box, volume: Path) -> None:
    container = await views.shell("id -u; id -g; read x", ids=IDS, stdin=True)
    await views.says(container, "0")
    status = Path(f"/proc/{container.pid}/status").read_text().splitlines()  # noqa: ASYNC240
    owners = {line.split()[0]: set(line.split()[1:]) for line in status if line.startswith(("Uid", "Gid"))}
    assert owners == {"Uid:": {str(FIRST)}, "Gid:": {str(FIRST)}}


async def test_its_namespace_is_owned_by_an_id_of_its_own_that_is_in_no_pod(views: Box) -> None:
    """Who owns a user namespace pays for the message queues, signals and inotify instances that are used in it."""
    owners = []
    for ids in (IDS, IdRange(FIRST - 65536)):
        container = await views.run("sleep", "1000", ids=ids)
        owner = array.array("I", [0])
        with open(f"/proc/{container.pid}/ns/user") as namespace:  # noqa: ASYNC230
            fcntl.ioctl(namespace, NS_GET_OWNER_UID, owner)
        owners.append(owner[0])
    assert owners == [OWNERS + FIRST // 65536, OWNERS + FIRST // 65536 - 1]


OUTSIDE = """
import os, sys
pid, uid = int(sys.argv[1]), int(sys.argv[2])
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
for attempt in (
    lambda: os.listdir(f"/proc/{pid}/root/"),
    lambda: open(f"/proc/{pid}/environ").read(),
    lambda: open(f"/proc/{pid}/mem", "r+b"),
    lambda: os.open(f"/proc/{pid}/ns/user", os.O_RDONLY),
):
    try:
        attempt()
        print("did it")
    except PermissionError:
        print("refused")
"""


async def test_a_program_outside_with_its_root_id_has_no_rights_over_it(views: Box) -> None:
    """As whoever runs a set-user-id file that an earlier pod with the same ids has left in a folder of the machine."""
    container = await views.run("sleep", "1000", ids=IDS)
    tried = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-S", "-c", OUTSIDE, str(container.pid), str(FIRST)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert (await tried.communicate())[0].split() == [b"refused"] * 4


async def test_owners_in_a_volume_are_what_they_are_on_disk(views: Box, volume: Path) -> None:
    said = await look(
        views,
        "stat -c '%u %g' /data/file; cat /data/file; touch /data/made; mkdir /data/folder",
        Mount(str(volume), "/data", mapped=True),
        user=ProcessUser(uid=999, gid=998),
    )
    assert said == ["999 998", "from the volume"]
    made = {(entry.stat().st_uid, entry.stat().st_gid) for entry in os.scandir(volume)}
    assert made == {(999, 998)}


async def test_what_is_not_mapped_belongs_to_nobody(views: Box, volume: Path) -> None:
    said = await look(
        views, "stat -c '%u' /data/file; cat /data/file; touch /data/file", Mount(str(volume), "/data")
    )
    assert said[0] == "65534"
    assert all("Permission denied" in line for line in said[1:])
    assert len(said) == 3


async def test_a_secret_of_the_machines_root_is_closed_to_its_root(views: Box, volume: Path) -> None:
    (volume / "secret").write_text("secret")
    (volume / "secret").chmod(0o600)
    (said,) = await look(views, "cat /data/secret", Mount(str(volume), "/data"))
    assert "Permission denied" in said


async def test_its_own_folders_are_its_roots_and_its_home_its_users(views: Box) -> None:
    said = await look(
        views,
        "stat -c '%u %a %n' / /etc /tmp /var /var/lib /home /root /run /dev /dev/shm ~; touch ~/x /tmp/x /dev/shm/x && echo fine",
        user=ProcessUser(uid=1000, gid=1000),
        env={"HOME": "/home/someone", "PATH": "/usr/bin:/bin"},
    )
    assert said == [
        *(
            "0 755 /",
            "0 755 /etc",
            "0 1777 /tmp",
            "0 755 /var",
            "0 755 /var/lib",
            "0 755 /home",
            "0 755 /root",
        ),
        *("0 755 /run", "0 755 /dev", "0 1777 /dev/shm", "1000 755 /home/someone", "fine"),
    ]


async def test_mount_points_in_a_volume_are_made_as_its_root(
    views: Box, volume: Path, tmp_path: Path
) -> None:
    """Whoever the volume belongs to, and however closed it is."""
    (tmp_path / "inner").mkdir()
    os.chown(volume, 999, 998)
    os.chmod(volume, 0o700)
    said = await look(
        views,
        "ls -d /data/a/b",
        Mount(str(volume), "/data", mapped=True),
        Mount(str(tmp_path / "inner"), "/data/a/b", mapped=True),
    )
    assert said == ["/data/a/b"]
    assert (volume / "a").stat().st_uid == 0


async def test_its_root_may_not_change_its_namespaces(views: Box, volume: Path) -> None:
    """They are the machine's root's: no capability over its own user namespace reaches them."""
    attempts = (
        "umount /data",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /usr",
        "mount -t proc proc /mnt",
        "hostname other",
        "mknod /tmp/disk b 8 0",
        "mknod /dev/disk b 8 0",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /proc/sysrq-trigger",
        "chmod 600 /dev/null",
        "rm /dev/null",
    )
    script = "; ".join(f"(({each}) 2>/dev/null) && echo 'did {each}'" for each in attempts)
    assert await look(views, f"{script}; uname -n", Mount(str(volume), "/data", mapped=True)) == ["box"]
    assert stat.S_IMODE(os.stat("/dev/null").st_mode) == 0o666


async def test_programs_run_inside_have_the_same_ids(views: Box, volume: Path) -> None:
    view = with_mounts(PLAIN_VIEW, mounts=(Mount(str(volume), "/data", mapped=True),))
    container = await views.run("sleep", "1000", ids=IDS, user=ProcessUser(999, 998, (5,)), view=view)
    entered = await container.enter(
        ["sh", "-c", "id -u; id -g; id -G; cat /data/file; cat /proc/self/uid_map"]
    )
    said = (await entered.stdout.read()).decode().split()
    await entered.close()
    assert said == ["999", "998", "998", "5", "from", "the", "volume", "0", str(FIRST), "65536"]


async def test_an_id_beyond_its_range_is_refused(views: Box) -> None:
    with pytest.raises(LaunchError) as failed:
        await look(views, "true", user=ProcessUser(uid=65536, gid=0))
    assert failed.value.reason == "UserRefused"
    assert "from 0 to 65535" in failed.value.message


async def test_a_filesystem_that_cannot_be_mapped_is_refused(views: Box) -> None:
    with pytest.raises(LaunchError) as failed:
        await look(views, "true", Mount("/proc/sys", "/data", mapped=True))
    assert failed.value.reason == "IdMapRefused"
    assert "/data: the filesystem of /proc/sys" in failed.value.message


async def test_set_user_id_means_nothing(views: Box, volume: Path) -> None:
    """A copy of `id` that belongs to another user and would run as that one."""
    (volume / "id").write_bytes(Path("/usr/bin/id").read_bytes())  # noqa: ASYNC240
    os.chown(volume / "id", 0, 0)
    (volume / "id").chmod(0o4755)
    said = await look(
        views, "/data/id -u", Mount(str(volume), "/data", mapped=True), user=ProcessUser(uid=999, gid=998)
    )
    assert said == ["999"]
