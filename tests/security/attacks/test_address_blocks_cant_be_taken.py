"""No pod and no other user of the machine keeps an agent from having addresses for its pods."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from ipaddress import IPv4Network
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.other_users import as_user

from pilothouse.node.addresses.block_locks import BlockLocks
from pilothouse.node.addresses.pod_ranges import BLOCK, LOOPBACK, MARK_PORT, LoopbackBlock

STRANGER = 64_998
VICTIM = 64_999
SQUATTED = {"a folder of theirs": 64_990, "a link": 64_991, "a file": 64_992, "writable by all": 64_993}
"""Which user finds its name taken, and by what; users of their own, since tests run side by side."""


def test_names_and_ports_that_anybody_can_bind_keep_no_agent_from_its_block(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        with contextlib.ExitStack() as taken:
            for block in LOOPBACK.subnets(new_prefix=BLOCK):
                name = taken.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
                with contextlib.suppress(OSError):  # Of an agent that runs here, perhaps.
                    name.bind(f"\0pilothouse/pods/{block}")
            # All marks at once: a socket at every address of the machine.
            everywhere = taken.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            with contextlib.suppress(OSError):
                everywhere.bind(("0.0.0.0", MARK_PORT))
            first = LoopbackBlock.claim(preferred="", data=tmp_path)
            taken.callback(first.close)
            second = LoopbackBlock.claim(preferred="", data=tmp_path)
            taken.callback(second.close)
            assert not first.network.overlaps(second.network)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@needs_root
def test_agents_of_two_users_keep_out_of_each_others_blocks(work: Path) -> None:
    with contextlib.closing(LoopbackBlock.claim(preferred="", data=work)) as mine:
        try:
            theirs = as_user(VICTIM, lambda: _claimed(work / "theirs", preferred=str(mine.network)))
        finally:
            shutil.rmtree(f"/tmp/pilothouse-{VICTIM}", ignore_errors=True)
        assert IPv4Network(theirs).subnet_of(LOOPBACK)
        assert theirs != str(mine.network)


@needs_root
@pytest.mark.parametrize("how", SQUATTED)
def test_a_name_that_somebody_made_first_is_not_trusted(work: Path, how: str) -> None:
    victim = SQUATTED[how]
    squatted = Path(f"/tmp/pilothouse-{victim}")
    os.chown(work / "theirs", victim, victim)
    trap = work / "trap"
    trap.mkdir()
    os.chown(trap, victim, victim)
    try:
        if how == "a link":
            squatted.symlink_to(trap)
        elif how == "a file":
            squatted.touch()
        else:
            squatted.mkdir()
            owner = victim if how == "writable by all" else STRANGER
            os.chown(squatted, owner, owner)
            squatted.chmod(0o777)
        assert as_user(victim, lambda: _locked_at(work / "theirs")) == str(work / "theirs")
        assert list(trap.iterdir()) == []
    finally:
        if squatted.is_dir() and not squatted.is_symlink():
            shutil.rmtree(squatted)
        else:
            squatted.unlink()


@needs_root
def test_the_file_of_locks_cant_be_opened_or_replaced_by_another_user(work: Path) -> None:
    locks = BlockLocks.open(work)
    try:

        def attack() -> str:
            tries: list[Callable[[], object]] = [
                lambda: os.open(locks.path, os.O_RDONLY),
                lambda: os.unlink(locks.path),
                lambda: os.rename(locks.path.parent, f"{locks.path.parent}-gone"),
            ]
            for each in tries:
                try:
                    each()
                except PermissionError:
                    continue
                return "an attack succeeded"
            return "refused"

        assert as_user(STRANGER, attack) == "refused"
    finally:
        locks.close()


@pytest.fixture
def work() -> Iterator[Path]:
    """A folder that other users may reach."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-attack-") as name:
        os.chmod(name, 0o755)
        theirs = Path(name) / "theirs"
        theirs.mkdir()
        if os.geteuid() == 0:
            os.chown(theirs, VICTIM, VICTIM)
        yield Path(name)


def _claimed(data: Path, *, preferred: str) -> str:
    return str(LoopbackBlock.claim(preferred=preferred, data=data).network)


def _locked_at(data: Path) -> str:
    return str(BlockLocks.open(data).path.parent)
