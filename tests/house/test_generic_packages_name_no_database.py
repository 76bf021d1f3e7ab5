"""What differs between databases comes from their descriptors (``pilothouse.api.applications``) and drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

import pilothouse
from pilothouse.api.applications.registry import BUILT_IN

ROOT = Path(pilothouse.__file__).parent
FILES = sorted(
    {
        *(
            file
            for package in ("application_actions", "drains", "pilots", "plans", "update_configs")
            for file in (ROOT / "controllers" / package).rglob("*.py")
        ),
        ROOT / "controllers" / "application_policies.py",
        ROOT / "controllers" / "disruptions.py",
        ROOT / "controllers" / "namespaces.py",
        *(ROOT / "diagnosis").rglob("*.py"),
        *(ROOT / "pilot").glob("*.py"),
        *(ROOT / "cli").rglob("*.py"),
        *(ROOT / "apiserver" / "authorization").rglob("*.py"),
        *(ROOT / "rules").rglob("*.py"),
        *(ROOT / "updates").rglob("*.py"),
    }
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_database_is_named(file: Path) -> None:
    text = file.read_text().lower()
    assert not [each.name for each in BUILT_IN if each.name in text]


def test_every_package_that_is_generic_is_looked_at() -> None:
    assert {file.relative_to(ROOT).parts[0] for file in FILES} == {
        "apiserver",
        "cli",
        "controllers",
        "diagnosis",
        "pilot",
        "rules",
        "updates",
    }
