"""The checks that the level ``restricted`` adds to ``baseline``."""

from __future__ import annotations

from typing import Final

from pilothouse.api.pod_security.baseline import bad_seccomp_profiles
from pilothouse.api.pod_security.checks import (
    Check,
    CheckRevision,
    Fields,
    Rule,
    Violation,
    containers,
    named_containers,
    plural,
    quoted,
    security_context,
    setters,
)

_VOLUMES: Final = frozenset({
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim",
    "projected", "secret",
})  # fmt: skip
_OTHER_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
    "flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "storageos",
)  # fmt: skip
_WINDOWS_SINCE: Final = 25
"""From this version on, Windows pods need not set what has no meaning there."""


def _unless_windows(rule: Rule) -> Rule:
    def check(metadata: Fields, spec: Fields) -> Violation | None:
        if (spec.get("os") or {}).get("name") == "windows":
            return None
        return rule(metadata, spec)

    return check


def _escalation(metadata: Fields, spec: Fields) -> Violation | None:
    names = [
        each["name"]
        for each in containers(spec)
        if security_context(each).get("allowPrivilegeEscalation") is not False
    ]
    if not names:
        return None
    return Violation(
        "allowPrivilegeEscalation != false",
        f"{named_containers(names)} must set securityContext.allowPrivilegeEscalation=false",
    )


def _capabilities(metadata: Fields, spec: Fields) -> Violation | None:
    keeping, adding, added = [], [], set()
    for container in containers(spec):
        capabilities = security_context(container).get("capabilities") or {}
        if "ALL" not in (capabilities.get("drop") or ()):
            keeping.append(container["name"])
        if more := set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
            adding.append(container["name"])
            added |= more
    details = []
    if keeping:
        details.append(f'{named_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = quoted(sorted(added))
        details.append(
            f"{named_containers(adding)} must not include {listed} in securityContext.capabilities.add"
        )
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _volumes(metadata: Fields, spec: Fields) -> Violation | None:
    names, kinds = [], set()
    for volume in spec.get("volumes") or ():
        if any(volume.get(source) is not None for source in _VOLUMES):
            continue
        names.append(volume["name"])
        kinds.add(next((kind for kind in _OTHER_VOLUMES if volume.get(kind) is not None), "unknown"))
    if not names:
        return None
    uses = f"{plural('uses', names, 'use')} {plural('restricted volume type', kinds)} {quoted(sorted(kinds))}"
    return Violation("restricted volume types", f"{plural('volume', names)} {quoted(names)} {uses}")


def _non_root(metadata: Fields, spec: Fields) -> Violation | None:
    of_pod = security_context(spec).get("runAsNonRoot")
    refusing, silent = [], []
    for container in containers(spec):
        own = security_context(container).get("runAsNonRoot")
        if own is None and not of_pod:
            silent.append(container["name"])
        elif own is False:
            refusing.append(container["name"])
    if of_pod is False or refusing:
        who = setters(of_pod is False, refusing)
        return Violation("runAsNonRoot != true", f"{who} must not set securityContext.runAsNonRoot=false")
    if silent:
        who = named_containers(silent)
        return Violation("runAsNonRoot != true", f"pod or {who} must set securityContext.runAsNonRoot=true")
    return None


def _user(metadata: Fields, spec: Fields) -> Violation | None:
    of_pod = security_context(spec).get("runAsUser") == 0
    names = [each["name"] for each in containers(spec) if security_context(each).get("runAsUser") == 0]
    if not of_pod and not names:
        return None
    return Violation("runAsUser=0", f"{setters(of_pod, names)} must not set runAsUser=0")


def _seccomp(metadata: Fields, spec: Fields) -> Violation | None:
    if found := bad_seccomp_profiles(spec):
        return found
    if security_context(spec).get("seccompProfile") is not None:
        return None
    names = [
        each["name"] for each in containers(spec) if security_context(each).get("seccompProfile") is None
    ]
    if not names:
        return None
    types = 'securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {named_containers(names)} must set {types}")


RESTRICTED_CHECKS: Final = (
    Check(
        "allowPrivilegeEscalation",
        (CheckRevision(8, _escalation), CheckRevision(_WINDOWS_SINCE, _unless_windows(_escalation))),
    ),
    Check(
        "capabilities_restricted",
        (CheckRevision(22, _capabilities), CheckRevision(_WINDOWS_SINCE, _unless_windows(_capabilities))),
        overrides="capabilities_baseline",
    ),
    Check("restrictedVolumes", (CheckRevision(0, _volumes),), overrides="hostPathVolumes"),
    Check("runAsNonRoot", (CheckRevision(0, _non_root),)),
    Check("runAsUser", (CheckRevision(23, _user),)),
    Check(
        "seccompProfile_restricted",
        (CheckRevision(19, _seccomp), CheckRevision(_WINDOWS_SINCE, _unless_windows(_seccomp))),
        overrides="seccompProfile_baseline",
    ),
)
"""In the order of reports, after those of ``baseline``."""
