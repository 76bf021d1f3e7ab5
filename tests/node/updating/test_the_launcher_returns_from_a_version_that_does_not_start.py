from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.kit.program_trees import entry, installed, payload, stage

from pilothouse.node.updating.installed_tree import InstalledTree

WORKS = "#!/bin/sh\necho {version} $@\n"
CRASHES = "#!/bin/sh\nexit 3\n"
SYNTAX_ERROR = "#!/usr/bin/env python3\ndef (:\n"


def start(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [root / "bin" / "pilothouse", *arguments], capture_output=True, text=True, check=False
    )


async def on_trial(root: Path, program: str) -> tuple[InstalledTree, str]:
    """v1.0.0 works and is kept; v2.0.0 was switched to. Returns its digest."""
    files = await installed(root, "v1.0.0", payload("v1.0.0", WORKS.format(version="v1.0.0")))
    digest = await stage(files, "v2.0.0", payload("v2.0.0", program))
    await files.keep()
    await files.swap()
    return files, digest


async def test_it_runs_the_current_version_with_all_arguments(tmp_path: Path) -> None:
    await on_trial(tmp_path, WORKS.format(version="v2.0.0"))
    assert start(tmp_path, "node", "--data", "x y").stdout == "v2.0.0 node --data x y\n"


@pytest.mark.parametrize("program", [CRASHES, SYNTAX_ERROR], ids=["crashes", "syntax error"])
async def test_the_start_after_three_that_were_not_confirmed_is_one_of_the_kept_version(
    tmp_path: Path, program: str
) -> None:
    files, digest = await on_trial(tmp_path, program)
    for _ in range(3):
        assert start(tmp_path, "node").returncode != 0
        assert files.given_up(digest) == ""
    back = start(tmp_path, "node")
    assert back.stdout == "v1.0.0 node\n"
    assert "v2.0.0" in back.stderr
    assert await files.digest() == await files.kept_digest()
    assert files.given_up(digest) == "node was started 3 times, and did not prove to work"
    assert start(tmp_path, "node").stdout == "v1.0.0 node\n"


async def test_each_service_has_its_own_count(tmp_path: Path) -> None:
    files, digest = await on_trial(tmp_path, WORKS.format(version="v2.0.0"))
    for _ in range(3):
        for service in ("apiserver", "controller-manager", "node"):
            assert start(tmp_path, service).stdout == f"v2.0.0 {service}\n"
    assert start(tmp_path, "apiserver").stdout == "v1.0.0 apiserver\n"
    assert files.given_up(digest).startswith("apiserver was started 3 times")


async def test_commands_that_end_by_themselves_are_of_the_version_that_works_and_do_not_count(
    tmp_path: Path,
) -> None:
    files, _ = await on_trial(tmp_path, WORKS.format(version="v2.0.0"))
    for _ in range(5):
        assert start(tmp_path, "status", "node").stdout == "v1.0.0 status node\n"
    assert start(tmp_path, "-h").stdout == "v1.0.0 -h\n"
    assert start(tmp_path, "node").stdout == "v2.0.0 node\n"
    await files.confirm()
    assert start(tmp_path, "status").stdout == "v2.0.0 status\n"


async def test_a_version_that_was_confirmed_is_never_left(tmp_path: Path) -> None:
    files, digest = await on_trial(tmp_path, WORKS.format(version="v2.0.0"))
    await files.confirm()
    for _ in range(5):
        assert start(tmp_path, "node").stdout == "v2.0.0 node\n"
    assert files.given_up(digest) == ""


async def test_a_program_that_can_not_be_executed_is_left_at_once(tmp_path: Path) -> None:
    files, digest = await on_trial(tmp_path, "#!/nonexistent/interpreter\n")
    assert start(tmp_path, "node").stdout == "v1.0.0 node\n"
    assert "can't be started: No such file or directory" in files.given_up(digest)


async def test_a_launcher_that_is_killed_while_it_returns_is_repeated(tmp_path: Path) -> None:
    files, digest = await on_trial(tmp_path, CRASHES)
    for _ in range(3):
        start(tmp_path, "node")
    trial = (tmp_path / "trial.json").read_bytes()
    start(tmp_path, "node")
    # As if only the reason was written.
    (tmp_path / "trial.json").write_bytes(trial)
    await_link = tmp_path / "current"
    await_link.unlink()
    await_link.symlink_to(f"versions/v2.0.0-{digest[:12]}")
    assert start(tmp_path, "node").stdout == "v1.0.0 node\n"
    # As if all but the trial was done.
    (tmp_path / "trial.json").write_bytes(trial)
    assert start(tmp_path, "node").stdout == "v1.0.0 node\n"
    assert files.given_up(digest)


async def test_the_next_update_forgets_what_was_given_up(tmp_path: Path) -> None:
    files, _ = await on_trial(tmp_path, CRASHES)
    for _ in range(4):
        start(tmp_path, "node")
    digest = await stage(files, "v3.0.0", payload("v3.0.0", CRASHES, entries=[entry("lib/x", b"x")]))
    await files.swap()
    assert files.given_up(digest) == ""
    assert start(tmp_path, "node").returncode == 3


async def test_a_rollback_to_the_kept_version_is_on_no_trial(tmp_path: Path) -> None:
    files, _ = await on_trial(tmp_path, WORKS.format(version="v2.0.0"))
    await files.confirm()
    await files.stage_kept()
    await files.swap()
    for _ in range(5):
        assert start(tmp_path, "node").stdout == "v1.0.0 node\n"


def test_without_a_version_it_says_so(tmp_path: Path) -> None:
    from pilothouse.node.updating.installed_tree import install_launcher

    install_launcher(tmp_path)
    done = start(tmp_path, "node")
    assert done.returncode == 1
    assert done.stderr == f"pilothouse: {tmp_path / 'current'} leads to no version\n"
