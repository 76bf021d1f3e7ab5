"""``pilothouse updates`` as a publisher runs it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.cli.running import pilothouse
from tests.kit import tools

VERSION = "v1.32.4+k0s.0"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys, and a channel with one version."""
    place = tmp_path_factory.mktemp("updates")
    (place / "k0s").write_text("#!/bin/sh\n")
    assert pilothouse("updates", "key", str(place / "keys")).returncode == 0
    done = publish(place, VERSION)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith(f"stable offers {VERSION}\n")
    return place


def publish(place: Path, version: str, *more: str) -> subprocess.CompletedProcess[str]:
    flags = ("--dir", str(place / "channels"), "--keys", str(place / "keys"))
    return pilothouse(
        "updates", "publish", "stable", version, *(more or (f"linux-amd64={place}/k0s",)), *flags
    )


def test_platforms_that_a_version_leaves_out_are_named(place: Path, tmp_path: Path) -> None:
    keys = ("--dir", str(tmp_path), "--keys", str(place / "keys"))
    program = f"{place}/k0s"

    def publish(version: str, *payloads: str) -> str:
        done = pilothouse("updates", "publish", "stable", version, *payloads, *keys)
        assert (done.returncode, done.stdout.endswith(f"stable offers {version}\n")) == (0, True), done.stderr
        return done.stderr

    first = (f"linux-amd64={program}", f"linux-arm64={program}", "--bundle", f"linux-arm64={program}")
    assert publish("v1.0.0", *first) == ""
    assert publish("v5.0.0", f"sparc-9={program}", f"linux-arm64={program}") == (
        "warning: stable offered linux-amd64, bundle of linux-arm64 before, which v5.0.0 leaves out: such machines "
        "find no update; publish v5.0.0 for them too\n"
    )
    assert publish("v5.0.0", f"linux-amd64={program}") == ""


@contextmanager
def served(place: Path, *flags: str) -> Iterator[str]:
    command = [
        sys.executable,
        "-m",
        "pilothouse",
        "updates",
        "serve",
        str(place / "channels"),
        "--listen",
        "127.0.0.1:0",
    ]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r".* is served at (http://127\.0\.0\.1:\d+)\n", line)
        assert found, line
        yield found[1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_debians_minisign_verifies_what_was_published(place: Path) -> None:
    payload = place / "channels" / "stable" / VERSION / "linux-amd64" / "k0s"
    key = place / "keys" / "minisign.pub"
    command = [str(tools.find("minisign")), "-V", "-p", str(key), "-m", str(payload)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert f"version:{VERSION}\tplatform:linux-amd64" in done.stdout


def test_a_channel_is_served_with_its_token(place: Path) -> None:
    (place / "token").write_text("s3cret\n")
    with served(place, "--token-file", str(place / "token")) as url:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{url}/stable/index.yaml", timeout=30)
        asked = urllib.request.Request(f"{url}/stable", headers={"Authorization": "Bearer s3cret"})
        with urllib.request.urlopen(asked, timeout=30) as answer:
            offer = json.load(answer)
    assert offer["version"] == VERSION
    assert offer["downloadURLs"]["k0s"]["linux-amd64"].startswith(f"{url}/stable/")


def test_metadata_is_signed_again_and_keys_are_replaced(place: Path) -> None:
    flags = ("--dir", str(place / "channels"), "--keys", str(place / "keys"))
    done = pilothouse("updates", "sign", "stable", *flags)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "signed again: snapshot, timestamp")
    root = pilothouse("updates", "root", "stable", "--dir", str(place / "channels"))
    assert json.loads(root.stdout)["signed"]["version"] == 1
    (place / "other").mkdir()
    other = place / "other"
    (other / "k0s").write_text("#!/bin/sh\n")
    assert pilothouse("updates", "key", str(other / "keys")).returncode == 0
    assert publish(other, VERSION).returncode == 0
    assert pilothouse("updates", "key", str(other / "new")).returncode == 0
    changed = (
        "--dir",
        str(other / "channels"),
        "--keys",
        str(other / "keys"),
        "--new-keys",
        str(other / "new"),
    )
    assert pilothouse("updates", "sign", "stable", *changed).returncode == 0
    root = pilothouse("updates", "root", "stable", "--dir", str(other / "channels"))
    assert json.loads(root.stdout)["signed"]["version"] == 2


def test_mistakes_are_said_in_one_line(place: Path, tmp_path: Path) -> None:
    serve = ("updates", "serve", str(place / "channels"))
    for done, said in (
        (publish(place, "v1.0.0"), "is newer than v1.0.0"),
        (publish(place, VERSION, "linux-amd64"), "write PLATFORM=FILE"),
        (publish(place, VERSION, "linux-amd64=/none"), "/none is not a file"),
        (pilothouse("updates", "key", str(place / "keys")), "has keys already"),
        (pilothouse("updates", "serve", str(tmp_path / "none")), "is not a folder"),
        (pilothouse(*serve, "--tls-cert-file", str(place / "k0s")), "go together"),
        (pilothouse(*serve, "--token-file", "/dev/null"), "has no token"),
        (pilothouse("updates", "root", "none", "--dir", str(place / "channels")), "has no channel 'none'"),
    ):
        assert done.returncode != 0
        assert said in done.stderr.splitlines()[-1]
