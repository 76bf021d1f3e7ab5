from __future__ import annotations

import dataclasses
import hashlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.containers import needs_root
from tests.kit.payload_server import PayloadFile, PayloadServer, Redirect, Refusal

from pilothouse.api.k0s.payloads import DownloadFailed, FetchedPayload, Payload
from pilothouse.base.backoff import Backoff
from pilothouse.base.clock import SystemClock
from pilothouse.pki.minisign import SecretKey, sign_file
from pilothouse.updates.download_requests import DownloadHosts
from pilothouse.updates.downloads import Downloads, DownloadSettings
from pilothouse.updates.payload_trust import PayloadTrust

CONTENT = bytes(range(256)) * 4096
QUICK = DownloadSettings(tries=3, backoff=Backoff(first=0.01, factor=1.0, longest=0.01), stall=5.0)
COMMENT = "version:v2.0.0\tplatform:linux-amd64"


@pytest.fixture
def server() -> Iterator[PayloadServer]:
    with PayloadServer.running() as server:
        yield server


async def fetch(
    server: PayloadServer,
    folder: Path,
    settings: DownloadSettings = QUICK,
    *,
    path: str = "/k0s",
    sha256: str | None = None,
    **fields: object,
) -> FetchedPayload:
    digest = hashlib.sha256(CONTENT).hexdigest() if sha256 is None else sha256
    payload = Payload(server.url(path), "v2.0.0", "linux-amd64", digest, **fields)  # type: ignore[arg-type]
    return await Downloads(settings, SystemClock()).fetch(payload, folder / "target")


def left(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if not each.name.endswith((".crt", ".key")))


async def test_a_payload_is_downloaded(server: PayloadServer, tmp_path: Path) -> None:
    server.files["/k0s"] = PayloadFile(CONTENT)
    fetched = await fetch(server, tmp_path)
    assert fetched == FetchedPayload(hashlib.sha256(CONTENT).hexdigest(), "k0s")
    assert (tmp_path / "target").read_bytes() == CONTENT
    assert left(tmp_path) == ["target"]


async def test_a_download_that_is_cut_off_is_resumed(server: PayloadServer, tmp_path: Path) -> None:
    server.files["/k0s"] = PayloadFile(CONTENT, etag='"1"', cut_after=200_000, faults=4)
    await fetch(server, tmp_path)
    assert (tmp_path / "target").read_bytes() == CONTENT
    offsets = [each.headers.get("range") for each in server.seen]
    assert offsets[:2] == [None, "bytes=200000-"]
    # Each try has brought something new, so there were more than the limit.
    assert len(offsets) == 5


async def test_without_an_etag_a_download_starts_anew(server: PayloadServer, tmp_path: Path) -> None:
    server.files["/k0s"] = PayloadFile(CONTENT, cut_after=200_000, faults=1)
    await fetch(server, tmp_path)
    assert (tmp_path / "target").read_bytes() == CONTENT
    assert [each.headers.get("range") for each in server.seen] == [None, None]


async def test_a_file_that_changes_under_one_etag_is_downloaded_anew(
    server: PayloadServer, tmp_path: Path
) -> None:
    server.files["/k0s"] = PayloadFile(b"x" * len(CONTENT), etag='"1"', cut_after=1000)
    server.then["/k0s"] = PayloadFile(CONTENT, etag='"1"')
    await fetch(server, tmp_path)
    assert (tmp_path / "target").read_bytes() == CONTENT


async def test_what_came_before_a_kill_is_not_downloaded_again(server: PayloadServer, tmp_path: Path) -> None:
    (tmp_path / ".target.part").write_bytes(CONTENT[:5000])
    url = server.url("/k0s")
    (tmp_path / ".target.part.json").write_text(f'{{"url": "{url}", "etag": "\\"1\\""}}')
    server.files["/k0s"] = PayloadFile(CONTENT, etag='"1"')
    await fetch(server, tmp_path)
    assert [each.headers.get("range") for each in server.seen] == ["bytes=5000-"]
    assert (tmp_path / "target").read_bytes() == CONTENT


async def test_an_answer_of_the_server_that_may_pass_is_asked_for_again(
    server: PayloadServer, tmp_path: Path
) -> None:
    server.files["/k0s"] = Refusal(503)
    server.then["/k0s"] = PayloadFile(CONTENT)
    await fetch(server, tmp_path)
    assert len(server.seen) == 2


