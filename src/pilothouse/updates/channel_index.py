"""What an update channel offers, read from its YAML.

    offer = parse_offer(body, "https://updates.example.com/stable/index.yaml")
    offer.version                  # "v1.32.4+k0s.0"
    offer.downloads[0].k0s.url     # https://…

Servers answer in one of two forms: ``downloadURLs`` is a list of platforms with hashes (``index.yaml``), or a
map of URLs by platform. Keys are matched in any case. A URL may be relative to the address of the index. What
a Plan would not accept, an offer does not have: a bad URL, hash, platform or version is a ``BadIndex``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urljoin

import msgspec
import yaml

from pilothouse.api.k0s.plan_validation import check_url
from pilothouse.api.k0s.release_versions import release_order
from pilothouse.api.k0s.v1beta2 import OfferedDownload, PlatformResource
from pilothouse.meta.fields import FORBIDDEN

LONGEST_INDEX: Final = 1 << 20
MOST_PLATFORMS: Final = 64
_DEEPEST: Final = 16

_PLATFORM: Final = re.compile(r"[a-z0-9]+-[a-z0-9_]+")
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")


class BadIndex(ValueError):
    """What a channel answered is not an offer; says what is wrong."""


class ChannelOffer(msgspec.Struct, frozen=True):
    """A version, and where each platform gets it."""

    version: str
    downloads: tuple[OfferedDownload, ...]


def parse_offer(body: bytes, url: str) -> ChannelOffer:
    """The offer in an answer from this address. Raises BadIndex."""
    if len(body) > LONGEST_INDEX:
        raise BadIndex(f"the index has more than {LONGEST_INDEX} bytes")
    index = _folded(_loaded(body), "the index")
    version = index.get("version")
    if not isinstance(version, str) or not version.strip():
        raise BadIndex("the index names no version")
    try:
        release_order(version)
    except ValueError as error:
        raise BadIndex(f"the index names a version that is none: {error}") from None
    listed = index.get("downloadurls")
    if isinstance(listed, list):
        found = list(_of_list(listed, url))
    elif isinstance(listed, Mapping):
        found = list(_of_map(listed, url))
    else:
        raise BadIndex("the index has no downloadURLs: expected a list of platforms, or a map of URLs")
    platforms = [download.platform for download in found]
    if len(set(platforms)) < len(platforms):
        raise BadIndex("the index names a platform twice")
    return ChannelOffer(version, tuple(sorted(found, key=lambda download: download.platform)))


def _loaded(body: bytes) -> Any:
    try:
        _check_depth(body)
        # Every scalar stays text: a version 1.30 is not the number 1.3.
        return yaml.load(body, Loader=yaml.CBaseLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise BadIndex(f"the index is not YAML: {' '.join(str(error).split())[:200]}") from None


def _check_depth(body: bytes) -> None:
    """Refuses what would exhaust the stack of the loader, which is written in C and recurses."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CBaseLoader):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise ValueError(f"it is nested more than {_DEEPEST} deep")


def _folded(value: Any, noun: str) -> dict[str, Any]:
    """A mapping with its keys in lower case."""
    if not isinstance(value, Mapping):
        raise BadIndex(f"{noun} is not a mapping")
    return {str(key).lower(): each for key, each in value.items()}


def _of_list(listed: list[Any], url: str) -> Iterator[OfferedDownload]:
    _check_count(len(listed))
    for number, each in enumerate(listed):
        entry = _folded(each, f"downloadURLs[{number}]")
        platform = f"{_text(entry, 'os')}-{_text(entry, 'arch')}"
        yield OfferedDownload(
            platform=_checked_platform(platform),
            k0s=_resource(_text(entry, "k0s"), _text(entry, "k0ssha256"), platform, url),
            airgap=_resource(_text(entry, "airgapbundle"), _text(entry, "airgapsha256"), platform, url),
        )


def _of_map(listed: Mapping[str, Any], url: str) -> Iterator[OfferedDownload]:
    entries = _folded(listed, "downloadURLs")
    programs = _folded(entries.get("k0s") or {}, "downloadURLs.k0s")
    bundles = _folded(entries.get("airgap") or {}, "downloadURLs.airgap")
    _check_count(len(programs | bundles))
    for platform in programs | bundles:
        yield OfferedDownload(
            platform=_checked_platform(platform),
            k0s=_resource(_text(programs, platform), "", platform, url),
            airgap=_resource(_text(bundles, platform), "", platform, url),
        )


def _check_count(count: int) -> None:
    if count > MOST_PLATFORMS:
        raise BadIndex(f"the index names {count} platforms, more than {MOST_PLATFORMS}")


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadIndex(f"{key} of the index is not text")
    return value.strip()


def _checked_platform(platform: str) -> str:
    if not _PLATFORM.fullmatch(platform):
        raise BadIndex(f"{platform!r} is not a platform: expected os and arch, such as linux-amd64")
    return platform


def _resource(location: str, sha256: str, platform: str, base: str) -> PlatformResource | None:
    if not location:
        return None
    try:
        url = urljoin(base, location)
    except ValueError as error:
        raise BadIndex(f"the URL {location!r} of {platform} can't be used: {error}") from None
    for problem in check_url(url, "url"):
        if problem.reason == FORBIDDEN:
            # The URL has a secret in it.
            raise BadIndex(f"the URL of {platform} can't be used: {problem.detail}")
        raise BadIndex(f"the URL {location!r} of {platform} can't be used: {problem.detail}")
    if sha256 and not _SHA256.fullmatch(sha256):
        raise BadIndex(f"the hash {sha256!r} of {platform} is not a SHA-256: expected 64 hexadecimal digits")
    return PlatformResource(url=url, sha256=sha256.lower() or None)
