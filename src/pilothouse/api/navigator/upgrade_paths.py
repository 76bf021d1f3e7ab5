"""Which Elasticsearch version may follow which.

    refusal("8.17.0", "7.17.29")         # "Elasticsearch can't go back from 8.17.0 to 7.17.29: …"
    refusal("7.17.9", "8.17.0")          # "": a supported upgrade
    unknown("9.0.0")                     # "pilots don't know how to run Elasticsearch 9.0.0: …"

Only forward, and to the next major only from the last minors before it.
"""

from __future__ import annotations

from typing import Final

from pilothouse.meta.versions import Version

_LAST_MINORS: Final = {5: 6, 6: 8, 7: 17, 8: 18}
"""By major version, the first minor with a rolling upgrade to the next major."""
_LATEST_MAJOR: Final = 8


def refusal(running: str, wanted: str) -> str:
    """Why a cluster can't be upgraded from one version to another, or empty."""
    old, new = Version.parse(running), Version.parse(wanted)
    if new < old:
        return (
            f"Elasticsearch can't go back from {old} to {new}: older versions can't read the data of newer "
            "ones"
        )
    if new.major == old.major:
        return ""
    if new.major > old.major + 1:
        return (
            f"Elasticsearch can't go from {old} to {new} at once: go to the last {old.major + 1}.x in between"
        )
    minor = _LAST_MINORS.get(old.major, 0)
    if old.minor < minor:
        return f"Elasticsearch can't go from {old} to {new} at once: go to {old.major}.{minor} or later first"
    return ""


def unknown(version: str) -> str:
    """Why pilots can't run a version, or empty."""
    asked = Version.parse(version)
    if asked.major in (7, 8) or (asked.major == 6 and asked.minor >= 8):
        return ""
    return f"pilots can't run Elasticsearch {asked}: set spec.version to a 6.8, 7 or 8 release"


def is_too_new(version: str) -> bool:
    """True if a version is later than any that pilots can run. Earlier ones are accepted, since Navigator's
    manifests have them; the clusters' status says that they don't run."""
    return Version.parse(version).major > _LATEST_MAJOR
