"""What tests must not take over from whoever runs them: a plugin that puts it away before anything is imported.

A person's kubeconfig, data folder or proxy is not what a test is about; nor is the cluster, if the tests run in a pod of one. What package
managers need stays: proxies are left for all but this machine. Commands find only the planes that the same test process started, not
those that somebody runs on the same machine.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import MutableMapping
from typing import Final

import pytest

FOREIGN: Final = (
    "KUBECONFIG",
    "PILOTHOUSE_DATA",
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
    "FORCE_COLOR",
)
"""What would lead a command elsewhere, or change what it prints."""
HERE: Final = ("127.0.0.1", "localhost", "::1")
_FOLDER = pytest.StashKey[str]()


def put_away(environment: MutableMapping[str, str]) -> None:
    for name in FOREIGN:
        environment.pop(name, None)
    for name in ("no_proxy", "NO_PROXY"):
        known = environment.get(name, "").split(",")
        environment[name] = ",".join(dict.fromkeys((*filter(None, known), *HERE)))


put_away(os.environ)


def pytest_configure(config: pytest.Config) -> None:
    os.environ["PILOTHOUSE_RUNTIME_DIR"] = config.stash[_FOLDER] = tempfile.mkdtemp(prefix="pilothouse-run-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_FOLDER], ignore_errors=True)
