"""Between any two writes, a reader sees whole lines and every name that stays."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from tests.node.network.objects import pod

from pilothouse.node.addresses.dns_names import DNSName
from pilothouse.node.addresses.hosts_file import SLOT, revisions
from pilothouse.node.addresses.pod_files import PodFiles

lines = some.lists(
    some.builds(
        lambda n, length: f"127.70.0.{n} {'x' * length}{n}",
        some.integers(1, 20),
        some.sampled_from([3, 120, 200]),
    ),
    unique=True,
    max_size=8,
)


def said(content: bytes) -> list[str]:
    return [line.rstrip() for line in content.decode().splitlines() if not line.startswith("#")]


@settings(suppress_health_check=[HealthCheck.too_slow])  # On a busy machine.
@given(some.lists(lines, min_size=1, max_size=6))
def test_no_reader_sees_a_broken_line_or_misses_a_name_that_stays(versions: list[list[str]]) -> None:
    content = b""
    for version in versions:
        before = said(content)
        for write in revisions(content, version):
            assert len(write.content) % SLOT == 0
            content = content[: write.offset] + write.content + content[write.offset + len(write.content) :]
            seen = said(content)
            assert set(seen) <= set(before) | set(version)
            assert set(before) & set(version) <= set(seen)
        assert sorted(said(content)) == sorted(version)
        assert list(revisions(content, version)) == [] or not version


def test_an_address_that_changes_is_never_missing() -> None:
    content = b"".join(write.content for write in revisions(b"", ["127.70.4.1 db", "127.70.4.2 web"]))
    writes = list(revisions(content, ["127.70.4.9 db", "127.70.4.2 web"]))
    assert [write.content.split() for write in writes] == [[b"127.70.4.9", b"db"], [b"#"]]


def test_places_that_are_free_are_used_again() -> None:
    content = b""
    for number in range(1, 50):
        for write in revisions(content, [f"127.70.4.{number} db"]):
            content = content[: write.offset] + write.content + content[write.offset + len(write.content) :]
    assert len(content) == 2 * SLOT


def test_a_file_of_anothers_making_is_begun_anew(tmp_path: Path) -> None:
    files = PodFiles(tmp_path)
    one = pod("p")
    hosts = files.hosts(one.uid)
    hosts.parent.mkdir()
    hosts.write_text("127.0.0.1 localhost\n")
    assert files.revise(one, "127.70.4.1")
    assert "127.70.4.1 p" in said(hosts.read_bytes())


def test_a_pod_without_a_file_gets_none_by_a_change(tmp_path: Path) -> None:
    assert not PodFiles(tmp_path).revise(pod("p"), "127.70.4.1")
    assert list(tmp_path.iterdir()) == []


def test_the_file_stays_the_same_one_and_everybody_may_read_it(tmp_path: Path) -> None:
    files = PodFiles(tmp_path)
    one = pod("p")
    files.write(one, "127.70.4.1")
    before = os.stat(files.hosts(one.uid))
    assert files.set_names(frozenset({DNSName("shop", "db", "127.96.0.7")}))
    files.revise(one, "127.70.4.1")
    after = os.stat(files.hosts(one.uid))
    assert before.st_ino == after.st_ino
    assert after.st_mode & 0o444 == 0o444


@pytest.mark.skipif(os.geteuid() != 0, reason="it mounts over /etc/hosts, which only root may")
def test_the_c_library_reads_it(tmp_path: Path) -> None:
    """With blanks, comments in free places, several addresses of a name, and a change while it is mounted."""
    files = PodFiles(tmp_path)
    one = pod("db-0", hostname="db-0", subdomain="db")
    files.set_names(frozenset(DNSName("shop", "db", f"127.70.4.{n}") for n in (1, 2, 3)))
    files.write(one, "127.70.4.1")
    ask = (
        "import socket, sys\n"
        "def ask(name):\n"
        "    return sorted({found[4][0] for found in socket.getaddrinfo(name, None, socket.AF_INET)})\n"
        "print(ask('db'), ask('db.shop.svc.cluster.local'), ask('db-0'), socket.getfqdn('db-0'), flush=True)\n"
        "sys.stdin.readline()\n"
        "print(ask('db'), ask('web.shop'), flush=True)\n"
    )
    argv = ["unshare", "-m", "sh", "-c", 'mount --bind "$1" /etc/hosts && exec "$2" -c "$3"', "sh"]
    argv += [str(files.hosts(one.uid)), sys.executable, ask]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        assert asking.stdin is not None
        everyone = ["127.70.4.1", "127.70.4.2", "127.70.4.3"]
        expected = f"{everyone} {everyone} ['127.70.4.1'] db-0.db.shop.svc.cluster.local\n"
        assert asking.stdout.readline() == expected
        files.set_names(
            frozenset({DNSName("shop", "db", "127.70.4.9"), DNSName("shop", "web", "127.96.0.1")})
        )
        files.revise(one, "127.70.4.1")
        asking.stdin.write("\n")
        asking.stdin.flush()
        assert asking.stdout.readline() == "['127.70.4.9'] ['127.96.0.1']\n"
    assert asking.returncode == 0
    assert socket.gethostbyname("localhost") == "127.0.0.1"


def test_a_lease_on_its_hosts_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    """The kernel lets the holder of a lease stop whoever opens the file, for 45 seconds."""
    files = PodFiles(tmp_path)
    files.set_names(frozenset())
    one = pod("db")
    files.write(one, "127.70.4.1")
    hold = (
        "import fcntl, os, signal, sys; signal.signal(signal.SIGIO, signal.SIG_IGN);"
        "file = os.open(sys.argv[1], os.O_RDONLY); fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK);"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, files.hosts(one.uid)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        before = files.hosts(one.uid).stat().st_mtime_ns
        assert files.revise(one, "127.70.4.2")
        assert files.hosts(one.uid).stat().st_mtime_ns == before
        assert holder.stdin is not None
        holder.stdin.close()
    assert files.revise(one, "127.70.4.2")
    assert b"127.70.4.2" in files.hosts(one.uid).read_bytes()
