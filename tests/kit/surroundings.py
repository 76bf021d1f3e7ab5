"""Keeps tests apart from planes that somebody runs on the same machine: commands find only those of the same test process."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

_FOLDER = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    os.environ.pop("PILOTHOUSE_DATA", None)
    os.environ["PILOTHOUSE_RUNTIME_DIR"] = config.stash[_FOLDER] = tempfile.mkdtemp(prefix="pilothouse-run-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
