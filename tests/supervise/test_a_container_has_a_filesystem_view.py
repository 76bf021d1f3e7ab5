"""What a container sees: mounts where it asked for them, itself as PID 1, and a machine that does not notice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.containers import PLAIN_VIEW, Box, alive_with, needs_ordinary_user, needs_root, with_mounts
from tests.kit.waiting import eventually

from pilothouse.supervise.containers import Container
from pilothouse.supervise.launch_spec import LaunchError, Mount


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "file").write_text("from the volume\n")
    return folder


def content(path: str) -> bytes | None:
    """Of a file of the machine; None if it has none."""
    return Path(path).read_bytes() if Path(path).exists() else None


def there(path: str) -> bool:
    return Path(path).exists()


def do(*argv: str | Path) -> list[str]:
    """What a program of the machine prints."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True, env=env).stdout.splitlines()


async def look(box: Box, script: str, *mounts: Mount, **fields: Any) -> list[str]:
    """What a script prints in a view with these mounts; its complaints too."""
    container = await box.shell(f"exec 2>&1; {script}", view=with_mounts(PLAIN_VIEW, mounts=mounts, **fields))
    await container.exited()
    return box.output(container)


_ANNOUNCED = """
import os, select
from pilothouse.supervise.shim.namespaces import enter_namespaces
heard, saying = os.pipe()
def told_by(pid):
    early = select.select([heard], [], [], 0.3)[0]
    print("early" if early else "quiet", flush=True)
enter_namespaces(None, told_by)
os.write(saying, b"+")
print("in", flush=True)
"""


def test_its_first_process_says_nothing_before_the_shim_knows_of_it(views: Box) -> None:
    done = subprocess.run([sys.executable, "-c", _ANNOUNCED], capture_output=True, text=True, check=False)
    assert done.stdout == "quiet\nin\n", done.stderr


async def test_its_first_process_is_number_one(views: Box) -> None:
    assert await look(views, "echo $$; ls -d /proc/[0-9]* | head -1; cat /proc/1/comm") == [
        "1",
        "/proc/1",
        "sh",
    ]


async def test_it_sees_no_processes_but_its_own(views: Box) -> None:
    (count,) = await look(views, "ls -d /proc/[0-9]* | wc -l")
    assert int(count) <= 3


async def test_it_has_its_own_name(views: Box) -> None:
    before = os.uname().nodename
    assert await look(views, "uname -n; hostname", hostname="db-0") == ["db-0", "db-0"]
    assert os.uname().nodename == before


async def test_a_name_that_is_too_long_is_told(views: Box) -> None:
    with pytest.raises(LaunchError) as failed:
        await look(views, "true", hostname="x" * 65)
    assert failed.value.reason == "ViewRefused"
    assert "can't be named xxx" in failed.value.message


@pytest.mark.parametrize(
    "target",
    [
        "/pilothouse-test-volume",
        "/pilothouse-test/deep/er/volume",
        "/etc/pilothouse-test/volume",
        "/var/lib/pilothouse-test/volume",
        "/usr/lib/pilothouse-test",
        "/usr/bin/pilothouse-test/volume",
        "/mnt",
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "/opt/ü with blanks/volume",
        "/srv/../srv/./pilothouse-test/",
    ],
)
async def test_a_folder_is_mounted_wherever_asked(views: Box, volume: Path, target: str) -> None:
    existed = there(target)
    said = await look(
        views, f"cat '{target}/file'; echo new > '{target}/written'", Mount(str(volume), target)
    )
    assert said == ["from the volume"]
    assert (volume / "written").read_text() == "new\n"
    assert there(target) == existed, "the machine got a folder"
    assert not there(f"{target}/file")


async def test_what_lies_beside_a_mount_stays_as_it_is(views: Box, volume: Path) -> None:
    """In a mirrored folder: the same names, links, modes and, as root, owners; to others all but their own are nobody."""
    who = "$3, $4, " if os.geteuid() == 0 else ""
    listing = (
        "cd {0} && ls -lA --time-style=+ | awk '{{print $1, "
        + who
        + "$NF}}' | grep -v -e ^total -e pilothouse-test"
    )
    for folder in ("/usr", "/usr/bin", "/usr/share"):
        script = listing.format(folder)
        outside = do("/bin/sh", "-c", script)
        inside = await look(views, script, Mount(str(volume), f"{folder}/pilothouse-test"))
        assert inside == outside
        assert inside


