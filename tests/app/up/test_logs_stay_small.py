from __future__ import annotations

from pathlib import Path

from pilothouse.app.processes import truncate_log


def test_what_a_large_log_holds_is_put_aside_under_its_writer(tmp_path: Path) -> None:
    log = tmp_path / "node.log"
    with log.open("ab", buffering=0) as writer:
        writer.write(b"x" * 100)
        truncate_log(log, largest=100)
        assert log.stat().st_size == 100
        writer.write(b"y")
        truncate_log(log, largest=100)
        writer.write(b"z")
    assert log.read_bytes() == b"z"
    assert (tmp_path / "node.log.1").read_bytes() == b"x" * 100 + b"y"
