"""What the public system accepted and then hung on, or did to every machine, is refused where it is written."""

from __future__ import annotations

from typing import Any

import pytest
from tests.kit.admission import Admission, admit

from pilothouse.api.k0s.plan_kinds import PLAN

Json = dict[str, Any]
SHA256 = "0" * 64
K0SUPDATE = "spec.commands[0].k0supdate"
AIRGAP = "spec.commands[0].airgapupdate"


def update(**changes: Any) -> Json:
    good: Json = {
        "version": "v1.32.4+k0s.0",
        "platforms": {"linux-amd64": {"url": "http://localhost/dist/k0s", "sha256": SHA256}},
        "targets": {"controllers": {"discovery": {"static": {"nodes": ["controller0"]}}}},
    }
    return {**good, **changes}


def plan(*commands: Json, name: str = "autopilot") -> Admission:
    return admit(PLAN, {"metadata": {"name": name}, "spec": {"commands": list(commands)}})


def platform(**changes: Any) -> Json:
    return update(platforms={"linux-amd64": {"url": "http://localhost/k0s", **changes}})


def workers(target: Json) -> Json:
    return update(targets={"workers": target})


def selecting(**selector: str) -> Json:
    return workers({"discovery": {"selector": selector}})


BAD: dict[str, tuple[Json, str]] = {
    "no command": ({}, "spec.commands[0]"),
    "an unknown command only": ({"reboot": {}}, "spec.commands[0]"),
    "k0s-A34: concurrency 0": (
        {"k0supdate": workers({"discovery": {}, "limits": {"concurrent": 0}})},
        f"{K0SUPDATE}.targets.workers.limits.concurrent",
    ),
    "concurrency below 0": (
        {"k0supdate": workers({"discovery": {}, "limits": {"concurrent": -1}})},
        f"{K0SUPDATE}.targets.workers.limits.concurrent",
    ),
    "no discovery": ({"k0supdate": workers({})}, f"{K0SUPDATE}.targets.workers.discovery"),
    "k0s-A32: bad label selector": (
        {"k0supdate": selecting(labels="environment in (")},
        f"{K0SUPDATE}.targets.workers.discovery.selector.labels",
    ),
    "bad field selector": (
        {"k0supdate": selecting(fields="metadata.name")},
        f"{K0SUPDATE}.targets.workers.discovery.selector.fields",
    ),
    "a field there is not": (
        {"k0supdate": selecting(fields="spec.unschedulable=true")},
        f"{K0SUPDATE}.targets.workers.discovery.selector.fields",
    ),
    "a node name that can't be": (
        {"k0supdate": workers({"discovery": {"static": {"nodes": ["ok", "Not_ok"]}}})},
        f"{K0SUPDATE}.targets.workers.discovery.static.nodes[1]",
    ),
    "short sha256": ({"k0supdate": platform(sha256="zz")}, f"{K0SUPDATE}.platforms.linux-amd64.sha256"),
    "sha256 of other letters": (
        {"k0supdate": platform(sha256="g" * 64)},
        f"{K0SUPDATE}.platforms.linux-amd64.sha256",
    ),
    "empty sha256": ({"k0supdate": platform(sha256="")}, f"{K0SUPDATE}.platforms.linux-amd64.sha256"),
    "url by ftp": ({"k0supdate": platform(url="ftp://host/k0s")}, f"{K0SUPDATE}.platforms.linux-amd64.url"),
    "url without host": (
        {"k0supdate": platform(url="https:///k0s")},
        f"{K0SUPDATE}.platforms.linux-amd64.url",
    ),
    "url without scheme": ({"k0supdate": platform(url="host/k0s")}, f"{K0SUPDATE}.platforms.linux-amd64.url"),
    "url with a bad port": (
        {"k0supdate": platform(url="https://host:port/k0s")},
        f"{K0SUPDATE}.platforms.linux-amd64.url",
    ),
    "url with a placeholder": (
        {"k0supdate": platform(url="https://host/{{{ version }}}")},
        f"{K0SUPDATE}.platforms.linux-amd64.url",
    ),
    "no url": (
        {"k0supdate": update(platforms={"linux-amd64": {}})},
        f"{K0SUPDATE}.platforms.linux-amd64.url",
    ),
    "a platform that is none": (
        {"k0supdate": update(platforms={"linux": {"url": "http://h/k0s"}})},
        f"{K0SUPDATE}.platforms.linux",
    ),
    "version with a placeholder": ({"k0supdate": update(version="v{{{ x }}}+k0s.0")}, f"{K0SUPDATE}.version"),
    "empty version": ({"k0supdate": update(version="")}, f"{K0SUPDATE}.version"),
    "version unquoted": ({"k0supdate": update(version=1.32)}, f"{K0SUPDATE}.version"),
    "no targets": (
        {"k0supdate": {name: value for name, value in update().items() if name != "targets"}},
        f"{K0SUPDATE}.targets",
    ),
    "bundle with a bad url": (
        {
            "airgapupdate": {
                "version": "v0.0.0",
                "platforms": {"linux-amd64": {"url": "bundle.tar"}},
                "workers": {"discovery": {}},
            }
        },
        f"{AIRGAP}.platforms.linux-amd64.url",
    ),
    "bundle for a bad selector": (
        {
            "airgapupdate": {
                "version": "v0.0.0",
                "platforms": {},
                "workers": {"discovery": {"selector": {"labels": "!"}}},
            }
        },
        f"{AIRGAP}.workers.discovery.selector.labels",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case: str) -> None:
    command, path = BAD[case]
    assert plan(command).paths == [path]


@pytest.mark.parametrize(
    "url",
    [
        "https://user:s3cret@host/k0s",
        "https://s3cret@host/k0s",
        "https://user:s3cret@host:port/k0s",
        "https://user:s3cret@[::1/k0s",
        "https://user:s3cret@host/{{{ version }}}",
        "https:/\n/user:s3cret@host/k0s",
        "ftp://user:s3cret@host/k0s",
    ],
)
def test_a_url_with_credentials_is_refused_and_not_quoted(url: str) -> None:
    found = plan({"k0supdate": platform(url=url)})
    assert found.paths == [f"{K0SUPDATE}.platforms.linux-amd64.url"]
    (problem,) = found.problems
    assert "must not have a user or password" in str(problem)
    assert "s3cret" not in str(problem)


def test_an_at_sign_in_the_path_is_no_user() -> None:
    assert plan({"k0supdate": platform(url="https://host/k0s@v1?mail=a@b")}).problems == []


def test_every_fault_is_named_at_once() -> None:
    found = plan({"k0supdate": {**platform(sha256="zz", url="k0s"), "version": "{{{"}}, {})
    assert found.paths == [
        f"{K0SUPDATE}.platforms.linux-amd64.sha256",
        f"{K0SUPDATE}.platforms.linux-amd64.url",
        f"{K0SUPDATE}.version",
        "spec.commands[1]",
    ]


@pytest.mark.parametrize(
    "command",
    [
        {"k0supdate": update()},
        {"k0supdate": update(forceupdate=True, targets={})},
        {"k0supdate": platform(sha256="ABCDEF" + "0" * 58)},
        {"k0supdate": platform()},
        {"k0supdate": selecting()},
        {"k0supdate": selecting(labels="environment in (a,b),!c", fields="metadata.name!=worker2")},
        {"k0supdate": update(version="v99.99.99", platforms={})},
    ],
)
def test_accepted(command: Json) -> None:
    found = plan(command)
    assert (found.problems, found.unknown) == ([], [])


def test_an_element_may_have_both_commands() -> None:
    bundle = {
        "version": "v1",
        "platforms": {"linux-arm64": {"url": "https://h/b.tar"}},
        "workers": {"discovery": {"selector": {}}},
    }
    assert plan({"k0supdate": update(), "airgapupdate": bundle}).problems == []


def test_concurrency_is_one_unless_said() -> None:
    found = plan({"k0supdate": workers({"discovery": {"selector": {}}})})
    target = found.obj["spec"]["commands"][0]["k0supdate"]["targets"]["workers"]
    assert target["limits"] == {"concurrent": 1}


def test_a_plan_of_another_name_is_kept() -> None:
    assert plan({"k0supdate": update()}, name="foo").problems == []


def test_a_plan_of_no_steps_is_kept() -> None:
    assert plan().problems == []