async def test_of_the_machine_it_sees_programs_and_nothing_else(views: Box, tmp_path: Path) -> None:
    inside = await look(
        views,
        f"ls -A /; ls -A /tmp /var/lib /home /root /run/lock /mnt /opt /srv; ls -d {tmp_path}; ls -A {Path.home()}",
    )
    listing, rest = inside[: inside.index("/home:")], inside[inside.index("/home:") :]
    own = {"dev", "etc", "home", "media", "mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var"}
    assert set(listing) - {""} <= own | {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}
    missing = {line for line in rest if line and not line.endswith(":")}
    assert f"ls: cannot access '{tmp_path}': No such file or directory" in missing
    assert all(line.endswith("No such file or directory") for line in missing)


@pytest.mark.parametrize(
    "path",
    [
        "/etc/shadow",
        "/etc/gshadow",
        "/etc/sudoers",
        "/etc/ssl/private",
        "/etc/ssh",
        "/etc/subuid",
        "/etc/pam.d",
        "/boot",
        "/lost+found",
    ],
)
async def test_what_is_not_on_the_list_is_not_there(views: Box, path: str) -> None:
    assert await look(views, f"test -e {path} && echo there") == []


async def test_what_it_sees_of_the_machine_is_read_only_and_gives_no_privileges(views: Box) -> None:
    said = await look(
        views,
        "for d in /usr /usr/bin /etc/alternatives; do touch $d/x 2>/dev/null && echo $d; done; "
        "awk '$2 ~ /^.(usr|bin|lib|etc|tmp|var|home|root)/ && $4 !~ /nosuid/ {print $2}; "
        "$2 ~ /^.(usr|bin|lib|etc|tmp|var|home|root)/ && $4 !~ /nodev/ {print $2}' /proc/mounts",
    )
    assert said == []


async def test_its_own_folders_can_be_written_and_are_not_the_machines(views: Box) -> None:
    folders = ("/tmp", "/var/tmp", "/run/lock") + (
        ("/var/lib", "/home", "/root", "/run") if os.geteuid() == 0 else ()
    )
    script = "; ".join(f"touch {folder}/pilothouse-test && echo fine" for folder in folders)
    assert await look(views, script) == ["fine"] * len(folders)
    assert not any(there(f"{folder}/pilothouse-test") for folder in folders)


async def test_its_home_is_made_for_it(views: Box) -> None:
    container = await views.shell(
        "touch ~/x && echo $HOME", env={"HOME": "/home/someone", "PATH": "/usr/bin:/bin"}
    )
    await container.exited()
    assert views.output(container) == ["/home/someone"]


