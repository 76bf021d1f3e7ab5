"""Images as somebody has them before they are imported: a folder with a program and, maybe, what the image says of itself.

source = image_folder(tmp_path / "redis", "bin/server", "exec sleep 1000", entrypoint=["bin/server"])
library.import_("redis:7", source)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def image_folder(folder: Path, program: str, script: str = "", **says: Any) -> Path:
    """The folder, made. ``says`` is what its image.json does; without any there is none."""
    path = folder / program
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{script}\n" if script else "#!/bin/sh\n")
    path.chmod(0o755)
    if says:
        (folder / "image.json").write_text(json.dumps(says))
    return folder
