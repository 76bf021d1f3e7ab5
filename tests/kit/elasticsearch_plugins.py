"""Small real plugins of Elasticsearch, compiled against the version that they are for.

archive = plugin(home, folder, "greeting", "8.17.0")
archive = plugin(home, folder, "greeting", "8.17.0", fits="8.16.0")       # says that it is for another version
"""

from __future__ import annotations

import io
import shutil
import subprocess
import zipfile
from pathlib import Path

from tests.kit.tools import MissingTool

_SOURCE = "public class Greeting extends org.elasticsearch.plugins.Plugin {}\n"


def plugin(home: Path, folder: Path, name: str, version: str, *, fits: str = "", beside: str = "") -> Path:
    """The archive ``<name>.zip``; ``beside`` is one more entry in it. Raises ``MissingTool``."""
    compiler = shutil.which("javac")
    if compiler is None:
        raise MissingTool("there is no javac on PATH; Debian has it as openjdk-17-jdk-headless")
    work = folder / f"{name}-classes"
    work.mkdir(parents=True)
    (work / "Greeting.java").write_text(_SOURCE)
    compiling = [compiler, "-nowarn", "-proc:none", "-cp", f"{home}/lib/*", "-d", str(work)]
    subprocess.run([*compiling, str(work / "Greeting.java")], check=True, capture_output=True)
    jar = io.BytesIO()
    with zipfile.ZipFile(jar, "w") as file:
        file.write(work / "Greeting.class", "Greeting.class")
    says = {
        "name": name,
        "description": "says nothing",
        "version": "1.0.0",
        "classname": "Greeting",
        "java.version": "1.8",
        "elasticsearch.version": fits or version,
    }
    archive = folder / f"{name}.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("plugin-descriptor.properties", "".join(f"{k}={v}\n" for k, v in says.items()))
        file.writestr(f"{name}.jar", jar.getvalue())
        if beside:
            file.writestr(beside, "x")
    return archive
