"""The filter of a container is that of its own profile, its pod's, or the default one; a profile that is missing is told of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pilothouse.api.kind_names import Pod
from pilothouse.api.objects import Object
from pilothouse.node.containers.seccomp_profiles import is_enforced, seccomp_filter
from pilothouse.node.interfaces import NotReady

pytestmark = pytest.mark.skipif(not is_enforced(), reason="there are no filters for this architecture")
LOCAL = {"type": "Localhost", "localhostProfile": "db/strict.json"}


def found(tmp_path: Path, of_pod: dict[str, Any] | None = None, **own: Any) -> bytes:
    pod = Object(
        Pod, {"metadata": {}, "spec": {"securityContext": {"seccompProfile": of_pod} if of_pod else {}}}
    )
    return seccomp_filter(pod, {"name": "app", "securityContext": own}, ("CHOWN",), tmp_path)


def test_without_a_word_it_is_the_default(tmp_path: Path) -> None:
    default = found(tmp_path)
    assert len(default) > 800
    assert found(tmp_path, {"type": "RuntimeDefault"}) == default
    assert found(tmp_path, {"type": "Unconfined"}, seccompProfile={"type": "RuntimeDefault"}) == default


def test_who_asks_for_none_or_is_privileged_has_none(tmp_path: Path) -> None:
    assert found(tmp_path, {"type": "Unconfined"}) == b""
    assert found(tmp_path, {"type": "RuntimeDefault"}, seccompProfile={"type": "Unconfined"}) == b""
    assert found(tmp_path, privileged=True) == b""


def test_a_profile_of_the_machine_is_read(tmp_path: Path) -> None:
    (tmp_path / "db").mkdir()
    (tmp_path / "db/strict.json").write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW"}))
    assert found(tmp_path, LOCAL) not in (b"", found(tmp_path))


def test_a_profile_that_is_missing_or_none_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match=r"cannot load seccomp profile .*db/strict.json.*No such file") as told:
        found(tmp_path, LOCAL)
    assert told.value.reason == "CreateContainerError"
    (tmp_path / "db").mkdir()
    (tmp_path / "db/strict.json").write_text("{}")
    with pytest.raises(NotReady, match="is no seccomp profile"):
        found(tmp_path, LOCAL)


@pytest.mark.parametrize("name", ["../secret.json", "/etc/passwd", "a/../../b", ""])
def test_a_profile_is_below_its_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(NotReady, match="no path below"):
        found(tmp_path, {"type": "Localhost", "localhostProfile": name})
