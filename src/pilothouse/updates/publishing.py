"""Publishes versions to channels in a folder, which ``update_server`` or any web server serves.

    publish(folder, "stable", "v1.2.3", {"linux-amd64": Path("k0s")}, keys, now)

    stable/index.yaml                                 what k0s and we ask for
    stable/v1.2.3/linux-amd64/k0s, k0s.minisig        the payload and its signature
    stable/metadata/…                                 the channel as a TUF repository

Everything is written before it is named: payloads, signatures and metadata first, ``timestamp.json`` and
``index.yaml`` last, each in one step. A publication that is interrupted leaves files that nothing names.
Targets of TUF are also there under the names with their hash, as links.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from pilothouse.api.k0s.release_versions import newer, release_order
from pilothouse.api.k0s.v1beta2 import OfferedDownload, PlatformResource
from pilothouse.pki.minisign import SUFFIX, SecretKey, SignatureError, sign_file, verify_file
from pilothouse.updates.channel_index import BadIndex, ChannelOffer, parse_offer
from pilothouse.updates.publishing_keys import PublishError, PublishingKeys
from pilothouse.updates.trusted_comments import trusted_comment
from pilothouse.updates.tuf_repository import TufRepository, latest_root, write_file

INDEX: Final = "index.yaml"
METADATA: Final = "metadata"
_CHANNEL: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]*(/[0-9A-Za-z][0-9A-Za-z._-]*)*")
_PLATFORM: Final = re.compile(r"[a-z0-9]+-[a-z0-9_]+")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_~-]*")
_BASE: Final = "http://relative.invalid/"


class Published(msgspec.Struct, frozen=True):
    """A payload that was published."""

    platform: str
    path: Path
    sha256: str


def publish(
    folder: Path,
    channel: str,
    version: str,
    programs: Mapping[str, Path],
    keys: PublishingKeys,
    now: datetime,
    *,
    bundles: Mapping[str, Path] | None = None,
    url: str = "",
    allow_older: bool = False,
) -> list[Published]:
    """Publish a version: programs, and bundles of images, by platform.

    ``url`` is the address of the folder, for clients that take no relative addresses. Platforms that the
    channel has of the same version stay. Raises PublishError.
    """
    _check(channel, version, {**programs, **(bundles or {})})
    place = folder / channel
    try:
        place.mkdir(parents=True, exist_ok=True)
        with _locked(place):
            before = _current(place)
            if before is not None and newer(before.version, version) and not allow_older:
                raise PublishError(
                    f"{channel} offers {before.version}, which is newer than {version}; "
                    "--allow-older publishes it nevertheless"
                )
            return _publish(place, channel, version, programs, bundles or {}, keys, now, url, before)
    except OSError as problem:
        raise PublishError(f"{problem.filename or folder}: {problem.strerror or problem}") from None


def offered_payloads(folder: Path, channel: str) -> list[str]:
    """What a channel offers, for people: ``linux-amd64``, ``bundle of linux-amd64``. Raises PublishError."""
    try:
        offer = _current(folder / channel)
    except OSError as problem:
        raise PublishError(f"{problem.filename or folder}: {problem.strerror or problem}") from None
    downloads = offer.downloads if offer is not None else ()
    programs = [one.platform for one in downloads if one.k0s is not None]
    return [*programs, *(f"bundle of {one.platform}" for one in downloads if one.airgap is not None)]


def renew(folder: Path, channel: str, keys: PublishingKeys, now: datetime) -> list[str]:
    """Sign the metadata of a channel again; returns the roles. Raises PublishError."""
    with _channel(folder, channel) as place:
        return TufRepository(place / METADATA, keys, now).renew()


def rotate(folder: Path, channel: str, keys: PublishingKeys, new_keys: PublishingKeys, now: datetime) -> None:
    """Replace the keys of a channel, and the signatures of its payloads. Raises PublishError.

    The metadata comes last: with the old keys, what was interrupted can be repeated.
    """
    with _channel(folder, channel) as place:
        _sign_payloads(place, keys.payload_key(), new_keys.payload_key())
        TufRepository(place / METADATA, keys, now).rotate(new_keys)


def trusted_root(folder: Path, channel: str) -> str:
    """The latest root metadata of a channel, for ``spec.trustedRoot``. Raises PublishError."""
    with _channel(folder, channel) as place:
        return latest_root(place / METADATA).read_text()


def expiries(folder: Path, channel: str, keys: PublishingKeys, now: datetime) -> dict[str, datetime]:
    """When the metadata of a channel expires, by role. Raises PublishError."""
    with _channel(folder, channel) as place:
        return TufRepository(place / METADATA, keys, now).expiries()


def read_channel(place: Path) -> ChannelOffer:
    """What a channel in a folder offers, with addresses relative to it. Raises BadIndex or OSError."""
    return parse_offer((place / INDEX).read_bytes(), _BASE)


def _publish(
    place: Path,
    channel: str,
    version: str,
    programs: Mapping[str, Path],
    bundles: Mapping[str, Path],
    keys: PublishingKeys,
    now: datetime,
    url: str,
    before: ChannelOffer | None,
) -> list[Published]:
    secret = keys.payload_key()
    base = f"{url.rstrip('/')}/{quote(channel, safe='/')}/" if url else ""
    kept = before.downloads if before is not None and before.version == version else ()
    entries = {one.platform: one for one in kept}
    _refuse_other_content(channel, version, entries, programs, bundles)
    published = []
    for field, files in (("k0s", programs), ("airgap", bundles)):
        for platform, file in files.items():
            one = _add_payload(place, version, platform, file, secret, now)
            published.append(one)
            location = quote(str(one.path.relative_to(place)), safe="/")
            resource = PlatformResource(url=f"{base}{location}", sha256=one.sha256)
            entry = entries.get(platform) or OfferedDownload(platform=platform)
            entries[platform] = msgspec.structs.replace(entry, **{field: resource})
    index = _index(channel, version, entries.values())
    hashed = place / f"{hashlib.sha256(index).hexdigest()}.{INDEX}"
    write_file(hashed, index)
    (place / METADATA).mkdir(exist_ok=True)
    payloads = {
        str(path.relative_to(place)): path for path in (place / version).glob("*/*") if _is_payload(path)
    }
    TufRepository(place / METADATA, keys, now).publish({INDEX: hashed, **payloads})
    write_file(place / INDEX, index)
    return published


def _refuse_other_content(
    channel: str,
    version: str,
    entries: Mapping[str, OfferedDownload],
    programs: Mapping[str, Path],
    bundles: Mapping[str, Path],
) -> None:
    """What is offered stays, also if the other content comes in a file of another name."""
    for field, files in (("k0s", programs), ("airgap", bundles)):
        for platform, file in files.items():
            offered = getattr(entries.get(platform), field, None)
            if offered is not None and offered.sha256 != _sha256(file):
                raise PublishError(
                    f"{channel}: {version} for {platform} was published with other content; what was "
                    "published does not change, so publish another version"
                )


def _add_payload(
    place: Path, version: str, platform: str, file: Path, secret: SecretKey, now: datetime
) -> Published:
    target = place / version / platform / file.name
    target.parent.mkdir(parents=True, exist_ok=True)
    sha256 = _sha256(file)
    if target.exists():
        if _sha256(target) != sha256:
            raise PublishError(
                f"{target} was published with other content; what was published does not change, "
                "so publish another version"
            )
    else:
        new = target.parent / f".new-{os.getpid()}"
        try:
            shutil.copyfile(file, new)
            new.chmod(0o755)
            with new.open("rb") as copied:
                os.fsync(copied.fileno())
            if _sha256(new) != sha256:
                raise PublishError(f"{file} changed while it was published")
            new.rename(target)
        finally:
            new.unlink(missing_ok=True)
    linked = target.with_name(f"{sha256}.{target.name}")
    if not linked.exists():
        linked.hardlink_to(target)
    comment = trusted_comment(version, platform, target.name, int(now.timestamp()))
    signature = sign_file(target, secret, trusted_comment=comment)
    write_file(target.with_name(f"{target.name}{SUFFIX}"), signature.encode())
    return Published(platform, target, sha256)


def _sign_payloads(place: Path, old: SecretKey, new: SecretKey) -> None:
    """Sign the payloads of a channel with another key; those that the old one has not signed are refused."""
    keys = [old.public(), new.public()]
    signed = []
    for file in sorted(place.glob(f"*/*/*{SUFFIX}")):
        target = file.with_suffix("")
        if not _is_payload(target):
            continue
        try:
            comment = verify_file(target, file.read_text(), keys)
        except SignatureError as problem:
            raise PublishError(f"{target} is not signed again: {problem}") from None
        signed.append((file, sign_file(target, new, trusted_comment=comment)))
    for file, signature in signed:
        write_file(file, signature.encode())


def _is_payload(path: Path) -> bool:
    hashed = re.match(r"[0-9a-f]{64}\.", path.name)
    return path.is_file() and not path.name.startswith(".") and path.suffix != SUFFIX and not hashed


def _index(channel: str, version: str, entries: Iterable[OfferedDownload]) -> bytes:
    """As text of our own: k0s reads these keys, and JSON strings are YAML."""
    lines = [f"channel: {_quoted(channel)}", f"version: {_quoted(version)}", "downloadURLs:"]
    for one in sorted(entries, key=lambda each: each.platform):
        system, _, arch = one.platform.partition("-")
        lines += [f"- os: {_quoted(system)}", f"  arch: {_quoted(arch)}"]
        for resource, location, digest in (
            (one.k0s, "k0s", "k0sSha256"),
            (one.airgap, "airgapBundle", "airgapSha256"),
        ):
            if resource is not None:
                url = resource.url.removeprefix(_BASE)
                lines += [f"  {location}: {_quoted(url)}", f"  {digest}: {_quoted(resource.sha256 or '')}"]
    return ("\n".join(lines) + "\n").encode()


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _current(place: Path) -> ChannelOffer | None:
    try:
        return read_channel(place)
    except FileNotFoundError:
        return None
    except BadIndex as problem:
        raise PublishError(f"{place / INDEX}: {problem}") from None


def _check(channel: str, version: str, files: Mapping[str, Path]) -> None:
    if not _CHANNEL.fullmatch(channel) or METADATA in channel.split("/"):
        raise PublishError(f"{channel!r} is not the name of a channel, such as stable or stable/v1.32")
    try:
        release_order(version)
    except ValueError as problem:
        raise PublishError(str(problem)) from None
    if not _VERSION.fullmatch(version):
        raise PublishError(f"{version!r} can't be the version of a plan")
    if not files:
        raise PublishError("nothing to publish: name at least one PLATFORM=FILE")
    for platform, file in files.items():
        if not _PLATFORM.fullmatch(platform):
            raise PublishError(f"{platform!r} is not a platform: expected os and arch, such as linux-amd64")
        if not file.is_file():
            raise PublishError(f"{file} is not a file")
        if file.name.startswith(".") or file.name.endswith(SUFFIX):
            raise PublishError(f"{file.name} can't be the name of a payload")


@contextlib.contextmanager
def _channel(folder: Path, channel: str) -> Iterator[Path]:
    """The folder of a channel that exists, locked."""
    place = folder / channel
    if not _CHANNEL.fullmatch(channel) or not (place / METADATA).is_dir():
        raise PublishError(f"{folder} has no channel {channel!r}; publish to it first")
    try:
        with _locked(place):
            yield place
    except OSError as problem:
        raise PublishError(f"{problem.filename or place}: {problem.strerror or problem}") from None


@contextlib.contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One publisher at a time."""
    with (place / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
