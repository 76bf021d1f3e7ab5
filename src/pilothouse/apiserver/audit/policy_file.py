"""Audit policy files: YAML of the kind ``Policy`` of ``audit.k8s.io/v1``.

    read_policy("apiVersion: audit.k8s.io/v1\\nkind: Policy\\nrules: [{level: Metadata}]\\n", "policy.yaml")

Any mistake refuses the whole file, with line and field: a server that does not start is better than a policy
that records less than intended.
"""

from __future__ import annotations

from pilothouse.apiserver.admission.configuration_documents import (
    DocumentError,
    DocumentReader,
    Node,
    compose,
)
from pilothouse.apiserver.audit.audit_policy import (
    LEVELS,
    STAGES,
    AuditLevel,
    AuditPolicy,
    AuditRule,
    ResourceMatch,
)

API_VERSION = "audit.k8s.io/v1"
_ABOUT_RESOURCES = ("resources", "namespaces")


class PolicyFileError(Exception):
    """A policy that can't be used; one line a mistake, each with file, line and field."""


def read_policy(text: str, source: str) -> AuditPolicy:
    """The policy in a file's text. ``source`` names the file in messages."""
    try:
        document = compose(text, source)
    except DocumentError as problem:
        raise PolicyFileError(str(problem)) from None
    if document is None:
        raise PolicyFileError(f"{source}: the file is empty; it should hold a Policy of {API_VERSION}")
    reader = _Reader(source)
    policy = reader.policy(document)
    if reader.problems:
        raise PolicyFileError("\n".join(reader.problems))
    return policy


class _Reader(DocumentReader):
    def policy(self, node: Node) -> AuditPolicy:
        fields = self.fields(
            node, "", ("apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields")
        )
        for name, wanted in (("apiVersion", API_VERSION), ("kind", "Policy")):
            given = self.optional(fields, name, "", self.text, "")
            if given != wanted:
                self.wrong(
                    fields.get(name, node), name, f"must be {wanted}" + (f", not {given}" if given else "")
                )
        rules = self.items(fields, "rules", "", self._rule)
        if not rules and not self.problems:
            self.wrong(
                fields.get("rules", node), "rules", "there must be at least one, or nothing is recorded"
            )
        return AuditPolicy(
            rules,
            omit_stages=self._stages(fields, ""),
            omit_managed_fields=self.optional(fields, "omitManagedFields", "", self.flag, False),
        )

    def _rule(self, node: Node, path: str) -> AuditRule:
        fields = self.fields(
            node,
            path,
            (
                "level",
                "users",
                "userGroups",
                "verbs",
                "resources",
                "namespaces",
                "nonResourceURLs",
                "omitStages",
                "omitManagedFields",
            ),
        )
        if "level" not in fields:
            self.wrong(node, f"{path}.level", f"is missing; one of {', '.join(LEVELS)}")
        about_resources = [name for name in _ABOUT_RESOURCES if name in fields]
        if about_resources and "nonResourceURLs" in fields:
            self.wrong(
                fields["nonResourceURLs"],
                f"{path}.nonResourceURLs",
                f"can't be combined with {about_resources[0]}: no request is for both; write two rules",
            )
        return AuditRule(
            level=self.optional(fields, "level", path, self._level, AuditLevel.NONE),
            users=self.words(fields, "users", path),
            groups=self.words(fields, "userGroups", path),
            verbs=self.words(fields, "verbs", path),
            resources=self.items(fields, "resources", path, self._resources),
            namespaces=self.words(fields, "namespaces", path),
            paths=self.items(fields, "nonResourceURLs", path, self._url),
            omit_stages=self._stages(fields, path),
            omit_managed_fields=self.optional(fields, "omitManagedFields", path, self.flag, None),
        )

    def _resources(self, node: Node, path: str) -> ResourceMatch:
        fields = self.fields(node, path, ("group", "resources", "resourceNames"))
        group = self.optional(fields, "group", path, self.text, "")
        if "/" in group or "*" in group or group != group.lower():
            self.wrong(
                fields["group"],
                f"{path}.group",
                f"{group!r} is not a group; expected a name such as apps, no version, no *",
            )
        names = self.words(fields, "resourceNames", path)
        resources = self.words(fields, "resources", path)
        if names and not resources:
            self.wrong(node, f"{path}.resourceNames", "needs at least one entry in resources")
        for resource in sorted(resources):
            if resource.count("/") > 1 or "" in resource.split("/"):
                self.wrong(
                    fields["resources"],
                    f"{path}.resources",
                    f"{resource!r} is not a resource; write pods, pods/log, pods/*, */scale or *",
                )
        return ResourceMatch(group, resources, names)

    def _url(self, node: Node, path: str) -> str:
        url = self.text(node, path)
        if not (url.startswith("/") or url == "*") or "*" in url[:-1]:
            self.wrong(node, path, f"{url!r} is not a path; it begins with / and may have one *, at the end")
        return url

    def _level(self, node: Node, path: str) -> AuditLevel:
        label = self.text(node, path)
        try:
            return AuditLevel.parse(label)
        except ValueError:
            self.wrong(node, path, f"{label!r} is not a level; expected one of {', '.join(LEVELS)}")
            return AuditLevel.NONE

    def _stages(self, fields: dict[str, Node], path: str) -> frozenset[str]:
        return frozenset(self.items(fields, "omitStages", path, self._stage))

    def _stage(self, node: Node, path: str) -> str:
        stage = self.text(node, path)
        if stage not in STAGES:
            self.wrong(node, path, f"{stage!r} is not a stage; expected one of {', '.join(STAGES)}")
        return stage
