"""``--admission-control-config-file``: Kubernetes' files work, and a mistake is reported with its line and field."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pilothouse.api.pod_security.policy import LevelVersion, NamespacePolicy, PolicyVersion
from pilothouse.apiserver.admission.pod_security.configuration import Exemptions, PodSecurityConfiguration
from pilothouse.app.admission_control import pod_security
from pilothouse.app.options import StartError
from pilothouse.app.up import ADMISSION

INLINE = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/{version}
    kind: PodSecurityConfiguration
    defaults:
      enforce: "baseline"
      enforce-version: v1.30
      warn: "restricted"
      warn-version: "latest"
    exemptions:
      usernames: ["system:serviceaccount:ops:deployer"]
      runtimeClasses: []
      namespaces: [kube-system, ops]
"""
WANTED = PodSecurityConfiguration(
    NamespacePolicy(
        enforce=LevelVersion("baseline", PolicyVersion(30)),
        warn=LevelVersion("restricted"),
    ),
    Exemptions(
        usernames=frozenset({"system:serviceaccount:ops:deployer"}),
        namespaces=frozenset({"kube-system", "ops"}),
    ),
)


def written(folder: Path, text: str) -> Path:
    file = folder / "admission.yaml"
    file.write_text(text)
    return file


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_configuration_within_the_file_is_read(tmp_path: Path, version: str) -> None:
    assert pod_security(written(tmp_path, INLINE.format(version=version))) == WANTED


def test_a_configuration_in_a_file_beside_it_is_read(tmp_path: Path) -> None:
    head, _, inner = INLINE.format(version="v1").partition("  configuration:\n")
    (tmp_path / "inner.yaml").write_text("".join(line[4:] for line in inner.splitlines(keepends=True)))
    assert pod_security(written(tmp_path, f"{head}  path: inner.yaml\n")) == WANTED


def test_what_is_not_said_is_as_in_kubernetes(tmp_path: Path) -> None:
    nothing = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
    assert pod_security(written(tmp_path, nothing)) == PodSecurityConfiguration()
    assert pod_security(None) == PodSecurityConfiguration()


def test_up_enforces_baseline_and_leaves_kube_system_alone() -> None:
    found = pod_security(ADMISSION)
    assert [str(found.defaults.enforce), str(found.defaults.warn), str(found.defaults.audit)] == [
        "baseline:latest",
        "restricted:latest",
        "restricted:latest",
    ]
    assert found.exemptions == Exemptions(namespaces=frozenset({"kube-system"}))


MISTAKES = {
    "a level": (
        ('enforce: "baseline"', "enforce: strict"),
        "line 9: plugins[0].configuration.defaults.enforce: 'strict' must be one of privileged, baseline, restricted",
    ),
    "a version": (
        ("v1.30", '"1.30"'),
        'line 10: plugins[0].configuration.defaults.enforce-version: \'1.30\' must be "latest" or "v1.x"',
    ),
    "a field": (
        ("warn-version", "warnVersion"),
        "line 12: plugins[0].configuration.defaults.warnVersion: is not a known field; known are enforce, enforce-version, "
        "audit, audit-version, warn, warn-version",
    ),
    "a namespace": (
        ("ops]", "Ops]"),
        "line 16: plugins[0].configuration.exemptions.namespaces[1]: 'Ops': a lowercase RFC 1123 label",
    ),
    "a name twice": (
        ("kube-system, ops]", "ops, ops]"),
        "line 16: plugins[0].configuration.exemptions.namespaces[1]: 'ops' is given twice",
    ),
    "a user": (
        ('"system:serviceaccount:ops:deployer"', '""'),
        "line 14: plugins[0].configuration.exemptions.usernames[0]: '': must not be empty",
    ),
    "a plugin": (
        ("name: PodSecurity\n", "name: ImagePolicyWebhook\n"),
        "line 4: plugins[0].name: 'ImagePolicyWebhook' is not a plugin of this server; the one to configure is PodSecurity",
    ),
    "a kind": (
        ("kind: AdmissionConfiguration", "kind: Policy"),
        "line 2: kind: must be AdmissionConfiguration, not Policy",
    ),
    "an API version": (
        ("config.k8s.io/v1\n    kind", "config.k8s.io/v2\n    kind"),
        "line 6: plugins[0].configuration.apiVersion: must be pod-security.admission.config.k8s.io/v1 or ",
    ),
    "a type": (
        ("runtimeClasses: []", "runtimeClasses: all"),
        "line 15: plugins[0].configuration.exemptions.runtimeClasses: must be a list",
    ),
}


@pytest.mark.parametrize(("change", "said"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, change: tuple[str, str], said: str) -> None:
    text = INLINE.format(version="v1")
    assert change[0] in text
    file = written(tmp_path, text.replace(*change))
    with pytest.raises(StartError) as refused:
        pod_security(file)
    assert said in str(refused.value)
    assert f"{file}, " in str(refused.value) or f"{file}: " in str(refused.value)


def test_every_mistake_is_told_at_once(tmp_path: Path) -> None:
    text = INLINE.format(version="v1").replace("v1.30", "newest").replace('"restricted"', "strict")
    with pytest.raises(StartError) as refused:
        pod_security(written(tmp_path, text))
    assert len(str(refused.value).splitlines()) == 3


@pytest.mark.parametrize("text", ["", "a: [", "- 1", "\x00"], ids=["empty", "broken", "list", "no text"])
def test_what_is_no_configuration_at_all_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(StartError, match=r"admission\.yaml"):
        pod_security(written(tmp_path, text))


def test_a_file_beside_it_that_is_not_there_is_told(tmp_path: Path) -> None:
    head = INLINE.format(version="v1").partition("  configuration:\n")[0]
    with pytest.raises(StartError, match=r"nowhere\.yaml can't be read: No such file"):
        pod_security(written(tmp_path, f"{head}  path: nowhere.yaml\n"))


@pytest.mark.parametrize("command", ["apiserver", "up"])
def test_neither_command_starts_with_a_mistake(tmp_path: Path, command: str) -> None:
    file = written(tmp_path, INLINE.format(version="v1").replace('"baseline"', "strict"))
    data = tmp_path / "data"
    argv = [sys.executable, "-m", "pilothouse", command, "--data", str(data), "--listen", "127.0.0.1:0"]
    ended = subprocess.run(
        [*argv, "--admission-control-config-file", str(file)], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode != 0
    assert "defaults.enforce: 'strict' must be one of privileged, baseline, restricted" in ended.stderr
    assert not data.exists()
