"""``pilothouse crds``: our kinds, as a real kube-apiserver takes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.running import pilothouse
from tests.kit import kube
from tests.kit.kubectl import Kubectl, newest
from tests.kit.targets import Fleet

from pilothouse.api.registry import own_resources


def definitions(*flags: str) -> dict[str, dict[str, Any]]:
    """The specs that are printed, by name."""
    done = pilothouse("crds", *flags)
    assert done.returncode == 0, done.stderr
    return {each["metadata"]["name"]: each["spec"] for each in yaml.safe_load_all(done.stdout) if each}


def test_each_kind_has_its_stored_version_alone() -> None:
    found = definitions()
    assert set(found) == {f"{each.plural}.{each.group}" for each in own_resources()}
    assert [each["name"] for each in found["pilots.navigator.jetstack.io"]["versions"]] == ["v1beta1"]
    assert all("conversion" not in spec for spec in found.values())


def test_with_a_webhook_there_are_all_versions(tmp_path: Path) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("PEM")
    found = definitions("--conversion-webhook=https://a.b/convert", f"--conversion-ca-file={authority}")
    pilots = found["pilots.navigator.jetstack.io"]
    assert [each["name"] for each in pilots["versions"]] == ["v1beta1", "v1alpha1"]
    assert pilots["conversion"]["webhook"]["clientConfig"] == {
        "url": "https://a.b/convert",
        "caBundle": "UEVN",
    }
    # There is nothing to convert where there is one version.
    assert "conversion" not in found["plans.autopilot.k0sproject.io"]


def test_an_address_without_tls_is_refused() -> None:
    done = pilothouse("crds", "--conversion-webhook=http://a.b/convert")
    assert done.returncode == 2
    assert "is not an https:// address" in done.stderr


@pytest.mark.long
@pytest.mark.kubectl
@pytest.mark.parametrize("flags", [(), ("--conversion-webhook=https://127.0.0.1:1/convert",)])
async def test_a_real_server_takes_what_is_printed(
    fleet: Fleet, flags: tuple[str, ...], tmp_path: Path
) -> None:
    kubectl = Kubectl(newest(), fleet.get(kube.NAME).target.kubeconfig, tmp_path)
    printed = pilothouse("crds", *flags).stdout
    (await kubectl("apply", "-f", "-", stdin=printed)).ok()
    (await kubectl("wait", "--for=condition=Established", "--timeout=50s", "-f", "-", stdin=printed)).ok()
    assert "No resources found" in (await kubectl("get", "decisions", "-A")).err
