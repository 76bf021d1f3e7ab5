"""What a publication writes, and what it refuses."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import msgspec
import pytest
from tests.kit.publisher import Publisher

from pilothouse.api.k0s.payloads import DownloadFailed, Payload
from pilothouse.pki.minisign import PublicKey, verify_file
from pilothouse.updates import publishing
from pilothouse.updates.payload_trust import PayloadTrust
from pilothouse.updates.publishing import publish, read_channel
from pilothouse.updates.publishing_keys import PAYLOAD_PUBLIC_KEY, PublishError, PublishingKeys
from pilothouse.updates.trusted_comments import parse_trusted_comment, trusted_comment
from pilothouse.updates.tuf_repository import TufRepository

OLD, NEW = "v1.2.3+k0s.0", "v1.2.4+k0s.0"


@pytest.fixture
def publisher(tmp_path: Path) -> Publisher:
    return Publisher(tmp_path)


def test_a_payload_is_signed_for_its_version_and_platform(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    signature = published.path.with_name("program.minisig").read_text()
    key = PublicKey.parse((publisher.keys.folder / PAYLOAD_PUBLIC_KEY).read_text())
    fields = parse_trusted_comment(verify_file(published.path, signature, [key]))
    assert (fields["version"], fields["platform"], fields["file"]) == (NEW, "linux-amd64", "program")


def test_the_index_names_payloads_relative_to_itself(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    (download,) = read_channel(publisher.folder / "stable").downloads
    assert download.k0s is not None
    assert download.k0s.url.endswith("/v1.2.4%2Bk0s.0/linux-amd64/program")
    assert download.k0s.sha256 == published.sha256


def test_with_an_address_the_index_names_it(publisher: Publisher) -> None:
    files = {"linux-amd64": publisher.payload(NEW)}
    url = "https://updates.example.com/"
    publish(publisher.folder, "a/b", NEW, files, publisher.keys, publisher.now, url=url)
    text = (publisher.folder / "a/b/index.yaml").read_text()
    assert '"https://updates.example.com/a/b/v1.2.4%2Bk0s.0/linux-amd64/program"' in text


def test_platforms_and_bundles_of_a_version_come_together(publisher: Publisher) -> None:
    publisher.publish(NEW)
    bundles = {"linux-amd64": publisher.payload(NEW, "bundle.tar")}
    files = {"linux-arm64": publisher.payload(NEW)}
    publish(publisher.folder, "stable", NEW, files, publisher.keys, publisher.now, bundles=bundles)
    amd64, arm64 = read_channel(publisher.folder / "stable").downloads
    assert amd64.k0s is not None
    assert amd64.airgap is not None
    assert arm64.k0s is not None
    assert arm64.airgap is None


def test_the_next_version_has_its_own_platforms(publisher: Publisher) -> None:
    publisher.publish(OLD, "linux-amd64", "linux-arm64")
    publisher.publish(NEW)
    offer = read_channel(publisher.folder / "stable")
    assert (offer.version, [one.platform for one in offer.downloads]) == (NEW, ["linux-amd64"])
    assert (publisher.folder / "stable" / OLD / "linux-arm64" / "program").exists()


def test_an_older_version_needs_a_word(publisher: Publisher) -> None:
    publisher.publish(NEW)
    with pytest.raises(PublishError, match="is newer than"):
        publisher.publish(OLD)
    publisher.publish(OLD, allow_older=True)
    assert read_channel(publisher.folder / "stable").version == OLD


def test_what_was_published_does_not_change(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    other = publisher.place / "other" / "program"
    other.parent.mkdir()
    other.write_text("something else")
    with pytest.raises(PublishError, match="published with other content"):
        publish(publisher.folder, "stable", NEW, {"linux-amd64": other}, publisher.keys, publisher.now)
    assert "echo" in published.path.read_text()
    publisher.publish(NEW)


def test_a_file_of_another_name_does_not_replace_what_was_published(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    other = publisher.payload(OLD, "program-1.2.4")
    with pytest.raises(PublishError, match="for linux-amd64 was published with other content"):
        publish(publisher.folder, "stable", NEW, {"linux-amd64": other}, publisher.keys, publisher.now)
    (download,) = read_channel(publisher.folder / "stable").downloads
    assert download.k0s is not None
    assert download.k0s.sha256 == published.sha256
    assert not published.path.with_name(other.name).exists()


def test_a_publication_that_ends_half_way_is_not_seen(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher.publish(OLD)
    before = (publisher.metadata / "timestamp.json").read_bytes()

    def fail(self: TufRepository, targets: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(TufRepository, "_commit", fail)
        with pytest.raises(PublishError, match="No space left on device"):
            publisher.publish(NEW)
    assert read_channel(publisher.folder / "stable").version == OLD
    assert (publisher.metadata / "timestamp.json").read_bytes() == before
    publisher.publish(NEW)
    assert read_channel(publisher.folder / "stable").version == NEW


@pytest.mark.parametrize(
    ("channel", "version", "platform", "said"),
    [
        ("../x", NEW, "linux-amd64", "not the name of a channel"),
        ("/x", NEW, "linux-amd64", "not the name of a channel"),
        (".x", NEW, "linux-amd64", "not the name of a channel"),
        ("a/metadata", NEW, "linux-amd64", "not the name of a channel"),
        ("stable", "latest", "linux-amd64", "not a version"),
        ("stable", "../1.2", "linux-amd64", "not a version"),
        ("stable", NEW, "linux", "not a platform"),
        ("stable", NEW, "../x-y", "not a platform"),
    ],
)
def test_bad_names_are_refused(
    publisher: Publisher, channel: str, version: str, platform: str, said: str
) -> None:
    files = {platform: publisher.payload(NEW)}
    with pytest.raises(PublishError, match=said):
        publish(publisher.folder, channel, version, files, publisher.keys, publisher.now)
    assert not publisher.folder.exists()


def test_files_that_are_none_are_refused(publisher: Publisher) -> None:
    for name, said in (("none", "is not a file"), (".hidden", "can't be"), ("x.minisig", "can't be")):
        path = publisher.place / name
        if name != "none":
            path.write_text("x")
        with pytest.raises(PublishError, match=said):
            publish(publisher.folder, "stable", NEW, {"linux-amd64": path}, publisher.keys, publisher.now)
    with pytest.raises(PublishError, match="at least one PLATFORM=FILE"):
        publish(publisher.folder, "stable", NEW, {}, publisher.keys, publisher.now)


def test_keys_are_private_and_are_made_once(publisher: Publisher) -> None:
    folder = publisher.keys.folder
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("*.[pk]e[my]")} == {0o600}
    with pytest.raises(PublishError, match="has keys already"):
        PublishingKeys.create(folder)


def test_the_root_key_may_be_kept_elsewhere(publisher: Publisher) -> None:
    publisher.publish(OLD)
    (publisher.keys.folder / "root.pem").unlink()
    publisher.publish(NEW)
    publisher.later(days=300)
    assert publisher.renew() == ["targets", "snapshot", "timestamp"]


def test_metadata_is_renewed_before_it_expires(publisher: Publisher) -> None:
    publisher.publish(OLD)
    publisher.later(days=1)
    assert publisher.renew() == ["snapshot", "timestamp"]
    publisher.later(days=200)
    assert publisher.renew() == ["root", "targets", "snapshot", "timestamp"]
    expiries = publishing.expiries(publisher.folder, "stable", publisher.keys, publisher.now)
    assert (expiries["timestamp"] - publisher.now).days in (6, 7)


def test_foreign_and_damaged_keys_are_refused(publisher: Publisher) -> None:
    publisher.publish(OLD)
    own = publisher.keys
    publisher.keys = PublishingKeys.create(publisher.place / "foreign")
    with pytest.raises(PublishError, match="is not the key that root metadata 1"):
        publisher.publish(NEW)
    publisher.keys = own
    (own.folder / "timestamp.pem").write_text("nonsense")
    with pytest.raises(PublishError, match="is not a private key"):
        publisher.publish(NEW)
    (own.folder / "minisign.key").unlink()
    with pytest.raises(PublishError, match="does not exist"):
        publisher.publish(NEW)


def test_a_channel_that_is_not_there_can_not_be_signed(publisher: Publisher) -> None:
    with pytest.raises(PublishError, match="publish to it first"):
        publisher.renew()


def test_comments_are_read_as_they_are_written() -> None:
    text = trusted_comment("v1", "linux-amd64", "a b:c", 7)
    fields = {"version": "v1", "platform": "linux-amd64", "timestamp": "7", "file": "a b:c"}
    assert parse_trusted_comment(text) == fields
    assert parse_trusted_comment("version:1\tversion:2\thashed") == {"version": "1"}


def test_machines_accept_what_was_published_and_nothing_in_its_place(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    signature = published.path.with_name("program.minisig").read_text()
    key = PublicKey.parse((publisher.keys.folder / PAYLOAD_PUBLIC_KEY).read_text())
    trust = PayloadTrust("signed", (key,))
    payload = Payload(url="https://x/program", version=NEW, platform="linux-amd64")
    trust.verify(published.path, signature, payload)
    for other in (
        msgspec.structs.replace(payload, version=OLD),
        msgspec.structs.replace(payload, platform="linux-arm64"),
    ):
        with pytest.raises(DownloadFailed, match="is for something else"):
            trust.verify(published.path, signature, other)


def test_new_keys_sign_the_payloads_that_were_published(publisher: Publisher) -> None:
    old, new = publisher.publish(OLD), publisher.publish(NEW)
    before = publisher.keys
    publisher.rotate()
    assert publisher.keys.folder != before.folder
    key = PublicKey.parse((publisher.keys.folder / PAYLOAD_PUBLIC_KEY).read_text())
    for version, (published,) in ((OLD, old), (NEW, new)):
        signature = published.path.with_name("program.minisig").read_text()
        fields = parse_trusted_comment(verify_file(published.path, signature, [key]))
        assert (fields["version"], fields["platform"]) == (version, "linux-amd64")


def test_new_keys_sign_nothing_that_was_exchanged(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    signature = published.path.with_name("program.minisig")
    before = signature.read_text()
    published.path.write_bytes(b"exchanged")
    with pytest.raises(PublishError, match="program is not signed again"):
        publisher.rotate()
    assert signature.read_text() == before
    publisher.renew()


def test_a_change_of_keys_that_was_interrupted_is_repeated(publisher: Publisher) -> None:
    (published,) = publisher.publish(NEW)
    new = PublishingKeys.create(publisher.place / "new")
    before = shutil.copytree(publisher.metadata, publisher.place / "before")
    publishing.rotate(publisher.folder, "stable", publisher.keys, new, publisher.now)
    # As if only the payloads were signed.
    shutil.rmtree(publisher.metadata)
    before.rename(publisher.metadata)
    publishing.rotate(publisher.folder, "stable", publisher.keys, new, publisher.now)
    key = PublicKey.parse((new.folder / PAYLOAD_PUBLIC_KEY).read_text())
    verify_file(published.path, published.path.with_name("program.minisig").read_text(), [key])
    publisher.keys = new
    assert publisher.renew()
