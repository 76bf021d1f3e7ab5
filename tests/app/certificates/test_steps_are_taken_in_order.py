from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pilothouse.pki import authority_files
from pilothouse.pki.authority import Authority, UnusableError
from pilothouse.pki.authority_rotation import Authorities, StepError, decode, encode
from pilothouse.pki.private_files import write_private

NOW = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
OLD, NEW = Authority.make("old", NOW).credential, Authority.make("new", NOW).credential


def stages() -> list[Authorities]:
    alone = Authorities(OLD)
    prepared = alone.prepare(NEW)
    switched = prepared.switch()
    return [alone, prepared, switched, switched.finish()]


def test_each_step_signs_and_trusts_as_it_should() -> None:
    alone, prepared, switched, finished = stages()
    assert [each.current for each in stages()] == [OLD, OLD, NEW, NEW]
    assert alone.trusted == OLD.certificate
    assert prepared.trusted == OLD.certificate + NEW.certificate
    assert switched.trusted == NEW.certificate + OLD.certificate
    assert finished.trusted == NEW.certificate


def test_steps_out_of_order_name_the_right_one() -> None:
    alone, prepared, switched, _ = stages()
    with pytest.raises(StepError, match="the next step is prepare"):
        alone.switch()
    with pytest.raises(StepError, match="nothing to finish"):
        alone.finish()
    with pytest.raises(StepError, match="the next step is switch"):
        prepared.prepare(NEW)
    with pytest.raises(StepError, match="the next step is switch"):
        prepared.finish()
    with pytest.raises(StepError, match="the next step is finish"):
        switched.prepare(NEW)
    with pytest.raises(StepError, match="the next step is finish"):
        switched.switch()


def test_they_survive_being_kept(tmp_path: Path) -> None:
    for stage in stages():
        assert decode(encode(stage)) == stage
        authority_files.write(tmp_path, stage)
        assert authority_files.read(tmp_path) == stage


def test_an_empty_folder_has_none(tmp_path: Path) -> None:
    assert authority_files.read(tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{}", b'{"certificate":"a"}', b"[]", b'{"certificate":1,"key":2}'])
def test_garbage_is_refused(content: bytes) -> None:
    with pytest.raises(UnusableError):
        decode(content)


class Crash(Exception):
    """The machine goes down."""


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_step_that_is_cut_short_can_be_told_from_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """At each write that a step makes, the power goes: what is then found is the state before it, or after it."""
    before, after = stages()[step], stages()[step + 1]
    for survived in range(10):
        folder = tmp_path / str(survived)
        folder.mkdir()
        authority_files.write(folder, before)
        writes = iter(range(survived))

        def write(path: Path, content: bytes, writes: Iterator[int] = writes) -> None:
            if next(writes, None) is None:
                raise Crash
            write_private(path, content)

        with monkeypatch.context() as patched:
            patched.setattr(authority_files, "write_private", write)
            try:
                authority_files.write(folder, after)
                completed = True
            except Crash:
                completed = False
        found = authority_files.read(folder)
        assert found is not None
        Authority(found.current)
        assert found in (before, after)
        authority_files.write(folder, after)
        assert authority_files.read(folder) == after
        shutil.rmtree(folder)
        if completed:
            return
    raise AssertionError("a step should be done within ten writes")
