"""Which APIs a version of Kubernetes has no more, of those that are served."""

from __future__ import annotations

import pytest

from pilothouse.api.k0s.removed_apis import REMOVED, removed_by

GROUP = "flowcontrol.apiserver.k8s.io"
BETA3 = (GROUP, "v1beta3", "FlowSchema")


@pytest.mark.parametrize(
    ("version", "found"),
    [("v1.31.9+k0s.0", []), ("v1.32.0-rc.1", []), ("v1.32.0", ["FlowSchema"]), ("1.33.1", ["FlowSchema"])],
)
def test_an_api_goes_with_its_version(version: str, found: list[str]) -> None:
    assert [api.kind for api in removed_by(version, {BETA3, ("", "v1", "Pod")})] == found


def test_what_is_not_served_is_not_looked_for() -> None:
    assert list(removed_by("v99.99.99", set())) == []


def test_the_warning_says_what_and_how_many() -> None:
    crd = next(api for api in REMOVED if api.kind == "RemovedCRD")
    assert crd.warning(1) == (
        "removedcrds.k0s.k0sproject.example.com v1beta1 has been removed in Kubernetes v99.99.99, "
        "but there are 1 such resources in the cluster"
    )
