from __future__ import annotations

import datetime
import json
import os
import random
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.join.conftest import Plane
from tests.cli.running import pilothouse

from pilothouse.api.kind_names import Node
from pilothouse.base.clock import ManualClock, SystemClock
from pilothouse.client.api import Api
from pilothouse.client.http_transport import HttpTransport
from pilothouse.client.join_token import JoinToken, JoinTokenError
from pilothouse.client.kubeconfig import load
from pilothouse.meta.errors import StatusError
from pilothouse.node.machine.certificate_renewal import NodeCertificateRenewal
from pilothouse.node.machine.node_credentials import NodeCredentials
from pilothouse.pki.authority import Authority
from pilothouse.pki.certificate_info import certificates_in

DAY = 86400.0


def joined(token: str, data: Path, name: str) -> tuple[int, str, str]:
    done = pilothouse("join", token, "--data", str(data), "--name", name, "--no-run")
    return done.returncode, done.stdout, done.stderr


async def test_it_gets_a_certificate_of_its_own(plane: Plane, tmp_path: Path) -> None:
    code, out, err = joined(plane.token(), tmp_path / "data", "m1")
    assert code == 0, err
    assert f"pilothouse node --data {tmp_path / 'data'}" in out
    identity = NodeCredentials(tmp_path / "data")
    [certificate] = certificates_in(identity.credential_file.read_bytes())
    assert certificate.subject == "CN=system:node:m1,O=system:nodes"
    assert stat.S_IMODE(identity.credential_file.stat().st_mode) == 0o600
    async with HttpTransport.open(load(identity.kubeconfig_file), SystemClock(), agent="test") as transport:
        api = Api(transport, random.Random(), manager="test")
        made = await api.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m1"}})
        assert made.name == "m1"
        with pytest.raises(StatusError, match="itself only"):
            await api.patch(Node, "another", "", {"spec": {"unschedulable": True}})


def test_a_second_machine_needs_a_token_of_its_own(plane: Plane, tmp_path: Path) -> None:
    token = plane.token("--description", "for m2")
    assert joined(token, tmp_path / "a", "m2")[0] == 0
    code, _, err = joined(token, tmp_path / "b", "m3")
    assert code == 1
    assert "a token is valid for one request" in err
    assert not (tmp_path / "b" / "node.kubeconfig").exists()
    listed = pilothouse("token", "list", "--kubeconfig", str(plane.kubeconfig)).stdout
    [line] = [each for each in listed.splitlines() if each.endswith("for m2")]
    assert line.split()[1] == "used"
    assert "node-csr-m2-" in line


def test_a_token_for_one_node_lets_no_other_join(plane: Plane, tmp_path: Path) -> None:
    token = plane.token("--node", "m11", "--description", "for m11 alone")
    code, _, err = joined(token, tmp_path / "a", "m12")
    assert code == 1
    assert "the bootstrap token is for the node m11; join with --name m11" in err
    assert joined(token, tmp_path / "b", "m11")[0] == 0
    listed = pilothouse("token", "list", "--kubeconfig", str(plane.kubeconfig)).stdout
    [line] = [each for each in listed.splitlines() if each.endswith("for m11 alone")]
    assert line.split()[1] == "used"


def test_a_token_for_a_node_replaces_a_machine_that_joined_and_never_registered(
    plane: Plane, tmp_path: Path
) -> None:
    """Any other token would wait for a person; that is shown with the controller."""
    assert joined(plane.token(), tmp_path / "a", "m13")[0] == 0
    assert joined(plane.token("--node", "m13"), tmp_path / "b", "m13")[0] == 0


@pytest.mark.parametrize("name", ["*", "a..b", "A", "a."])
def test_a_token_is_for_no_name_that_no_node_can_have(plane: Plane, name: str) -> None:
    done = pilothouse("token", "create", "--kubeconfig", str(plane.kubeconfig), "--node", name)
    assert done.returncode == 2
    assert "is no name for a node" in done.stderr


