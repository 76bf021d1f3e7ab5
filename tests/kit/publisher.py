"""A publisher of updates, with keys and a folder of its own.

publisher = Publisher(tmp_path)
publisher.publish("v1.2.3")             # to channel stable, for linux-amd64
publisher.root                          # for spec.trustedRoot
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from pilothouse.updates import publishing
from pilothouse.updates.publishing_keys import PublishingKeys


class Publisher:
    def __init__(self, place: Path, channel: str = "stable") -> None:
        self.place = place
        self.channel = channel
        self.folder = place / "served"
        self.keys = PublishingKeys.create(place / "keys")
        self.now = datetime.now(UTC)

    def payload(self, version: str, name: str = "program") -> Path:
        path = self.place / version / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\necho {version}\n")
        return path

    def publish(self, version: str, *platforms: str, allow_older: bool = False) -> list[publishing.Published]:
        files = {platform: self.payload(version) for platform in platforms or ("linux-amd64",)}
        return publishing.publish(
            self.folder, self.channel, version, files, self.keys, self.now, allow_older=allow_older
        )

    def renew(self) -> list[str]:
        return publishing.renew(self.folder, self.channel, self.keys, self.now)

    def rotate(self) -> None:
        new = PublishingKeys.create(self.place / f"keys-{len(list(self.place.glob('keys*')))}")
        publishing.rotate(self.folder, self.channel, self.keys, new, self.now)
        self.keys = new

    def later(self, **period: float) -> None:
        self.now += timedelta(**period)

    @property
    def root(self) -> str:
        return publishing.trusted_root(self.folder, self.channel)

    @property
    def metadata(self) -> Path:
        return self.folder / self.channel / "metadata"
