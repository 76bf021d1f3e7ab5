"""This installation is in reach of whoever a container runs as, wherever it is installed; and nothing else is that was not before."""

from __future__ import annotations

from pathlib import Path

from tests.kit.containers import needs_root
from tests.node.real import real_node, shell
from tests.node.stage import phase

from pilothouse.node.containers.pilot_installation import installation


@needs_root
async def test_somebody_else_runs_the_very_program(tmp_path: Path) -> None:
    script = "id -u; pilothouse pilot --help | head -1; ls -A /root 2>&1; touch /root/x 2>&1 || echo closed"
    async with real_node(tmp_path) as node:
        pod = await node.pod(
            {
                "restartPolicy": "Never",
                "securityContext": {"runAsUser": 4321},
                "containers": [shell(script)],
            }
        )
        await node.until(lambda pod: phase(pod) in ("Succeeded", "Failed"))
        said = node.log(pod).splitlines()
    assert said[0] == "4321"
    assert said[1].startswith("Usage: "), said
    assert said[-1] == "closed"
    first = {Path(each).relative_to("/root").parts[0] for each in installation() if each.startswith("/root/")}
    listed = {line for line in said[2:-1] if not line.startswith(("ls: ", "touch: "))}
    assert listed <= first, "it sees what it must, and nothing else"
