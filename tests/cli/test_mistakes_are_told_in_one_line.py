from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from tests.cli.running import Server, pilothouse


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--listen", "127.0.0.1"], "has no port"),
        (["--listen", "127.0.0.1:seventy"], "is not a port"),
        (["--listen", "::1:6443"], "[::1]:6443"),
        (["--store", "postgres"], "'postgres' is not one of"),
        (["--store", "etcd"], "--store etcd needs --etcd-servers"),
        (["--etcd-servers", "http://127.0.0.1:2379"], "--etcd-* flags go with --store etcd"),
        (["--store", "etcd", "--etcd-servers", "127.0.0.1:2379"], "is not a URL"),
        (["--compaction-interval", "soon"], "'soon' is not a duration"),
        (["--compaction-interval", "10ms"], "at least 1s"),
        (["--token-auth-file", "/nowhere/tokens.csv"], "does not exist"),
        (["--tls-cert-file", __file__], "go together"),
        (["--service-cluster-ip-range", "10.0.0.1/8"], "127.96.0.0/16"),
        (["--max-requests-inflight", "-1"], "-1 is not in the range"),
        (["--zork"], "--zork"),
    ],
)
def test_wrong_flags(flags: list[str], message: str, tmp_path: Path) -> None:
    done = pilothouse("apiserver", "--data", str(tmp_path / "data"), *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "data").exists()


def fails(*flags: str) -> str:
    done = pilothouse("apiserver", "--listen", "127.0.0.1:0", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_a_token_file_with_a_mistake(tmp_path: Path) -> None:
    (tmp_path / "tokens.csv").write_text("t1,alice,1\nt2,bob\n")
    said = fails("--data", str(tmp_path / "data"), "--token-auth-file", str(tmp_path / "tokens.csv"))
    assert "tokens.csv, line 2" in said


def test_a_data_folder_of_a_newer_program(tmp_path: Path) -> None:
    (tmp_path / "format").write_text("99\n")
    assert "data format 99" in fails("--data", str(tmp_path))


def test_a_folder_with_other_things_in_it(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    assert "thesis.tex" in fails("--data", str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    assert "is not a folder" in fails("--data", str(tmp_path / "data"))


@pytest.mark.parametrize(
    "command",
    [("up",), ("status",), ("down",), ("why", "pod/web-0"), ("image", "list"), ("token", "list"), ("leave",)],
)
@pytest.mark.parametrize("by_flag", [True, False])
def test_every_command_refuses_a_file_as_its_data_folder(
    tmp_path: Path, command: tuple[str, ...], by_flag: bool
) -> None:
    file = tmp_path / "data"
    file.write_text("not ours\n")
    if by_flag:
        done = pilothouse(*command, "--data", str(file))
    else:
        done = pilothouse(*command, PILOTHOUSE_DATA=str(file))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"the data folder {file} is not a folder but a file; give --data a folder such as /" in line
    assert file.read_text() == "not ours\n"


def test_a_data_folder_in_use(tmp_path: Path) -> None:
    with Server(tmp_path / "data") as server:
        assert str(server.process.pid) in fails("--data", str(tmp_path / "data"))


def test_a_port_in_use(tmp_path: Path) -> None:
    with Server(tmp_path / "one", "--store", "memory") as server:
        said = fails("--data", str(tmp_path / "two"), "--listen", server.url.removeprefix("https://"))
    assert "can't listen on 127.0.0.1" in said


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "tls").write_text("garbage")
    said = fails(
        "--data",
        str(tmp_path / "data"),
        "--tls-cert-file",
        str(tmp_path / "tls"),
        "--tls-private-key-file",
        str(tmp_path / "tls"),
    )
    assert f"{tmp_path / 'tls'} is not a PEM certificate" in said


def test_a_key_that_is_none_or_anothers(tmp_path: Path) -> None:
    made = trustme.CA().issue_cert("localhost")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    made.cert_chain_pems[0].write_to_path(str(certificate))
    files = ("--tls-cert-file", str(certificate), "--tls-private-key-file", str(key))
    key.write_text("garbage")
    assert f"{key} is not a PEM key" in fails("--data", str(tmp_path / "data"), *files)
    trustme.CA().private_key_pem.write_to_path(str(key))
    assert f"{key} is not the key of {certificate}" in fails("--data", str(tmp_path / "data"), *files)


def test_a_client_authority_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("garbage")
    said = fails("--data", str(tmp_path / "data"), "--client-ca-file", str(tmp_path / "ca"))
    assert f"--client-ca-file {tmp_path / 'ca'} is not a PEM certificate" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing", "does not exist; create it, or mount its disk"), ("file", "is not a folder")],
)
def test_a_tier_that_is_not_there(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    done = pilothouse("up", "--data", str(tmp_path / "data"), "--tier", f"fast={tmp_path / name}")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"the folder of fast, {tmp_path / name}, {said}" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("opt", "the path must be absolute"),
        ("/no/such/folder", "no such file or folder"),
        ("/", "every container has its own"),
        ("/etc/../etc", "every container has its own"),
        ("/proc/self", "these are never shown to all containers"),
        ("{tmp}/data/pki", "it would show the node's own folders"),
        ("{tmp}", "it would show the node's own folders"),
        ("{tmp}/link", "it would show the node's own folders"),
    ],
)
def test_a_path_that_not_all_containers_may_see(tmp_path: Path, path: str, said: str) -> None:
    (tmp_path / "data/pki").mkdir(parents=True)
    (tmp_path / "link").symlink_to("data")
    path = path.format(tmp=tmp_path)
    done = pilothouse("up", "--data", str(tmp_path / "data"), "--expose-path", path)
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert f"--expose-path {path}: {said}" in line


@pytest.mark.parametrize("ids", ["100000", "1:65536", "1879048192:65535", "4294910000:65536", "a:b"])
def test_ids_that_pods_can_not_have(tmp_path: Path, ids: str) -> None:
    done = pilothouse("up", "--data", str(tmp_path / "data"), "--user-namespace-ids", ids)
    assert (done.returncode, done.stdout) == (2, "")
    assert repr(ids) in done.stderr.splitlines()[-1]


def test_a_command_that_is_suggested_stays_in_one_line(tmp_path: Path) -> None:
    data = tmp_path / ("long " * 20).strip()
    done = pilothouse("status", "--data", str(data))
    assert (done.returncode, done.stdout) == (
        1,
        f"nothing is running on {data}; `pilothouse up --data {data}` starts it\n",
    )