@pytest.mark.parametrize(
    ("file", "settings", "reason"),
    [
        (Refusal(404), QUICK, "status 404"),
        (Refusal(500), QUICK, "status 500 (tried 3 times)"),
        (PayloadFile(CONTENT, cut_after=0), QUICK, "cut off after 0 bytes"),
        (
            PayloadFile(CONTENT, stall_after=10),
            dataclasses.replace(QUICK, stall=0.1),
            "nothing came for 0.1 s",
        ),
        (PayloadFile(CONTENT, stall_after=10), dataclasses.replace(QUICK, total=0.2), "within 0.2 s"),
        (PayloadFile(CONTENT), dataclasses.replace(QUICK, most_bytes=1000), "more than 1000 bytes"),
        (
            PayloadFile(b"x" * 999, endless=True),
            dataclasses.replace(QUICK, most_bytes=10**6),
            "more than 1000000",
        ),
        (PayloadFile(b"other"), QUICK, "has the SHA-256"),
        (PayloadFile(CONTENT, disposition="a; filename*1*=b; filename*=c"), QUICK, "has no file name"),
        (Redirect("ftp://elsewhere/k0s"), QUICK, "is not an http or https URL"),
        (Redirect("/k0s"), QUICK, "redirects more than 10 times"),
    ],
)
async def test_what_can_not_be_downloaded_leaves_nothing(
    server: PayloadServer, tmp_path: Path, file: PayloadFile, settings: DownloadSettings, reason: str
) -> None:
    server.files["/k0s"] = file
    with pytest.raises(DownloadFailed) as failed:
        await fetch(server, tmp_path, settings)
    assert reason in str(failed.value)
    assert left(tmp_path) == []


