"""Commands of a page, typed as they stand there.

    typed("kubectl get nodes", plane.data, seconds=90)

They find the kubectl that was built, the ``pilothouse`` that is tested, and the control plane whose data is told.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.kit import tools

ROOT: Final = Path(__file__).parents[2]
QUICK_START: Final = ROOT / "docs" / "quickstart.md"


def typed(script: str, data: Path, *, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run it by a shell that ends at the first failure, in the project's folder. Its home is its own, beside the data; what scripts have
    fetched before is found all the same."""
    home = data.parent / "home"
    home.mkdir(exist_ok=True)
    return subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", script],
        cwd=ROOT,
        env={
            **os.environ,
            "PATH": f"{tools.find('kubectl').parent}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(tools.folder().parents[1]),
            "KUBECONFIG": str(data / "admin.kubeconfig"),
            "PILOTHOUSE_DATA": str(data),
        },
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