def test_a_token_that_was_revoked_lets_no_machine_join(plane: Plane, tmp_path: Path) -> None:
    token = plane.token()
    identifier = JoinToken.parse(token).bearer[:6]
    done = pilothouse("token", "delete", identifier, "--kubeconfig", str(plane.kubeconfig))
    assert done.stdout == f"token {identifier} revoked\n"
    code, _, err = joined(token, tmp_path / "data", "m4")
    assert code == 1
    assert f"rejects the token {identifier}: it has expired, was revoked, or is misspelled" in err
    assert str(JoinToken.parse(token).bearer) not in err
    assert "to join as node m4 …" in err


def test_the_token_is_shown_to_the_right_server_only(plane: Plane, tmp_path: Path) -> None:
    right = JoinToken.parse(plane.token())
    wrong = JoinToken(right.url, right.bearer, ("0" * 64,))
    code, _, err = joined(str(wrong), tmp_path / "data", "m5")
    assert code == 1
    assert "is not the one that the token is for" in err
    assert right.pins[0] in err


async def test_the_certificate_is_renewed_with_itself(plane: Plane, tmp_path: Path) -> None:
    assert joined(plane.token(), tmp_path / "data", "m6")[0] == 0
    identity = NodeCredentials(tmp_path / "data")
    before = identity.credential_file.read_bytes()
    clock = ManualClock(SystemClock().now())
    async with HttpTransport.open(load(identity.kubeconfig_file), SystemClock(), agent="test") as transport:
        renewing = NodeCertificateRenewal(
            Api(transport, random.Random(), manager="test"), "m6", identity, clock
        )
        assert not await renewing.look()
        clock.advance(300 * DAY)
        assert await renewing.look()
        after = identity.credential_file.read_bytes()
        assert before != after
        # With the new one, by the same client.
        assert await Api(transport, random.Random(), manager="test").find(Node, "m6") is None


async def test_an_authority_that_is_gone_is_trusted_no_longer(plane: Plane, tmp_path: Path) -> None:
    assert joined(plane.token(), tmp_path / "data", "m7")[0] == 0
    identity = NodeCredentials(tmp_path / "data")
    trusted = identity.authorities_file.read_bytes()
    # As after an exchange of the authority that was finished while this machine was away.
    stranger = Authority.make("stranger", datetime.datetime.now(datetime.UTC))
    identity.write_authorities(trusted + stranger.certificate)
    async with HttpTransport.open(load(identity.kubeconfig_file), SystemClock(), agent="test") as transport:
        renewing = NodeCertificateRenewal(
            Api(transport, random.Random(), manager="test"), "m7", identity, ManualClock(SystemClock().now())
        )
        await renewing.look()
    assert identity.authorities_file.read_bytes() == trusted


def test_a_machine_that_has_joined_does_not_join_again_by_mistake(plane: Plane, tmp_path: Path) -> None:
    assert joined(plane.token(), tmp_path / "data", "m8")[0] == 0
    before = (tmp_path / "data" / "node.kubeconfig").read_text()
    code, _, err = joined(plane.token(), tmp_path / "data", "m9")
    assert code == 1
    assert "this machine is a node" in err
    assert (tmp_path / "data" / "node.kubeconfig").read_text() == before
    assert json.loads(before)["current-context"] == "system:node:m8"


def test_a_token_may_name_several_servers(plane: Plane, tmp_path: Path) -> None:
    right = JoinToken.parse(plane.token())
    # Nobody listens at the first: a port that was free a moment ago.
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        gone = f"https://127.0.0.1:{place.getsockname()[1]}"
    text = plane.token("--server", gone, "--server", right.url)
    assert JoinToken.parse(text).urls == (gone, right.url)
    assert str(JoinToken.parse(text)) == text
    code, _, err = joined(text, tmp_path / "data", "m10")
    assert code == 0, err
    assert load(tmp_path / "data" / "node.kubeconfig").urls == (gone, right.url)