async def test_a_redirect_to_another_path_is_followed(server: PayloadServer, tmp_path: Path) -> None:
    server.files |= {"/k0s": Redirect("/real+1"), "/real+1": PayloadFile(CONTENT)}
    assert (await fetch(server, tmp_path)).name == "k0s"
    assert [each.path for each in server.seen] == ["/k0s", "/real+1"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@needs_root
async def test_a_full_disk_is_named(server: PayloadServer, small_disk: Path) -> None:
    server.files["/k0s"] = PayloadFile(CONTENT)
    with pytest.raises(DownloadFailed, match=f"^the disk of {small_disk} is full$"):
        await fetch(server, small_disk)
    assert left(small_disk) == []


async def test_a_folder_that_is_none_is_named(server: PayloadServer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    server.files["/k0s"] = PayloadFile(CONTENT)
    with pytest.raises(DownloadFailed, match="Not a directory"):
        await fetch(server, tmp_path / "file")


@pytest.mark.parametrize("sha256", ["zz", "0" * 63, "g" * 64])
async def test_a_hash_that_is_none_is_refused_before_anything_is_asked_for_k0s_A14(
    server: PayloadServer, tmp_path: Path, sha256: str
) -> None:
    with pytest.raises(DownloadFailed, match="expected 64 hexadecimal digits"):
        await fetch(server, tmp_path, sha256=sha256)
    assert server.seen == []


async def test_a_hash_has_either_case_k0s_A14(server: PayloadServer, tmp_path: Path) -> None:
    server.files["/k0s"] = PayloadFile(CONTENT)
    await fetch(server, tmp_path, sha256=hashlib.sha256(CONTENT).hexdigest().upper())


async def test_a_machine_may_insist_on_hashes(server: PayloadServer, tmp_path: Path) -> None:
    settings = dataclasses.replace(QUICK, trust=PayloadTrust("digest"))
    with pytest.raises(DownloadFailed, match="no sha256 for linux-amd64"):
        await fetch(server, tmp_path, settings, sha256="")
    server.files["/k0s"] = PayloadFile(CONTENT)
    await fetch(server, tmp_path, settings)


@pytest.mark.parametrize(
    "url", ["http://a..b/k0s", "http://[::1/k0s", "http://x:99999/k0s", "http:///k0s", "k0s"]
)
async def test_a_url_that_is_none_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(DownloadFailed):
        await Downloads(QUICK, SystemClock()).fetch(
            Payload(url, "v2.0.0", "linux-amd64"), tmp_path / "target"
        )
    assert left(tmp_path) == []


async def test_credentials_in_a_url_are_refused(server: PayloadServer, tmp_path: Path) -> None:
    payload = Payload(f"http://user:secret@127.0.0.1:{server.port}/k0s", "v2.0.0", "linux-amd64")
    with pytest.raises(DownloadFailed, match="credentials in a URL are not used") as failed:
        await Downloads(QUICK, SystemClock()).fetch(payload, tmp_path / "target")
    assert str(failed.value).startswith(f"{server.url('/k0s')}: ")
    assert server.seen == []


async def test_authority_and_token_are_those_of_the_host_and_go_nowhere_else(tmp_path: Path) -> None:
    with (
        PayloadServer.running(tmp_path / "own") as own,
        PayloadServer.running(tmp_path / "other") as other,
    ):
        (tmp_path / "token").write_text("secret\n")
        hosts = DownloadHosts(
            {
                f"127.0.0.1:{own.port}": tmp_path / "own" / "ca.crt",
                f"127.0.0.1:{other.port}": tmp_path / "other" / "ca.crt",
            },
            {f"127.0.0.1:{own.port}": tmp_path / "token"},
        )
        own.files["/k0s"] = Redirect(other.url("/real"))
        other.files["/real"] = PayloadFile(CONTENT)
        folder = tmp_path / "folder"
        folder.mkdir()
        await fetch(own, folder, dataclasses.replace(QUICK, hosts=hosts))
        assert [each.headers.get("authorization") for each in own.seen] == ["Bearer secret"]
        assert [each.headers.get("authorization") for each in other.seen] == [None]


async def test_a_server_of_another_authority_is_not_trusted(tmp_path: Path) -> None:
    with PayloadServer.running(tmp_path / "own") as own:
        own.files["/k0s"] = PayloadFile(CONTENT)
        with pytest.raises(DownloadFailed, match="certificate verify failed"):
            await fetch(own, tmp_path)
        assert own.seen == []


async def test_a_redirect_to_a_weaker_scheme_is_not_followed(server: PayloadServer, tmp_path: Path) -> None:
    with PayloadServer.running(tmp_path / "own") as own:
        hosts = DownloadHosts({"127.0.0.1": tmp_path / "own" / "ca.crt"})
        server.files["/k0s"] = PayloadFile(CONTENT)
        own.files["/k0s"] = Redirect(server.url("/k0s"))
        with pytest.raises(DownloadFailed, match="redirects from https to http"):
            await fetch(own, tmp_path, dataclasses.replace(QUICK, hosts=hosts))
        assert server.seen == []


async def test_the_reason_can_be_written_whatever_a_server_redirects_to(tmp_path: Path) -> None:
    with PayloadServer.running(tmp_path / "own") as own:
        hosts = DownloadHosts({"127.0.0.1": tmp_path / "own" / "ca.crt"})
        own.files["/k0s"] = Redirect("http://elsewhere/\xff")
        with pytest.raises(DownloadFailed, match="redirects from https to http") as failed:
            await fetch(own, tmp_path, dataclasses.replace(QUICK, hosts=hosts))
        assert rb"\udcff" in str(failed.value).encode()


def test_a_reason_has_a_bound() -> None:
    assert str(DownloadFailed("\udcff" * 100_000)) == r"\udcff" * 341 + r"\u"


async def test_a_token_is_not_sent_in_the_clear(server: PayloadServer, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    server.files["/k0s"] = PayloadFile(CONTENT)
    await fetch(
        server,
        tmp_path,
        dataclasses.replace(QUICK, hosts=DownloadHosts({}, {"127.0.0.1": tmp_path / "token"})),
    )
    assert "authorization" not in server.seen[0].headers


class TestSigned:
    key = SecretKey.generate()
    settings = dataclasses.replace(QUICK, trust=PayloadTrust("signed", (key.public(),)))

    def sign(
        self, server: PayloadServer, folder: Path, comment: str = COMMENT, key: SecretKey | None = None
    ) -> None:
        file = folder / "signed"
        file.write_bytes(CONTENT)
        signature = sign_file(file, key or self.key, trusted_comment=comment)
        file.unlink()
        server.files |= {"/k0s": PayloadFile(CONTENT), "/k0s.minisig": PayloadFile(signature.encode())}

    async def test_a_signed_payload_needs_no_hash(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path)
        await fetch(server, tmp_path, self.settings, sha256="")
        assert (tmp_path / "target").read_bytes() == CONTENT

    async def test_a_payload_without_a_signature_is_refused(
        self, server: PayloadServer, tmp_path: Path
    ) -> None:
        server.files["/k0s"] = PayloadFile(CONTENT)
        with pytest.raises(DownloadFailed, match=r"no signature at .*/k0s\.minisig: .* status 404"):
            await fetch(server, tmp_path, self.settings)
        assert left(tmp_path) == []

    async def test_a_signature_at_a_host_that_is_none_is_refused(
        self, server: PayloadServer, tmp_path: Path
    ) -> None:
        self.sign(server, tmp_path)
        server.files["/k0s.minisig"] = Redirect("http://a..b/")
        with pytest.raises(DownloadFailed, match=r"no signature at .*/k0s\.minisig: "):
            await fetch(server, tmp_path, self.settings)
        assert left(tmp_path) == []

    async def test_the_name_is_that_of_the_url(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path)
        server.files["/k0s"] = PayloadFile(CONTENT, disposition='attachment; filename="other"')
        assert (await fetch(server, tmp_path, self.settings)).name == "k0s"
        assert (await fetch(server, tmp_path)).name == "other"

    async def test_a_payload_that_was_changed_is_refused(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path)
        server.files["/k0s"] = PayloadFile(CONTENT + b"!")
        with pytest.raises(DownloadFailed, match="not the one that was signed"):
            await fetch(server, tmp_path, self.settings, sha256="")

    async def test_a_signature_by_another_key_is_refused(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path, key=SecretKey.generate())
        with pytest.raises(DownloadFailed, match="which is not trusted here"):
            await fetch(server, tmp_path, self.settings)

    @pytest.mark.parametrize(
        ("comment", "missing"),
        [
            ("version:v1.9.0 platform:linux-amd64", "version:v2.0.0"),
            ("version:v2.0.0 platform:linux-arm64", "platform:linux-amd64"),
            ("version:v2.0.01 platform:linux-amd64x", "version:v2.0.0 and platform:linux-amd64"),
            ("version:v1.0.0 platform:linux-amd64 timestamp:v2.0.0", "version:v2.0.0"),
            ("note:v2.0.0 file:linux-amd64", "version:v2.0.0 and platform:linux-amd64"),
        ],
    )
    async def test_a_signature_for_something_else_is_refused(
        self, server: PayloadServer, tmp_path: Path, comment: str, missing: str
    ) -> None:
        self.sign(server, tmp_path, comment)
        with pytest.raises(DownloadFailed, match=f"does not name {missing}$"):
            await fetch(server, tmp_path, self.settings)

    async def test_an_older_version_needs_force(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path)
        with pytest.raises(
            DownloadFailed,
            match=r"^v2\.0\.0 is older than v2\.1\.0, which runs; forceupdate installs it$",
        ):
            await fetch(server, tmp_path, self.settings, running="v2.1.0", replaces=True)
        assert server.seen == []
        await fetch(server, tmp_path, self.settings, running="v2.1.0", forced=True)

    @pytest.mark.parametrize("running", ["", "a build of today"])
    async def test_if_no_version_is_reported_the_last_known_one_counts(
        self, server: PayloadServer, tmp_path: Path, running: str
    ) -> None:
        self.sign(server, tmp_path)
        with pytest.raises(DownloadFailed, match=r"is older than v2\.1\.0, which this machine had last$"):
            await fetch(server, tmp_path, self.settings, running=running, recorded="v2.1.0")
        with pytest.raises(DownloadFailed, match=r"installed is not known, .*; forceupdate installs it$"):
            await fetch(server, tmp_path, self.settings, running=running, replaces=True)
        assert server.seen == []
        await fetch(server, tmp_path, self.settings, running=running, recorded="v2.0.0", replaces=True)
        await fetch(server, tmp_path, self.settings, running=running, replaces=True, forced=True)

    async def test_a_first_installation_needs_no_force(self, server: PayloadServer, tmp_path: Path) -> None:
        self.sign(server, tmp_path)
        await fetch(server, tmp_path, self.settings)
        assert (tmp_path / "target").read_bytes() == CONTENT