async def test_more_of_the_machine_is_shown_when_asked_for(views: Box, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    (shown / "deep").mkdir(parents=True)
    (shown / "deep/file").write_text("of the machine\n")
    (tmp_path / "link").symlink_to("shown/deep")
    said = await look(
        views,
        f"cat {tmp_path}/link/file; touch {shown}/deep/x 2>/dev/null || echo closed; ls {tmp_path}",
        machine=(str(tmp_path / "link"),),
    )
    assert said == ["of the machine", "closed", "link", "shown"]


@pytest.mark.parametrize(
    "target", ["/etc/hosts", "/etc/resolv.conf", "/etc/pilothouse-test.conf", "/run/x/y/file"]
)
async def test_a_file_is_mounted_wherever_asked(views: Box, volume: Path, target: str) -> None:
    before = content(target)
    said = await look(views, f"cat {target}", Mount(str(volume / "file"), target, is_file=True))
    assert said == ["from the volume"]
    assert content(target) == before


async def test_a_file_is_not_mounted_over_a_folder(views: Box, volume: Path) -> None:
    with pytest.raises(LaunchError, match="/etc: a file can't be mounted over a folder"):
        await look(views, "true", Mount(str(volume / "file"), "/etc"))
    with pytest.raises(LaunchError, match="/etc/passwd: a folder can't be mounted over a file"):
        await look(views, "true", Mount(str(volume), "/etc/passwd"))


async def test_nothing_is_mounted_over_the_root(views: Box, volume: Path) -> None:
    with pytest.raises(LaunchError, match="/: it would hide everything else"):
        await look(views, "true", Mount(str(volume), "/"))


async def test_a_missing_source_is_told(views: Box) -> None:
    with pytest.raises(LaunchError) as failed:
        await look(views, "true", Mount("/no/such/volume", "/data"))
    assert failed.value.reason == "MountFailed"
    assert failed.value.message == "/data: its source /no/such/volume: No such file or directory"


async def test_a_part_of_a_folder_is_mounted_and_no_link_is_followed_to_it(views: Box, volume: Path) -> None:
    (volume / "deep/er").mkdir(parents=True)
    (volume / "deep/er/file").write_text("from deep in it\n")
    assert await look(views, "cat /data/file", Mount(str(volume), "/data", part="deep/er")) == [
        "from deep in it"
    ]
    (volume / "link").symlink_to("/etc")
    for part in ("link", "link/ssl", "deep/../..", "/etc", "deep/none"):
        with pytest.raises(LaunchError, match="/data: its source") as failed:
            await look(views, "true", Mount(str(volume), "/data", part=part))
        assert failed.value.reason == "MountFailed"


async def test_read_only_mounts_are(views: Box, volume: Path) -> None:
    said = await look(
        views, "cat /data/file; echo x > /data/file", Mount(str(volume), "/data", read_only=True)
    )
    assert said[0] == "from the volume"
    assert "Read-only file system" in said[1]
    assert (volume / "file").read_text() == "from the volume\n"


async def test_mounts_lie_in_mounts(views: Box, volume: Path, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner/file").write_text("from the inner one\n")
    said = await look(
        views,
        "cat /data/file /data/a/b/file; echo x > /data/beside",
        Mount(str(volume), "/data"),
        Mount(str(tmp_path / "inner"), "/data/a/b"),
    )
    assert said == ["from the volume", "from the inner one"]
    assert (volume / "beside").read_text() == "x\n", "what is written beside a nested mount is the volume's"


@pytest.mark.parametrize("read_only_root", [False, True])
@pytest.mark.parametrize("entries", [3, 300])
async def test_a_folder_that_is_covered_keeps_what_is_mounted_in_it(
    views: Box, volume: Path, tmp_path: Path, entries: int, read_only_root: bool
) -> None:
    """Whether mirrored or overlaid: volumes beside each other, in any order, and one in another."""
    crowded = tmp_path / "crowded"
    for number in range(entries):
        (crowded / f"entry-{number}").mkdir(parents=True)
    (tmp_path / "inner").mkdir()
    said = await look(
        views,
        f"cd {crowded}; cat entry-0/file new/deep/file; echo x > entry-0/a; echo x > new/deep/b; echo x > entry-0/in/side/c; "
        f"ls | wc -l; echo y 2>/dev/null > entry-1/d || echo read-only",
        Mount(str(volume), f"{crowded}/entry-0"),
        Mount(str(volume), f"{crowded}/new/deep"),
        Mount(str(tmp_path / "inner"), f"{crowded}/entry-0/in/side"),
        machine=(str(crowded),),
        read_only_root=read_only_root,
    )
    assert said[:3] == ["from the volume", "from the volume", str(entries + 1)]
    assert said[3:] == (["read-only"] if read_only_root or entries < 256 else [])
    assert {"a", "b"} <= set(os.listdir(volume))
    assert os.listdir(tmp_path / "inner") == ["c"]
    assert not there(f"{crowded}/new")


@needs_root
@pytest.mark.parametrize("entries", [3, 300])
async def test_what_the_machine_has_mounted_in_a_covered_folder_is_there(
    views: Box, volume: Path, tmp_path: Path, entries: int
) -> None:
    crowded = tmp_path / "crowded"
    for number in range(entries):
        (crowded / f"entry-{number}").mkdir(parents=True)
    do("mount", "-t", "tmpfs", "pilothouse-test", crowded / "entry-0")
    try:
        (crowded / "entry-0/file").write_text("mounted\n")
        said = await look(
            views,
            f"cat {crowded}/entry-0/file",
            Mount(str(volume), f"{crowded}/new"),
            machine=(str(crowded),),
        )
        assert said == ["mounted"]
    finally:
        do("umount", crowded / "entry-0")


async def test_a_tmpfs_holds_what_it_may_and_no_more(views: Box) -> None:
    said = await look(
        views,
        "df -k --output=fstype,size /scratch | tail -1; head -c 2000000 /dev/zero > /scratch/big",
        Mount("", "/scratch", kind="tmpfs", size=1 << 20),
    )
    assert said[0].split() == ["tmpfs", "1024"]
    assert "No space left" in said[1]


async def test_a_read_only_tmpfs_holds_what_is_mounted_in_it_and_nothing_else(
    views: Box, volume: Path
) -> None:
    said = await look(
        views,
        "find /scratch; stat -c %a /scratch; touch /scratch/x 2>/dev/null || echo closed; "
        "cat /scratch/deep/er/file && echo x > /scratch/deep/er/x && echo fine",
        Mount("", "/scratch", kind="tmpfs", read_only=True),
        Mount(str(volume), "/scratch/deep/er"),
    )
    found = ["/scratch", "/scratch/deep", "/scratch/deep/er", "/scratch/deep/er/file"]
    assert said == [*found, "755", "closed", "from the volume", "fine"]


async def test_a_volume_over_a_read_only_tmpfs_is_as_it_was_asked_for(views: Box, volume: Path) -> None:
    said = await look(
        views,
        "cat /scratch/file; touch /scratch/x && echo fine",
        Mount("", "/scratch", kind="tmpfs", read_only=True),
        Mount(str(volume), "/scratch"),
    )
    assert said == ["from the volume", "fine"]


async def test_devices_are_there_and_cannot_be_removed(views: Box) -> None:
    said = await look(
        views,
        "for d in null zero full random urandom; do test -c /dev/$d || echo no $d; done; echo x > /dev/null; "
        "head -c 3 /dev/zero | wc -c; rm -f /dev/null 2>/dev/null; test -c /dev/null && echo still there; "
        "echo to stderr > /dev/stderr; ls /dev/fd/0",
    )
    assert said == ["3", "still there", "to stderr", "/dev/fd/0"]
    assert there("/dev/null")


async def test_disks_of_the_machine_are_not_among_its_devices(views: Box) -> None:
    said = await look(views, "ls /dev")
    assert set(said) <= {
        "null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "mqueue", "shm", "fd", "stdin", "stdout", "stderr",
    }  # fmt: skip


async def test_shared_memory_is_its_own(views: Box) -> None:
    said = await look(views, "ls -A /dev/shm; touch /dev/shm/pilothouse-test && stat -c %a /dev/shm")
    assert said == ["1777"]
    assert not there("/dev/shm/pilothouse-test")


async def test_shared_memory_may_be_shared_within_a_pod(views: Box, volume: Path) -> None:
    assert await look(views, "cat /dev/shm/file", Mount(str(volume), "/dev/shm")) == ["from the volume"]


async def test_a_read_only_root_leaves_the_mounts_writable(views: Box, volume: Path, tmp_path: Path) -> None:
    said = await look(
        views,
        f"for d in / /usr /etc /var /tmp {tmp_path} /new /etc/new; do touch $d/x 2>/dev/null && echo $d; done; "
        "echo x > /data/x && echo x > /dev/shm/x && echo x > /scratch/x && echo x > /dev/null && echo fine",
        Mount(str(volume), "/data"),
        Mount("", "/scratch", kind="tmpfs"),
        Mount(str(volume), "/new/deep"),
        Mount(str(volume), "/etc/new/deep"),
        read_only_root=True,
    )
    assert said == ["fine"]


async def test_hidden_folders_look_empty(views: Box, volume: Path, tmp_path: Path) -> None:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/secret").touch()
    script = f"ls -A {tmp_path}/hidden /whole/hidden; touch {tmp_path}/hidden/x; cat /data/file"
    said = await look(
        views,
        script,
        Mount(str(volume), "/data"),
        Mount(str(tmp_path), "/whole"),
        machine=(str(tmp_path),),
        hidden=(str(tmp_path / "hidden"), "/no/such/folder"),
    )
    assert said[:3] == ["/whole/hidden:", "", f"{tmp_path}/hidden:"] or said[:3] == [
        f"{tmp_path}/hidden:",
        "",
        "/whole/hidden:",
    ]
    assert "Read-only" in said[3]
    assert said[4:] == ["from the volume"]


@needs_ordinary_user
async def test_a_folder_that_is_closed_to_us_is_in_nobodys_way(views: Box) -> None:
    assert await look(views, f"ls -A {Path.home()} 2>/dev/null; echo fine") == ["fine"]


@needs_root
async def test_a_volume_that_is_unmounted_outside_is_let_go(views: Box, tmp_path: Path) -> None:
    """Else its device would stay busy for as long as any other container runs."""
    other = tmp_path / "other"
    other.mkdir()
    do("mount", "-t", "tmpfs", "pilothouse-test", other)
    try:
        container = await views.shell("sleep 1000")
        assert f"{other} ".encode() not in (content(f"/proc/{container.pid}/mountinfo") or b"")
    finally:
        do("umount", other)


async def test_a_path_that_somebody_named_leads_into_no_hidden_folder(
    views: Box, volume: Path, tmp_path: Path
) -> None:
    """Whatever was checked before: it is looked at when it is mounted."""
    (tmp_path / "link").symlink_to(volume)
    named = Mount(str(tmp_path / "link"), "/data", foreign=True)
    assert await look(views, "cat /data/file", named) == ["from the volume"]
    with pytest.raises(LaunchError, match=f"/data: {volume} is a folder of the node itself"):
        await look(views, "true", named, hidden=(str(volume),))
    own = Mount(str(volume), "/data")
    assert await look(views, "ls /data", own, hidden=(str(tmp_path),)) == ["file"]


@needs_root
async def test_what_is_mounted_on_the_machine_later_does_not_appear(views: Box, volume: Path) -> None:
    (volume / "later").mkdir()
    do("mount", "--bind", volume, volume)
    try:
        do("mount", "--make-shared", volume)
        view = with_mounts(PLAIN_VIEW, mounts=(Mount(str(volume), "/data"),))
        container = await views.shell("sleep 1000", view=view)
        do("mount", "-t", "tmpfs", "pilothouse-test", volume / "later")
        try:
            assert b" /data/later " not in (content(f"/proc/{container.pid}/mountinfo") or b"")
        finally:
            do("umount", volume / "later")
    finally:
        do("umount", volume)


async def test_nothing_outlives_it(views: Box, tmp_path: Path) -> None:
    marker = f"{tmp_path}/marker"
    container = await views.shell(
        "(setsid sleep 1001 &) ; (trap '' TERM HUP; sleep 1002) & echo up; read x",
        stdin=True,
        env={"MARK": marker},
    )
    await views.says(container, "up")
    assert len(alive_with(marker)) >= 3
    await container.stop(9, 0)
    assert alive_with(marker) == []


async def test_the_machine_sees_nothing_of_its_mounts(views: Box, volume: Path, tmp_path: Path) -> None:
    view = with_mounts(PLAIN_VIEW, mounts=(Mount(str(volume), "/a/b"), Mount("", "/c", kind="tmpfs")))
    container = await views.shell("sleep 1000", view=view)
    assert str(tmp_path).encode() in (content(f"/proc/{container.pid}/mountinfo") or b"")
    assert str(tmp_path).encode() not in (content("/proc/self/mountinfo") or b"")
    assert not there("/a/b")


async def test_the_machines_own_tree_is_out_of_reach(views: Box) -> None:
    assert await look(
        views, "ls -d /.machine /.covers 2>/dev/null; grep -c '/[.]machine' /proc/self/mountinfo"
    ) == ["0"]


async def test_two_containers_share_a_volume(views: Box, volume: Path) -> None:
    view = with_mounts(PLAIN_VIEW, mounts=(Mount(str(volume), "/shared"),))
    reader: Container = await views.shell(
        "while ! test -e /shared/word; do sleep 0.02; done; cat /shared/word", view=view
    )
    await views.shell("echo hello > /shared/.word; mv /shared/.word /shared/word", view=view)

    async def heard() -> bool:
        return views.output(reader) == ["hello"]

    await eventually(heard)


async def test_a_mount_may_lie_as_deep_as_the_kernel_takes_paths(views: Box, volume: Path) -> None:
    deep = "/d" * 1500
    assert await look(views, f"cat {deep}/file", Mount(str(volume), deep)) == ["from the volume"]
    with pytest.raises(LaunchError, match=r"(?s)^/d/d.*: File name too long"):
        await look(views, "true", Mount(str(volume), "/d" * 3000))


async def test_a_place_is_made_in_an_image_that_has_none(views: Box, volume: Path, tmp_path: Path) -> None:
    image = tmp_path / "image"
    (image / "config/deep").mkdir(parents=True)
    (image / "config/settings").write_text("of the image\n")
    said = await look(
        views,
        "cat /opt/app/config/settings /opt/app/config/data/new/file /opt/app/data/file; ls /opt/app/config",
        Mount(str(image), "/opt/app", read_only=True),
        Mount(str(volume), "/opt/app/config/data/new", mapped=True),
        Mount(str(volume), "/opt/app/data", mapped=True),
    )
    assert said == ["of the image", "from the volume", "from the volume", "data", "deep", "settings"]
    assert sorted(each.name for each in image.rglob("*")) == ["config", "deep", "settings"]


async def test_no_cgroup_seems_to_lie_above_its_mount(box: Box) -> None:
    """A JVM that finds a root such as /.. there does not start."""
    container = await box.shell("cat /proc/self/mountinfo; sleep 0")
    await container.exited()
    mounts = [line.split() for line in box.output(container)]
    assert mounts
    assert [fields for fields in mounts if ".." in fields[3]] == []
