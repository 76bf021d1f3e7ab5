"""``rbac.authorization.k8s.io/v1``: roles and their bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.printer_cells import AGE, CREATED_AT, NAME, column
from pilothouse.api.kubernetes.shared_checks import Problems, follows, label_selector, named
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Kind, Object, Resource, single
from pilothouse.meta.names import path_segment, subdomain

GROUP: Final = "rbac.authorization.k8s.io"


def resources() -> tuple[Resource, ...]:
    kinds = (
        _kind("Role", True, (NAME, CREATED_AT), _validate_role),
        _kind("ClusterRole", False, (NAME, CREATED_AT), _validate_cluster_role),
        _kind("RoleBinding", True, _BINDING_COLUMNS, _validate_binding(["Role", "ClusterRole"])),
        _kind("ClusterRoleBinding", False, _BINDING_COLUMNS, _validate_binding(["ClusterRole"])),
    )
    return tuple(map(single, kinds))


def _kind(
    name: str, namespaced: bool, columns: Any, validate: Callable[[Object, Object | None], Problems]
) -> Kind:
    return native(
        f"{GROUP}/v1",
        name,
        namespaced=namespaced,
        create_on_update=True,
        columns=columns,
        validate_name=path_segment,
        default=_default_subjects,
        validate=validate,
    )


def _default_subjects(obj: Object) -> None:
    role = obj.get("roleRef")
    if isinstance(role, dict) and not role.get("apiGroup"):
        role["apiGroup"] = GROUP
    for subject in obj.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _validate_role(new: Object, old: Object | None) -> Problems:
    for index, rule in enumerate(new.get("rules") or ()):
        yield from _check_rule(rule, element("rules", index), namespaced=True)


def _validate_cluster_role(new: Object, old: Object | None) -> Problems:
    for index, rule in enumerate(new.get("rules") or ()):
        yield from _check_rule(rule, element("rules", index), namespaced=False)
    aggregation = new.get("aggregationRule")
    if aggregation is not None:
        selectors = aggregation.get("clusterRoleSelectors") or ()
        if not selectors:
            yield FieldError.required(
                "aggregationRule.clusterRoleSelectors",
                "at least one clusterRoleSelector required if aggregationRule is non-nil",
            )
        for index, selector in enumerate(selectors):
            yield from label_selector(selector, element("aggregationRule.clusterRoleSelectors", index))


def _check_rule(rule: Object, path: str, *, namespaced: bool) -> Problems:
    if not rule.get("verbs"):
        yield FieldError.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            yield FieldError.invalid(
                f"{path}.nonResourceURLs", urls, "namespaced rules cannot apply to non-resource URLs"
            )
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            yield FieldError.invalid(
                f"{path}.nonResourceURLs",
                urls,
                "rules cannot apply to both regular resources and non-resource URLs",
            )
        return
    if not rule.get("apiGroups"):
        yield FieldError.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield FieldError.required(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_binding(kinds: list[str]) -> Callable[[Object, Object | None], Problems]:
    def validate(new: Object, old: Object | None) -> Problems:
        role = new.get("roleRef") or {}
        if role.get("apiGroup") != GROUP:
            yield FieldError.not_supported("roleRef.apiGroup", role.get("apiGroup", ""), [GROUP])
        if role.get("kind") not in kinds:
            yield FieldError.not_supported("roleRef.kind", role.get("kind", ""), kinds)
        yield from named("roleRef.name", role.get("name") or "", path_segment)
        for index, subject in enumerate(new.get("subjects") or ()):
            yield from _check_subject(subject, element("subjects", index))
        if old is not None and role != old.get("roleRef"):
            yield FieldError.invalid("roleRef", role, "cannot change roleRef")

    return validate


def _check_subject(subject: Object, path: str) -> Problems:
    name, group = subject.get("name", ""), subject.get("apiGroup", "")
    if not name:
        yield FieldError.required(f"{path}.name")
    match subject.get("kind", ""):
        case "ServiceAccount":
            if name:
                yield from follows(f"{path}.name", name, subdomain)
            if group:
                yield FieldError.not_supported(f"{path}.apiGroup", group, [""])
            if not subject.get("namespace"):
                yield FieldError.required(f"{path}.namespace")
        case "User" | "Group":
            if group != GROUP:
                yield FieldError.not_supported(f"{path}.apiGroup", group, [GROUP])
        case kind:
            yield FieldError.not_supported(f"{path}.kind", kind, ["ServiceAccount", "User", "Group"])


def _role(obj: Object, now: float) -> str:
    role = obj.get("roleRef") or {}
    return f"{role.get('kind', '')}/{role.get('name', '')}"


def _subjects(kind: str, text: Callable[[Object], str]) -> Any:
    def cell(obj: Object, now: float) -> str:
        found: Iterable[Object] = (each for each in obj.get("subjects") or () if each.get("kind") == kind)
        return ", ".join(map(text, found))

    return cell


_BINDING_COLUMNS: Final = (
    NAME,
    column("Role", "The role given.", _role),
    AGE,
    column("Users", "Users who have it.", _subjects("User", lambda each: each.get("name", "")), wide=True),
    column(
        "Groups", "Groups that have it.", _subjects("Group", lambda each: each.get("name", "")), wide=True
    ),
    column(
        "ServiceAccounts",
        "Service accounts that have it.",
        _subjects("ServiceAccount", lambda each: f"{each.get('namespace', '')}/{each.get('name', '')}"),
        wide=True,
    ),
)
