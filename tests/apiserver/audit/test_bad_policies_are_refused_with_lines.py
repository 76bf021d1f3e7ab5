"""A policy file with a mistake keeps the server from starting, and says where the mistake is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pilothouse.apiserver.audit.policy_file import PolicyFileError, read_policy

HEAD = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "p.yaml: the file is empty"),
        ("a: [", "p.yaml: not valid YAML"),
        ("- a\n", "p.yaml, line 1: the document: must be a mapping"),
        ("kind: Policy\nrules: [{level: None}]\n", "line 1: apiVersion: must be audit.k8s.io/v1"),
        (
            "apiVersion: audit.k8s.io/v1beta1\nkind: Policy\nrules: [{level: None}]\n",
            "line 1: apiVersion: must be audit.k8s.io/v1, not audit.k8s.io/v1beta1",
        ),
        (HEAD, "rules: there must be at least one"),
        (HEAD + "rules: []\n", "line 3: rules: there must be at least one"),
        (HEAD + "rules: {}\n", "line 3: rules: must be a list"),
        (
            HEAD + "rules:\n- level: Metadat\n",
            "line 4: rules[0].level: 'Metadat' is not a level; expected one of None, Meta",
        ),
        (HEAD + "rules:\n- users: [a]\n", "line 4: rules[0].level: is missing"),
        (HEAD + "rules:\n- level:\n", "line 4: rules[0].level: must be text"),
        (HEAD + "rules:\n- level: None\n  user: [a]\n", "line 5: rules[0].user: is not a known field"),
        (HEAD + "rules:\n- level: None\n  level: None\n", "line 5: rules[0].level: is given twice"),
        (HEAD + "rules:\n- level: None\n  users: a\n", "line 5: rules[0].users: must be a list"),
        (HEAD + "rules:\n- level: None\n  users:\n  - a\n  - 7\n", "line 7: rules[0].users[1]: must be text"),
        (
            HEAD + "rules:\n- level: None\n  omitStages: [Begin]\n",
            "line 5: rules[0].omitStages[0]: 'Begin' is not a stage",
        ),
        (
            HEAD + "rules:\n- level: None\n  nonResourceURLs: [healthz]\n",
            "line 5: rules[0].nonResourceURLs[0]: 'healthz' is not a path",
        ),
        (
            HEAD + "rules:\n- level: None\n  nonResourceURLs: ['/a*b']\n",
            "line 5: rules[0].nonResourceURLs[0]: '/a*b' is not a path",
        ),
        (
            HEAD + "rules:\n- level: None\n  namespaces: [a]\n  nonResourceURLs: [/a]\n",
            "line 6: rules[0].nonResourceURLs: can't be combined with namespaces",
        ),
        (
            HEAD + "rules:\n- level: None\n  resources:\n  - group: apps/v1\n",
            "line 6: rules[0].resources[0].group: 'apps/v1' is not a group",
        ),
        (
            HEAD + "rules:\n- level: None\n  resources: [{group: '', resourceNames: [a]}]\n",
            "line 5: rules[0].resources[0].resourceNames: needs at least one entry in resources",
        ),
        (
            HEAD + "rules:\n- level: None\n  resources: [{resources: [a/b/c]}]\n",
            "line 5: rules[0].resources[0].resources: 'a/b/c' is not a resource",
        ),
        (
            HEAD + "omitManagedFields: maybe\nrules: [{level: None}]\n",
            "line 3: omitManagedFields: must be true or",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(text: str, says: str) -> None:
    with pytest.raises(PolicyFileError) as refused:
        read_policy(text, "p.yaml")

    assert says in str(refused.value)


def test_every_mistake_is_told() -> None:
    with pytest.raises(PolicyFileError) as refused:
        read_policy(HEAD + "rules:\n- level: Some\n- level: More\nwhat: 1\n", "p.yaml")

    assert len(str(refused.value).splitlines()) == 3


def test_the_server_does_not_start(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(HEAD + "rules:\n- level: Everything\n")
    argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(tmp_path / "data")]
    argv += ["--store", "memory", "--listen", "127.0.0.1:0"]
    argv += ["--audit-log-path", str(tmp_path / "audit.log"), "--audit-policy-file", str(policy)]

    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert ran.returncode == 1
    assert f"{policy}, line 4: rules[0].level: 'Everything' is not a level" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("flags", [["--audit-policy-file", __file__], ["--audit-log-path", "-"]])
def test_flags_that_make_no_sense_are_refused(flags: list[str], tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(tmp_path / "data"), *flags]

    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert ran.returncode == 2
    assert "--audit-log-path" in ran.stderr


def test_a_path_that_can_not_be_a_file_is_refused(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "pilothouse", "apiserver", "--data", str(tmp_path / "data")]
    argv += ["--store", "memory", "--listen", "127.0.0.1:0", "--audit-log-path", str(tmp_path)]

    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)

    assert ran.returncode == 1
    assert f"--audit-log-path {tmp_path} can't be used: Is a directory" in ran.stderr
