"""The addresses of pods, recorded in a file, so that a pod keeps its address when the agent restarts.

    records = AddressRecords.read(folder / "addresses.json")
    records = records.with_entry(uid, AddressRecord(address="127.70.4.1", pod="default/db-0"))
    records.write(folder / "addresses.json")

The file is written before an address is used, so a crash never assigns one twice. An unreadable file stops
the agent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from pilothouse.pki.private_files import write_private

RECORDS_FILE: Final = "addresses.json"


class AddressRecordsError(Exception):
    """The record of addresses can't be read."""


class HostPort(msgspec.Struct, frozen=True, array_like=True):
    """A port of the node that belongs to a pod."""

    number: int
    protocol: str = "TCP"
    address: str = ""
    """Of the node; empty for all of them."""


class AddressRecord(msgspec.Struct, frozen=True):
    """The address and host ports of one pod."""

    address: str
    pod: str
    """Namespace and name, for messages."""
    ports: tuple[HostPort, ...] = ()


class AddressRecords(msgspec.Struct, frozen=True):
    """The addresses of all pods of a node, by pod uid."""

    network: str = ""
    """The range that addresses were last assigned from."""
    last: str = ""
    """The address that was assigned last."""
    entries: dict[str, AddressRecord] = {}

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
        """The recorded addresses, or none if there is no file. Raises ``AddressRecordsError``."""
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
