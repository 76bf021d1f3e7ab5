"""The manifests of the project's founding documents, as they stand, and the words that have to be mended in them.

    for seed in SEEDS:
        seed.objects()      # as they stand
        seed.problems       # what is wrong with them: (path, reason), or "no such kind"
        seed.mended()       # with only the wrong words replaced; these have to be accepted

Fragments are completed to whole objects; everything else is verbatim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from tests.kit.manifests import loads

FOLDER = Path(__file__).parent.parent / "originals" / "seeds" / "manifests"
UNSUPPORTED = "FieldValueNotSupported"
INVALID = "FieldValueInvalid"
TYPE = "FieldValueTypeInvalid"


class Seed(NamedTuple):
    file: str
    served: bool = True
    """False if the kind does not exist as it is spelt."""
    problems: tuple[tuple[str, str], ...] = ()
    words: tuple[tuple[str, str], ...] = ()
    """Each wrong text, and what it should be."""

    def objects(self) -> list[dict[str, Any]]:
        return loads(self.text())

    def mended(self) -> list[dict[str, Any]]:
        text = self.text()
        for wrong, right in self.words:
            if wrong not in text:
                raise ValueError(f"{self.file} has no {wrong!r} to mend")
            text = text.replace(wrong, right)
        return loads(text)

    def text(self) -> str:
        return (FOLDER / self.file).read_text()


_K0SUPDATE = "spec.commands[0].k0supdate"

SEEDS = (
    Seed(
        "pilot.yaml",
        problems=(
            ("status.conditions[0].lastTransitionTime", TYPE),
            ("status.conditions[0].status", TYPE),
            ("status.conditions[1].lastTransitionTime", TYPE),
            ("status.conditions[1].status", TYPE),
        ),
        words=(
            ("status: True", 'status: "True"'),
            ("status: False", 'status: "False"'),
            ("2017-10-01T19:00:00+00", "2017-10-01T19:00:00+00:00"),
        ),
    ),
    Seed(
        "update-config.yaml",
        problems=(
            ("spec.planSpec", TYPE),
            ("spec.upgradeStrategy.periodic.days[0]", UNSUPPORTED),
        ),
        words=(("Tuesdsay", "Tuesday"), ("    ...", "    commands: []")),
    ),
    Seed(
        "plan.yaml",
        problems=(
            (f"{_K0SUPDATE}.platforms.linux-amd64.url", INVALID),
            (f"{_K0SUPDATE}.version", INVALID),
        ),
        words=(("{{{ extra.k8s_version }}}", "1.32.4"),),
    ),
    Seed(
        "updater-config.yaml",
        served=False,
        words=(("UpdaterConfig", "UpdateConfig"), ("Tuesdsay", "Tuesday")),
    ),
    Seed("plan-static.yaml"),
    Seed("plan-selector.yaml"),
    Seed("plan-every-node.yaml"),
    Seed("plan-status.yaml"),
)
