from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

import pilothouse

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(path.parent for path in (ROOT / "src" / "pilothouse").glob("*/__init__.py"))
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
DECISIONS = sorted((ROOT / "docs" / "adr").glob("*.md"))
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", CONTRIBUTING, *(ROOT / "docs").rglob("*.md")])


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_each_package_says_what_it_is_for(package: Path) -> None:
    assert (package / "__init__.py").read_text().startswith('"""')


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_into_pages_lead_to_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s:]*)#([^)\s]+)\)", page.read_text()):
        other = page.parent / target if target else page
        assert anchor in _anchors(other), f"{page.name} links to {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """As GitHub makes them: lower case, blanks become hyphens, punctuation goes."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"\b(?:src|tests|scripts|bench)/[\w./<>-]*[\w/>]", page.read_text()):
        known = name.split("<")[0]  # controllers/<name>.py is a file that the reader is to write.
        assert (ROOT / known).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_modules_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"\bpilothouse(?:\.[a-z_0-9]+)+\b(?!/|-)", page.read_text()):
        if name.split(".")[1] in {path.name for path in PACKAGES}:
            assert _module(name) is not None, f"{page.name} names {name}"


def _module(name: str) -> Path | None:
    """The file of a dotted name: that of a module, or of the module that the name is in."""
    for dotted in (name, name.rpartition(".")[0]):
        path = ROOT / "src" / Path(*dotted.split("."))
        if path.with_suffix(".py").exists() or (dotted == name and path.is_dir()):
            return path
    return None


def test_a_recipe_takes_at_most_four_steps() -> None:
    recipes = re.findall(r"^### To (.+)\n((?:(?!#).*\n)*)", CONTRIBUTING.read_text(), re.M)
    assert len(recipes) >= 10
    for recipe, text in recipes:
        assert 1 <= len(re.findall(r"^\d\. ", text, re.M)) <= 4, recipe


@pytest.mark.parametrize("page", DECISIONS, ids=lambda path: path.name)
def test_a_decision_has_its_number_its_status_and_its_date(page: Path) -> None:
    number = int(page.name.split("-")[0])
    assert re.match(
        rf"# {number}\. .+\n\n(Accepted|Superseded by .+), 20\d\d-\d\d-\d\d\.\n", page.read_text()
    )


def test_every_page_can_be_found_from_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "index.md":
            assert f"]({page.relative_to(ROOT / 'docs')})" in index


def test_the_changelog_knows_this_version() -> None:
    assert f"## {pilothouse.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "script", ["scripts/setup", "scripts/check", "scripts/up", "scripts/demo", ".ci/run"]
)
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    subprocess.run(["bash", "-n", ROOT / script], check=True)


def test_every_make_target_is_explained() -> None:
    makefile = (ROOT / "Makefile").read_text()
    help_text = subprocess.run(
        ["make", "-s", "-C", ROOT, "help"], capture_output=True, text=True, check=True
    ).stdout
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.M)
    parts = {"help", "setup", "setup-tests", "test-static", "test-tools"}
    assert {f"make {target}" for target in phony.split() if target not in parts} <= {
        line[: line.index("  ")] for line in help_text.splitlines()
    }
