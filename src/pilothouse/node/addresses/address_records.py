"""The addresses of pods, recorded in a file, so that a pod keeps its address when the agent restarts.

    records = AddressRecords.read(folder / "addresses.json")
    records = records.with_entry(uid, AddressRecord(address="127.70.4.1", pod="default/db-0"))
    records.write(folder / "addresses.json")

It is written before an address is given out: a crash in between loses an address for a while, and never gives one out twice.
A file that can't be read stops the agent rather than having it give out addresses that are in use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from pilothouse.pki.private_files import write_private

RECORDS_FILE: Final = "addresses.json"
"""The file's name in the node's data folder."""


class AddressRecordsError(Exception):
    """The record of addresses can't be read."""


class HostPort(msgspec.Struct, frozen=True, array_like=True):
    """A port of the node that a pod has."""

    number: int
    protocol: str = "TCP"
    address: str = ""
    """Of the node; empty for all of them."""


class AddressRecord(msgspec.Struct, frozen=True):
    """What one pod has."""

    address: str
    pod: str
    """Namespace and name, for people."""
    ports: tuple[HostPort, ...] = ()
    """Ports of the node."""


class AddressRecords(msgspec.Struct, frozen=True):
    """What all pods of a node have."""

    network: str = ""
    """The range that addresses were last given out from."""
    last: str = ""
    """The address that was given out last."""
    entries: dict[str, AddressRecord] = {}
    """By the pod's uid."""

    @property
    def taken(self) -> frozenset[str]:
        return frozenset(entry.address for entry in self.entries.values())

    def with_entry(self, uid: str, entry: AddressRecord) -> AddressRecords:
        return msgspec.structs.replace(self, entries={**self.entries, uid: entry})

    def without(self, uid: str) -> AddressRecords:
        return msgspec.structs.replace(
            self, entries={key: entry for key, entry in self.entries.items() if key != uid}
        )

    @classmethod
    def read(cls, path: Path) -> AddressRecords:
        """What was written, or an empty one. Raises ``AddressRecordsError``."""
        try:
            return msgspec.json.decode(path.read_bytes(), type=cls)
        except FileNotFoundError:
            return cls()
        except (OSError, msgspec.DecodeError) as problem:
            raise AddressRecordsError(
                f"{path}: can't read which pod has which address: {problem}; "
                "stop this node's pods and remove the file, and they get new addresses"
            ) from None

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(path, msgspec.json.encode(self))
