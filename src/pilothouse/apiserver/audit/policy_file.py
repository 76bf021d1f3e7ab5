"""Policy files: YAML of the kind ``Policy`` of ``audit.k8s.io/v1``.

    read_policy("apiVersion: audit.k8s.io/v1\\nkind: Policy\\nrules: [{level: Metadata}]\\n", "policy.yaml")

A file with any mistake is refused as a whole, with every mistake, its line and its field: a policy that records less than
its author thinks is worse than a server that does not start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import yaml

from pilothouse.apiserver.audit.policy import LEVELS, STAGES, Level, Policy, Resources, Rule

API_VERSION = "audit.k8s.io/v1"
_TEXT, _BOOLEAN = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"
_NULL = "tag:yaml.org,2002:null"
_TRUE = frozenset({"true", "yes", "on"})
_ABOUT_RESOURCES = ("resources", "namespaces")

T = TypeVar("T")


class PolicyFileError(Exception):
    """A policy that can't be used; one line a mistake, each with file, line and field."""


def read_policy(text: str, source: str) -> Policy:
    """The policy in a file's text. ``source`` is what messages call the file."""
    try:
        document = yaml.compose(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError as problem:
        raise PolicyFileError(f"{source}: not valid YAML: {' '.join(str(problem).split())}") from None
    if document is None:
        raise PolicyFileError(f"{source}: the file is empty; it should hold a Policy of {API_VERSION}")
    reader = _Reader(source)
    policy = reader.policy(document)
    if reader.problems:
        raise PolicyFileError("\n".join(reader.problems))
    return policy


class _Reader:
    """Goes through a document and gathers what is wrong with it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.problems: list[str] = []

    def policy(self, node: yaml.Node) -> Policy:
        fields = self._fields(
            node,
            "",
            ("apiVersion", "kind", "metadata", "rules", "omitStages", "omitManagedFields"),
        )
        for name, wanted in (("apiVersion", API_VERSION), ("kind", "Policy")):
            given = self._optional(fields, name, "", self._text, "")
            if given != wanted:
                self._wrong(
                    fields.get(name, node), name, f"must be {wanted}" + (f", not {given}" if given else "")
                )
        rules = self._list(fields, "rules", "", self._rule)
        if not rules and not self.problems:
            self._wrong(
                fields.get("rules", node), "rules", "there must be at least one, or nothing is recorded"
            )
        return Policy(
            rules,
            omit_stages=self._stages(fields, ""),
            omit_managed_fields=self._optional(fields, "omitManagedFields", "", self._flag, False),
        )

    def _rule(self, node: yaml.Node, path: str) -> Rule:
        fields = self._fields(
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
            self._wrong(node, f"{path}.level", f"is missing; one of {', '.join(LEVELS)}")
        about_resources = [name for name in _ABOUT_RESOURCES if name in fields]
        if about_resources and "nonResourceURLs" in fields:
            self._wrong(
                fields["nonResourceURLs"],
                f"{path}.nonResourceURLs",
                f"can't stand beside {about_resources[0]}: no request is for both; make it two rules",
            )
        return Rule(
            level=self._optional(fields, "level", path, self._level, Level.NONE),
            users=self._words(fields, "users", path),
            groups=self._words(fields, "userGroups", path),
            verbs=self._words(fields, "verbs", path),
            resources=self._list(fields, "resources", path, self._resources),
            namespaces=self._words(fields, "namespaces", path),
            paths=self._list(fields, "nonResourceURLs", path, self._url),
            omit_stages=self._stages(fields, path),
            omit_managed_fields=self._optional(fields, "omitManagedFields", path, self._flag, None),
        )

    def _resources(self, node: yaml.Node, path: str) -> Resources:
        fields = self._fields(node, path, ("group", "resources", "resourceNames"))
        group = self._optional(fields, "group", path, self._text, "")
        if "/" in group or "*" in group or group != group.lower():
            self._wrong(
                fields["group"],
                f"{path}.group",
                f"{group!r} is no group; a name such as apps, no version, no *",
            )
        names = self._words(fields, "resourceNames", path)
        resources = self._words(fields, "resources", path)
        if names and not resources:
            self._wrong(node, f"{path}.resourceNames", "needs at least one entry in resources")
        for resource in sorted(resources):
            if resource.count("/") > 1 or "" in resource.split("/"):
                self._wrong(
                    fields["resources"],
                    f"{path}.resources",
                    f"{resource!r} is no resource; write pods, pods/log, pods/*, */scale or *",
                )
        return Resources(group, resources, names)

    def _url(self, node: yaml.Node, path: str) -> str:
        url = self._text(node, path)
        if not (url.startswith("/") or url == "*") or "*" in url[:-1]:
            self._wrong(node, path, f"{url!r} is no path; it begins with / and may have one *, at the end")
        return url

    def _level(self, node: yaml.Node, path: str) -> Level:
        label = self._text(node, path)
        try:
            return Level.parse(label)
        except ValueError:
            self._wrong(node, path, f"{label!r} is no level; one of {', '.join(LEVELS)}")
            return Level.NONE

    def _stages(self, fields: dict[str, yaml.Node], path: str) -> frozenset[str]:
        return frozenset(self._list(fields, "omitStages", path, self._stage))

    def _stage(self, node: yaml.Node, path: str) -> str:
        stage = self._text(node, path)
        if stage not in STAGES:
            self._wrong(node, path, f"{stage!r} is no stage; one of {', '.join(STAGES)}")
        return stage

    def _flag(self, node: yaml.Node, path: str) -> bool:
        if node.tag != _BOOLEAN:
            self._wrong(node, path, "must be true or false")
            return False
        return str(node.value).lower() in _TRUE

    def _text(self, node: yaml.Node, path: str) -> str:
        if not isinstance(node, yaml.ScalarNode) or node.tag != _TEXT:
            self._wrong(node, path, "must be text")
            return ""
        return str(node.value)

    def _words(self, fields: dict[str, yaml.Node], name: str, path: str) -> frozenset[str]:
        return frozenset(self._list(fields, name, path, self._text))

    def _list(
        self, fields: dict[str, yaml.Node], name: str, path: str, item: Callable[[yaml.Node, str], T]
    ) -> tuple[T, ...]:
        node = fields.get(name)
        where = f"{path}.{name}" if path else name
        if node is None or node.tag == _NULL:
            return ()
        if not isinstance(node, yaml.SequenceNode):
            self._wrong(node, where, "must be a list")
            return ()
        return tuple(item(each, f"{where}[{index}]") for index, each in enumerate(node.value))

    def _optional(
        self,
        fields: dict[str, yaml.Node],
        name: str,
        path: str,
        read: Callable[[yaml.Node, str], T],
        default: T,
    ) -> T:
        if name not in fields:
            return default
        return read(fields[name], f"{path}.{name}" if path else name)

    def _fields(self, node: yaml.Node, path: str, known: tuple[str, ...]) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            self._wrong(node, path or "the document", "must be a mapping")
            return {}
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = str(key.value)
            where = f"{path}.{name}" if path else name
            if name not in known:
                self._wrong(key, where, f"is no field here; known are {', '.join(known)}")
            elif name in fields:
                self._wrong(key, where, "is given twice")
            fields[name] = value
        return fields

    def _wrong(self, node: yaml.Node, path: str, what: str) -> None:
        self.problems.append(f"{self._source}, line {node.start_mark.line + 1}: {path}: {what}")
