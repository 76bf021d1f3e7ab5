"""A program of a container chooses its name; the agent reads it where it looks at signals."""

from __future__ import annotations

import signal
import subprocess

import pytest

from pilothouse.supervise.process_identity import SignalState, signal_state


@pytest.mark.parametrize("name", [r"\377", r"\rSigCgt:\tfffff", r"\f\034:", "plain"])
def test_how_it_takes_a_signal_is_known_whatever_its_name_is(name: str) -> None:
    for trap, state in (("", SignalState.DEFAULT), ("trap true TERM;", SignalState.HANDLED)):
        script = f"{trap} printf '{name}' > /proc/self/comm; echo ready; read line"
        with subprocess.Popen(
            ["/bin/sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            assert signal_state(process.pid, signal.SIGTERM) is state
            process.communicate(b"\n")
    assert signal_state(process.pid, signal.SIGTERM) is SignalState.ENDED
