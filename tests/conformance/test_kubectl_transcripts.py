"""Case 75: kubectl prints the same, times and identities aside, whichever server it talks to.

Each file in `transcripts/` is a session at a prompt, recorded from a real kube-apiserver:

    $ kubectl label db kdb tier=gold
    database.nav.example.io/kdb labeled

A line that begins with `$` is run in the test's namespace, in a folder that has the files named below; what it must
print, on either stream, follows. `[1]` before the output is an exit status that is not zero. `EDIT=s/a/b/` before a
command is what the editor does to the file.
"""

from __future__ import annotations

import difflib
import re
import shlex
from pathlib import Path

import pytest
import yaml
from tests.kit.databases import Databases, database
from tests.kit.http import Http
from tests.kit.kubectl import Kubectl, installed, newest
from tests.kit.servers import Target

pytestmark = [pytest.mark.conformance, pytest.mark.kubectl]

TRANSCRIPTS = {path.stem: path.read_text() for path in (Path(__file__).parent / "transcripts").glob("*.txt")}

# The wording is kubectl's own and changes with its version.
RECORDED_WITH = "1.33"

FILES = {
    "db.yaml": database("kdb", replicas=2, users=[{"name": "u1", "role": "rw"}]),
    "db3.yaml": database("kdb", replicas=3, users=[{"name": "u1", "role": "rw"}]),
    "bad.yaml": database("bad", engine="oracle", replicas=101),
    "typo.yaml": database("typo", replcas=1),
    "cm.yaml": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"k": "v"}},
    "event.yaml": {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "kdb.1"},
        "type": "Normal",
        "reason": "Grown",
        "message": "from one to two",
        "count": 3,
        "firstTimestamp": "2024-01-01T00:00:00Z",
        "lastTimestamp": "2024-01-02T00:00:00Z",
        "source": {"component": "grower"},
        "involvedObject": {
            "apiVersion": "nav.example.io/v1",
            "kind": "Database",
            "name": "kdb",
            "namespace": "NAMESPACE",
        },
    },
}


@pytest.fixture
def recorded(target: Target, kubectl_home: Path) -> Kubectl:
    fitting = [binary for binary in installed() if binary.version == RECORDED_WITH]
    return Kubectl(fitting[0] if fitting else newest(), target.kubeconfig, kubectl_home)


def normalised(text: str, namespace: str) -> str:
    """The text without what differs from run to run."""
    patterns = [
        (re.escape(namespace), "NS"),
        (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"(resourceVersion|Resource Version): +\"?\d+\"?", r"\1: N"),
        (r"/tmp/\S*?(LIVE|MERGED)-\d+/", r"\1/"),
        (r"^((---|\+\+\+) \S+)\t.*$", r"\1"),
        (r"(?<=\s)(\d+[ydhms])+(?=$|[\s)])", "AGE"),
        (r"(?<=\S) {2,}", "  "),
        (r" +$", ""),
    ]
    for pattern, replacement in patterns:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    # Errors have no order among themselves.
    return re.sub(
        r"(?:^\* .*\n)+", lambda causes: "".join(sorted(causes[0].splitlines(True))), text, flags=re.M
    )


async def replay(transcript: str, kubectl: Kubectl, namespace: str, folder: Path) -> str:
    """What the commands of a transcript print this time, as a transcript."""
    for name, body in FILES.items():
        (folder / name).write_text(yaml.safe_dump(body).replace("NAMESPACE", namespace))
    replayed = []
    for line in transcript.splitlines():
        if not line.startswith("$ "):
            continue
        words = shlex.split(line[2:])
        editor = ""
        if words[0].startswith("EDIT="):
            script = folder / "editor"
            script.write_text(f"#!/bin/sh\nsed -i '{words.pop(0).removeprefix('EDIT=')}' \"$1\"\n")
            script.chmod(0o755)
            editor = str(script)
        shown = await kubectl(*words[1:], "-n", namespace, editor=editor, folder=folder)
        status = f"[{shown.code}]\n" if shown.code else ""
        replayed.append(f"{line}\n{status}{normalised(shown.out + shown.err, namespace)}")
    return "".join(replayed)


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
async def test_case_75_kubectl_prints_what_it_prints_against_kubernetes(
    name: str, dbs: Databases, http: Http, recorded: Kubectl, tmp_path: Path
) -> None:
    expected = TRANSCRIPTS[name]

    replayed = await replay(expected, recorded, dbs.namespace, tmp_path)

    difference = difflib.unified_diff(
        expected.splitlines(), replayed.splitlines(), "recorded", "replayed", lineterm=""
    )
    assert replayed == expected, "\n".join(difference)
