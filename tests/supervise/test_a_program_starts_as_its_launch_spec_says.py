"""Arguments, environment, folder, user, umask; and a reason that a person can act on when it can't be."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from tests.kit.containers import PLAIN_VIEW, Box, needs_ordinary_user, needs_root, with_mounts
from tests.kit.waiting import eventually

from pilothouse.supervise.containers import Container, adopt, start
from pilothouse.supervise.launch_spec import LaunchError, LogPolicy, Mount, ProcessUser


async def test_its_exit_code_is_told(box: Box) -> None:
    before = time.time()
    container = await box.shell("exit 3")
    exit = await container.exited()
    assert (exit.code, exit.signal, exit.oom, exit.lost) == (3, None, False, False)
    assert before - 1 <= exit.started <= exit.finished <= time.time() + 1
    assert container.started == exit.started


async def test_it_has_exactly_the_arguments_and_environment_given(box: Box) -> None:
    container = await box.run(
        "/usr/bin/env", "-u", "PATH", "sh", "-c", 'printf "%s|" "$0" "$@"; env', "a b", "", "c'\"ü",
        env={"PATH": "/usr/bin:/bin", "SNOW": "☃ and\ttab"},
    )  # fmt: skip
    await container.exited()
    text = "\n".join(box.output(container))
    assert text.startswith("a b||c'\"ü|")
    inside = set(text.partition("c'\"ü|")[2].splitlines())
    assert "SNOW=☃ and\ttab" in inside
    assert {line.partition("=")[0] for line in inside} <= {"SNOW", "PWD", "SHLVL", "_", "OLDPWD"}


async def test_it_is_found_along_the_path_it_is_given(box: Box, tmp_path: Path) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        program = tmp_path / name / "tool"
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(mode)
    container = await box.run(
        "tool", env={"PATH": f"{tmp_path}/none:{tmp_path}/first:{tmp_path}/second:/bin"}
    )
    await container.exited()
    assert box.output(container) == ["second"]


async def test_it_starts_in_its_folder_with_its_umask(box: Box, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    container = await box.shell("pwd; umask; touch made", cwd=str(tmp_path / "work"), umask=0o027)
    await container.exited()
    assert box.output(container) == [str(tmp_path / "work"), "0027"]
    assert (tmp_path / "work/made").stat().st_mode & 0o777 == 0o640


async def test_its_input_is_empty_unless_asked_for(box: Box) -> None:
    container = await box.shell("cat; echo done")
    assert (await container.exited()).code == 0
    assert box.output(container) == ["done"]


async def test_no_descriptor_of_ours_is_left_open_in_it(box: Box) -> None:
    container = await box.shell("ls /proc/$$/fd")
    await container.exited()
    assert set(box.output(container)) <= {"0", "1", "2"}


async def test_signals_are_as_a_fresh_process_has_them(box: Box) -> None:
    container = await box.shell("grep -E 'SigBlk|SigIgn' /proc/self/status")
    await container.exited()
    masks = [int(line.split()[1], 16) for line in box.output(container)]
    # Signals 32 and 33 are the C library's own, which nobody can set; make leaves them ignored for whatever it starts.
    assert [mask & ~(0b11 << 31) for mask in masks] == [0, 0]


@pytest.mark.parametrize(
    ("argv", "fields", "reason", "words"),
    [
        (("no-such-program",), {}, "ProgramNotFound", "no-such-program: there is no such program in /usr/local/bin"),
        (("/no/such/program",), {}, "ProgramNotFound", "/no/such/program"),
        (("/etc/passwd",), {}, "NotExecutable", "/etc/passwd can't be executed: Permission denied"),
        (("/etc",), {}, "NotExecutable", "/etc can't be executed"),
        (("/bin/true",), {"cwd": "/no/such/folder"}, "WorkingDirectoryRefused", "/no/such/folder: No such file"),
        (("/bin/true", "x" * 200_000), {}, "TooBig", "larger than the kernel takes"),
        (("/bin/true",), {"cgroups": ("/no/such/cgroup",)}, "CgroupRefused", "can't enter the cgroup /no/such/cgroup"),
        (("/bin/true",), {"log": LogPolicy("/no/such/folder/log")}, "LogRefused", "can't write /no/such/folder/log"),
        (("/bin/true",), {"capabilities": ("FLY",)}, "CapabilityUnknown", "there is no capability FLY"),
        (("/bin/true\0",), {}, "StartFailed", "null"),
        ((), {}, "ProgramNotFound", "no program is named"),
    ],
)  # fmt: skip
async def test_what_is_wrong_is_told(
    box: Box, argv: tuple[str, ...], fields: dict[str, Any], reason: str, words: str
) -> None:
    with pytest.raises(LaunchError) as failed:
        await box.run(*argv, **fields)
    assert failed.value.reason == reason
    assert words in failed.value.message


async def test_a_script_without_an_interpreter_is_told(box: Box, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("echo hello\n")
    script.chmod(0o755)
    with pytest.raises(LaunchError, match="Exec format error") as failed:
        await box.run(str(script))
    assert failed.value.reason == "NotExecutable"


async def test_after_a_failed_start_the_folder_can_be_used_again(box: Box, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    program = tmp_path / "late"
    for _ in range(2):
        with pytest.raises(LaunchError):
            await box.run(str(program), folder=folder)
        assert await adopt(folder) is None
    program.write_text("#!/bin/sh\nexit 4\n")
    program.chmod(0o755)
    assert (await (await box.run(str(program), folder=folder)).exited()).code == 4


async def test_a_start_that_hangs_is_given_up_and_leaves_nothing(box: Box, tmp_path: Path) -> None:
    fifo = tmp_path / "log"
    os.mkfifo(fifo)
    folder = tmp_path / "hangs"
    launch = box.launch(folder, ("/bin/true",), log=LogPolicy(str(fifo)))
    with pytest.raises(LaunchError, match=r"did not start in 0.3 s") as failed:
        await start(folder, launch, seconds=0.3)
    assert failed.value.reason == "TookTooLong"

    async def nothing_there() -> bool:
        return await adopt(folder, seconds=5) is None

    await eventually(nothing_there, seconds=60)


async def test_a_shim_that_neither_answers_nor_ends_holds_up_nobody(
    box: Box, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 600 >/dev/null\n")
    interpreter.chmod(0o755)
    folder = tmp_path / "hangs"
    launch = box.launch(folder, ("/bin/true",))
    monkeypatch.setattr("sys.executable", str(interpreter))
    with pytest.raises(LaunchError) as failed:
        await start(folder, launch, seconds=2)
    assert failed.value.reason == "ShimFailed"
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_many_start_at_once(box: Box) -> None:
    containers = await asyncio.gather(*(box.shell(f"exit {number}") for number in range(20)))
    exits = await asyncio.gather(*(container.exited() for container in containers))
    assert [exit.code for exit in exits] == list(range(20))


async def test_a_folder_runs_a_program_once(box: Box, tmp_path: Path) -> None:
    folder, counter = tmp_path / "once", tmp_path / "starts"
    script = f"echo started >> {counter}; exec sleep 1000"
    containers = await asyncio.gather(*(box.shell(script, folder=folder) for _ in range(5)))
    assert len({container.pid for container in containers}) == 1
    assert isinstance(await adopt(folder), Container)

    async def it_has_counted() -> bool:
        return counter.exists()

    await eventually(it_has_counted)
    await containers[0].stop(9, 0)
    again = await box.shell(script, folder=folder)
    assert (await again.exited()).code == 137
    assert counter.read_text() == "started\n"


async def test_a_path_of_any_length_will_do(box: Box, tmp_path: Path) -> None:
    folder = tmp_path / "/".join(["a-folder-with-quite-a-long-name"] * 6) / "ü with blanks"
    container = await box.shell("read line; echo got $line", folder=folder, stdin=True, stdin_once=True)
    attached = await container.attach()
    await attached.send(b"it\n")
    assert (await anext(aiter(attached)))[1] == b"got it\n"
    await attached.aclose()


@needs_root
async def test_it_runs_as_its_user(box: Box) -> None:
    container = await box.shell(
        "id -u; id -g; id -G; sleep 0", user=ProcessUser(uid=1234, gid=2345, groups=(3456, 4567))
    )
    await container.exited()
    assert box.output(container) == ["1234", "2345", "2345 3456 4567"]


@needs_root
async def test_a_user_without_groups_has_none_of_ours(box: Box) -> None:
    container = await box.shell("grep ^Groups /proc/self/status", user=ProcessUser(uid=1234, gid=2345))
    await container.exited()
    assert box.output(container)[0].split() == ["Groups:"]


@needs_root
async def test_root_keeps_only_the_capabilities_it_is_left(box: Box) -> None:
    container = await box.shell(
        "grep -E 'CapEff|CapBnd|CapPrm|CapAmb' /proc/self/status", capabilities=("NET_BIND_SERVICE", "CHOWN")
    )
    await container.exited()
    masks = dict(line.split() for line in box.output(container))
    assert masks == dict.fromkeys(("CapPrm:", "CapEff:", "CapBnd:"), f"{1 | 1 << 10:016x}") | {
        "CapAmb:": "0" * 16
    }


@needs_root
async def test_another_user_has_no_capabilities(box: Box) -> None:
    container = await box.shell("grep CapEff /proc/self/status", user=ProcessUser(uid=1234, gid=2345))
    await container.exited()
    assert box.output(container)[0].split()[1] == "0" * 16


async def test_no_new_privileges(box: Box) -> None:
    container = await box.shell("grep NoNewPrivs /proc/self/status", no_new_privileges=True)
    await container.exited()
    assert box.output(container)[0].split()[1] == "1"


async def test_who_the_kernel_kills_first_is_set(box: Box) -> None:
    container = await box.shell("cat /proc/self/oom_score_adj", oom_score_adj=987)
    await container.exited()
    assert box.output(container) == ["987"]


@needs_ordinary_user
async def test_an_ordinary_user_looks_like_the_user_asked_for(views: Box, tmp_path: Path) -> None:
    container = await views.shell(
        "id -u; id -g; touch /made/made",
        user=ProcessUser(uid=1234, gid=2345),
        view=with_mounts(PLAIN_VIEW, mounts=(Mount(str(tmp_path), "/made"),)),
    )
    await container.exited()
    assert views.output(container) == ["1234", "2345"]
    assert (tmp_path / "made").stat().st_uid == os.getuid()


@needs_ordinary_user
async def test_without_a_view_an_ordinary_user_can_be_no_other(bare: Box) -> None:
    with pytest.raises(LaunchError, match="only root may choose another user") as failed:
        await bare.run("/bin/true", user=ProcessUser(uid=1234, gid=2345))
    assert failed.value.reason == "UserRefused"


async def test_a_program_begins_with_the_limit_of_open_files_that_was_asked_for(box: Box) -> None:
    container = await box.shell("ulimit -Sn; ulimit -n 200 && ulimit -Sn", open_files=100)
    assert (await container.exited()).code == 0
    assert box.output(container) == ["100", "200"]
