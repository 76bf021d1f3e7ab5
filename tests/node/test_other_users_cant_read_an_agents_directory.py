"""What an agent keeps is closed to other users, whatever umask it was started with."""

from __future__ import annotations

import os
import stat

from tests.node.stage import Stage, app, phase


def test_no_other_user_looks_into_an_agents_folder(stage: Stage) -> None:
    async def scene() -> None:
        await stage.pod({"containers": [app()]})
        await stage.until(lambda pod: phase(pod) == "Running")
        assert stat.S_IMODE(stage.settings.data.stat().st_mode) == 0o700

    stage.settings.data.mkdir(mode=0o777, parents=True)
    before = os.umask(0)
    try:
        stage.play(scene)
    finally:
        os.umask(before)
