"""The checks of the level ``baseline``: no known way from a pod to its node."""

from __future__ import annotations

from functools import partial
from typing import Final

from pilothouse.api.pod_security.checks import (
    Check,
    CheckRevision,
    Fields,
    Violation,
    assigned,
    containers,
    named_containers,
    plural,
    quoted,
    security_context,
    setters,
)

_CAPABILITIES: Final = frozenset({
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
    "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
})  # fmt: skip
_SYSCTLS_1_0: Final = frozenset(
    {
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    }
)
_SYSCTLS_1_27: Final = _SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_1_29: Final = _SYSCTLS_1_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_1_32: Final = _SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
_SELINUX_TYPES_1_0: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_1_31: Final = _SELINUX_TYPES_1_0 | {"container_engine_t"}
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION: Final = "container.seccomp.security.alpha.kubernetes.io/"
PROFILE_TYPES: Final = frozenset({"RuntimeDefault", "Localhost"})


def _bad_profiles(spec: Fields, field: str) -> tuple[bool, list[str], set[str]]:
    """Whether the pod sets a profile that disables the filter, which containers do, and its types."""
    values: set[str] = set()

    def is_bad(of: Fields) -> bool:
        profile = security_context(of).get(field)
        if profile is None or profile.get("type", "") in PROFILE_TYPES:
            return False
        values.add(profile.get("type", ""))
        return True

    return is_bad(spec), [each["name"] for each in containers(spec) if is_bad(each)], values


def _app_armor(metadata: Fields, spec: Fields) -> Violation | None:
    of_pod, names, values = _bad_profiles(spec, "appArmorProfile")
    annotations = [
        assigned(key, value)
        for key, value in sorted((metadata.get("annotations") or {}).items())
        if key.startswith(_APPARMOR_ANNOTATION)
        and value not in ("", "runtime/default")
        and not value.startswith("localhost/")
    ]
    who = [text] if (text := setters(of_pod, names)) else []
    if annotations:
        who.append(plural("annotation", annotations))
    if not who:
        return None
    listed = [*sorted(values), *annotations]
    return Violation(
        plural("forbidden AppArmor profile", listed),
        f"{' and '.join(who)} must not set AppArmor profile type to {quoted(listed)}",
    )


def _capabilities(metadata: Fields, spec: Fields) -> Violation | None:
    names, added = [], set()
    for container in containers(spec):
        capabilities = security_context(container).get("capabilities") or {}
        if more := set(capabilities.get("add") or ()) - _CAPABILITIES:
            names.append(container["name"])
            added |= more
    if not names:
        return None
    listed = quoted(sorted(added))
    return Violation(
        "non-default capabilities",
        f"{named_containers(names)} must not include {listed} in securityContext.capabilities.add",
    )