def test_an_address_without_a_port_is_told_so(plane: Plane) -> None:
    flags = ("--kubeconfig", str(plane.kubeconfig), "--server", "https://10.0.0.5")
    done = pilothouse("token", "create", *flags)
    assert done.returncode == 2
    assert "--server https://10.0.0.5: write it as https://HOST:PORT" in done.stderr


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a token"),
        ("abcdef.0123456789abcdef", "a bootstrap token alone"),
        ("https://10.0.0.5:6443", "not a token"),
        ("pilothouse://abcdef.0123456789abcdef@10.0.0.5/sha256:" + "0" * 64, "not a token"),
        ("pilothouse://abcdef.0123456789abcdef@10.0.0.5:6443/sha256:" + "0" * 60, "was its end cut off"),
        ("pilothouse://abcdef.0123456789abcdef@10.0.0.5:6443,10.0.0.6/sha256:" + "0" * 64, "not a token"),
        ("pilothouse://abcdef.0123456789abcdef@10.0.0.5:99999/sha256:" + "0" * 64, "not a token"),
    ],
)
def test_what_is_no_token_is_told_without_repeating_a_secret(text: str, why: str) -> None:
    with pytest.raises(JoinTokenError, match=why) as problem:
        JoinToken.parse(text)
    assert "0123456789abcdef" not in str(problem.value)


@pytest.mark.parametrize(
    "url", ["https://10.0.0.5:6443", "https://[fd00::1]:6443", "https://plane.example:443"]
)
def test_a_token_is_one_word(url: str) -> None:
    token = JoinToken(url, "abcdef.0123456789abcdef", ("0" * 64,))
    assert JoinToken.parse(str(token)) == token
    assert " " not in str(token)


@pytest.mark.parametrize("way", ["standard input", "a file", "a file on standard input", "the environment"])
def test_the_token_need_not_be_where_other_users_see_it(plane: Plane, tmp_path: Path, way: str) -> None:
    token, name = plane.token(), f"quiet-{way.replace(' ', '-')}"
    file = tmp_path / "token"
    file.write_text(f"{token}\n")
    words = {
        "standard input": ["-"],
        "a file": ["--token-file", str(file)],
        "a file on standard input": ["--token-file", "-"],
    }
    environment = {"PILOTHOUSE_TOKEN": token} if way == "the environment" else {}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pilothouse",
            "join",
            *words.get(way, []),
            "--data",
            str(tmp_path / "data"),
            "--name",
            name,
            "--no-run",
        ],
        input=token + "\n" if "standard input" in way else "",
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "other users" not in done.stderr
    assert (tmp_path / "data" / "node.kubeconfig").exists()


def test_a_token_on_the_command_line_works_and_is_said_to_be_seen(plane: Plane, tmp_path: Path) -> None:
    code, _, err = joined(plane.token(), tmp_path / "data", "loud")
    assert code == 0
    assert "other users of this machine can see TOKEN" in err
    assert "--token-file" in err


def test_without_a_token_or_with_two_it_says_where_one_goes(tmp_path: Path) -> None:
    for words, why in (
        ([], "there is no token: give TOKEN, --token-file FILE"),
        (["x", "--token-file", "y"], "give TOKEN or --token-file, not both"),
        (["--token-file", str(tmp_path / "none")], "can't be read: No such file or directory"),
    ):
        done = pilothouse("join", *words, "--data", str(tmp_path / "data"))
        assert done.returncode != 0
        assert why in done.stderr


def test_a_token_for_any_name_is_said_to_be_one(plane: Plane) -> None:
    words = ("token", "create", "--kubeconfig", str(plane.kubeconfig))
    assert "is valid for a node of any free name; with --node NAME" in pilothouse(*words).stderr
    assert "any free name" not in pilothouse(*words, "--node", "db-3").stderr


def test_what_a_machine_keeps_is_its_own_whatever_the_umask(plane: Plane, tmp_path: Path) -> None:
    data = tmp_path / "data"
    words = ["join", "--token-file", "-", "--data", str(data), "--name", "open", "--no-run"]
    done = subprocess.run(
        [sys.executable, "-m", "pilothouse", *words],
        input=plane.token(),
        umask=0,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    open_to_others = [each for each in (data, *data.rglob("*")) if each.stat().st_mode & 0o077]
    assert open_to_others == []
