from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import pilothouse

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "src" / "pilothouse").glob("*/__init__.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_each_package_says_what_it_is_for(package):
    assert (package / "__init__.py").read_text().startswith('"""')


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_page_can_be_found_from_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert f"]({page.relative_to(ROOT / 'docs')})" in index


def test_the_changelog_knows_this_version():
    assert f"## {pilothouse.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "script", ["scripts/setup", "scripts/check", "scripts/up", "scripts/demo", ".ci/run"]
)
def test_scripts_can_be_run(script):
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    help_text = subprocess.run(
        ["make", "-s", "-C", ROOT, "help"], capture_output=True, text=True, check=True
    ).stdout
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.M)
    parts = {"help", "setup", "setup-tests", "test-static", "test-tools"}
    assert {f"make {target}" for target in phony.split() if target not in parts} <= {
        line[: line.index("  ")] for line in help_text.splitlines()
    }