def _host_namespaces(metadata: Fields, spec: Fields) -> Violation | None:
    shared = [f"{field}=true" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_path_volumes(metadata: Fields, spec: Fields) -> Violation | None:
    names = [each["name"] for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{plural('volume', names)} {quoted(names)}") if names else None


def _host_ports(metadata: Fields, spec: Fields) -> Violation | None:
    names, ports = [], set()
    for container in containers(spec):
        if taken := {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}:
            names.append(container["name"])
            ports |= taken
    if not names:
        return None
    uses = f"{plural('uses', names, 'use')} {plural('hostPort', ports)} {', '.join(sorted(ports))}"
    return Violation("hostPort", f"{named_containers(names)} {uses}")


def _host_users(metadata: Fields, spec: Fields) -> Violation | None:
    """Not a Kubernetes check: there, pods share the node's user ids unless they ask for their own."""
    return Violation("hostUsers", "pod must not set hostUsers=true") if spec.get("hostUsers") else None


def _privileged(metadata: Fields, spec: Fields) -> Violation | None:
    names = [each["name"] for each in containers(spec) if security_context(each).get("privileged")]
    if not names:
        return None
    return Violation("privileged", f"{named_containers(names)} must not set securityContext.privileged=true")


def _proc_mount(metadata: Fields, spec: Fields) -> Violation | None:
    names, values = [], set()
    for container in containers(spec):
        mount = security_context(container).get("procMount")
        if mount is not None and mount != "Default":
            names.append(container["name"])
            values.add(mount)
    if not names:
        return None
    return Violation(
        "procMount",
        f"{named_containers(names)} must not set securityContext.procMount to {quoted(sorted(values))}",
    )


def _selinux(types: frozenset[str], metadata: Fields, spec: Fields) -> Violation | None:
    bad_types: set[str] = set()
    fields_set: set[str] = set()

    def is_bad(options: Fields | None) -> bool:
        if options is None:
            return False
        custom = {field for field in ("user", "role") if options.get(field)}
        fields_set.update(custom)
        kind = options.get("type") or ""
        if kind not in types:
            bad_types.add(kind)
        return bool(custom) or kind not in types

    of_pod = is_bad(security_context(spec).get("seLinuxOptions"))
    names = [
        each["name"] for each in containers(spec) if is_bad(security_context(each).get("seLinuxOptions"))
    ]
    if not of_pod and not names:
        return None
    what = [f"{plural('type', bad_types)} {quoted(sorted(bad_types))}"] if bad_types else []
    what += [f"{field} may not be set" for field in ("user", "role") if field in fields_set]
    who = setters(of_pod, names)
    return Violation(
        "seLinuxOptions", f"{who} set forbidden securityContext.seLinuxOptions: {'; '.join(what)}"
    )


def _seccomp_annotations(metadata: Fields, spec: Fields) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = {_SECCOMP_ANNOTATION} | {
        f"{_SECCOMP_CONTAINER_ANNOTATION}{each['name']}" for each in containers(spec)
    }
    bad = sorted(
        assigned(key, annotations[key])
        for key in keys
        if key in annotations
        and annotations[key] not in ("runtime/default", "docker/default")
        and not annotations[key].startswith("localhost/")
    )
    if not bad:
        return None
    return Violation("seccompProfile", f"forbidden {plural('annotation', bad)} {', '.join(bad)}")


def bad_seccomp_profiles(spec: Fields) -> Violation | None:
    """Of the given profiles, those that disable the filter."""
    of_pod, names, values = _bad_profiles(spec, "seccompProfile")
    if not of_pod and not names:
        return None
    who = setters(of_pod, names)
    return Violation(
        "seccompProfile",
        f"{who} must not set securityContext.seccompProfile.type to {quoted(sorted(values))}",
    )


def _seccomp(metadata: Fields, spec: Fields) -> Violation | None:
    return bad_seccomp_profiles(spec)


def _sysctls(allowed: frozenset[str], metadata: Fields, spec: Fields) -> Violation | None:
    asked = [each.get("name", "") for each in security_context(spec).get("sysctls") or ()]
    bad = [name for name in asked if name not in allowed]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def _windows_host_process(metadata: Fields, spec: Fields) -> Violation | None:
    def is_host(of: Fields) -> bool:
        return bool((security_context(of).get("windowsOptions") or {}).get("hostProcess"))

    of_pod, names = is_host(spec), [each["name"] for each in containers(spec) if is_host(each)]
    if not of_pod and not names:
        return None
    who = setters(of_pod, names)
    return Violation("hostProcess", f"{who} must not set securityContext.windowsOptions.hostProcess=true")


BASELINE_CHECKS: Final = (
    Check("appArmorProfile", (CheckRevision(0, _app_armor),)),
    Check("capabilities_baseline", (CheckRevision(0, _capabilities),)),
    Check("hostNamespaces", (CheckRevision(0, _host_namespaces),)),
    Check("hostPathVolumes", (CheckRevision(0, _host_path_volumes),)),
    Check("hostPorts", (CheckRevision(0, _host_ports),)),
    Check("hostUsers", (CheckRevision(0, _host_users),)),
    Check("privileged", (CheckRevision(0, _privileged),)),
    Check("procMount", (CheckRevision(0, _proc_mount),)),
    Check(
        "seLinuxOptions",
        (
            CheckRevision(0, partial(_selinux, _SELINUX_TYPES_1_0)),
            CheckRevision(31, partial(_selinux, _SELINUX_TYPES_1_31)),
        ),
    ),
    Check("seccompProfile_baseline", (CheckRevision(0, _seccomp_annotations), CheckRevision(19, _seccomp))),
    Check(
        "sysctls",
        (
            CheckRevision(0, partial(_sysctls, _SYSCTLS_1_0)),
            CheckRevision(27, partial(_sysctls, _SYSCTLS_1_27)),
            CheckRevision(29, partial(_sysctls, _SYSCTLS_1_29)),
            CheckRevision(32, partial(_sysctls, _SYSCTLS_1_32)),
        ),
    ),
    Check("windowsHostProcess", (CheckRevision(0, _windows_host_process),)),
)
"""In the order of reports."""
