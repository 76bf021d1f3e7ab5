"""Files of the kind ``AdmissionConfiguration`` of ``apiserver.config.k8s.io/v1``.

    read_admission_configuration(text, Path("admission.yaml"), read=lambda file: file.read_text())

Only ``PodSecurity`` can be configured, inline or in another file. Any mistake refuses the whole file, with
line and field: a server that does not start is better than a policy that forbids less than intended.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pilothouse.api.pod_security.policy import (
    MODES,
    LevelVersion,
    NamespacePolicy,
    PolicyVersion,
    parse_level,
    parse_version,
)
from pilothouse.apiserver.admission.configuration_documents import (
    DocumentError,
    DocumentReader,
    Node,
    compose,
)
from pilothouse.apiserver.admission.pod_security.configuration import (
    DEFAULT_CONFIGURATION,
    Exemptions,
    PodSecurityConfiguration,
)
from pilothouse.meta import names

PLUGIN: Final = "PodSecurity"
_ADMISSION: Final = ("apiserver.config.k8s.io/v1",)
_GROUP: Final = "pod-security.admission.config.k8s.io"
_POD_SECURITY: Final = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))

ReadText = Callable[[Path], str]


class AdmissionFileError(Exception):
    """A configuration that can't be used; one line a mistake, each with file, line and field."""


def read_admission_configuration(text: str, source: Path, read: ReadText) -> PodSecurityConfiguration:
    """What a file's text says about Pod Security. ``read`` reads a file that the text names."""
    reader = _Reader(source, read)
    found = reader.admission(_composed(text, source, f"an AdmissionConfiguration of {_ADMISSION[0]}"))
    if reader.problems:
        raise AdmissionFileError("\n".join(reader.problems))
    return found


def _composed(text: str, source: Path, what: str) -> Node:
    try:
        document = compose(text, str(source))
    except DocumentError as problem:
        raise AdmissionFileError(str(problem)) from None
    if document is None:
        raise AdmissionFileError(f"{source}: the file is empty; it should hold {what}")
    return document


class _Reader(DocumentReader):
    def __init__(self, source: Path, read: ReadText) -> None:
        super().__init__(str(source))
        self._folder = source.parent
        self._read = read

    def admission(self, node: Node) -> PodSecurityConfiguration:
        fields = self.fields(node, "", ("apiVersion", "kind", "plugins"))
        self._check_kind(node, fields, "", _ADMISSION, "AdmissionConfiguration")
        plugins = self.items(fields, "plugins", "", self._plugin)
        if len(plugins) > 1:
            self.wrong(fields["plugins"], "plugins", f"{PLUGIN} is given twice")
        return plugins[0] if plugins else DEFAULT_CONFIGURATION

    def _plugin(self, node: Node, path: str) -> PodSecurityConfiguration:
        fields = self.fields(node, path, ("name", "path", "configuration"))
        name = self.optional(fields, "name", path, self.text, "")
        if name != PLUGIN:
            what = f"{name!r} is not a plugin of this server" if name else "is missing"
            self.wrong(fields.get("name", node), f"{path}.name", f"{what}; the one to configure is {PLUGIN}")
            return DEFAULT_CONFIGURATION
        if "configuration" in fields and "path" in fields:
            self.wrong(fields["path"], f"{path}.path", "can't be combined with configuration")
        if "configuration" in fields:
            return self._pod_security(fields["configuration"], f"{path}.configuration")
        if file := self.optional(fields, "path", path, self.text, ""):
            return self._of_file(self._folder / file)
        return DEFAULT_CONFIGURATION

    def _of_file(self, file: Path) -> PodSecurityConfiguration:
        reader = _Reader(file, self._read)
        what = f"a PodSecurityConfiguration of {_POD_SECURITY[0]}"
        found = reader._pod_security(_composed(self._read(file), file, what), "")
        self.problems += reader.problems
        return found

    def _pod_security(self, node: Node, path: str) -> PodSecurityConfiguration:
        fields = self.fields(node, path, ("apiVersion", "kind", "defaults", "exemptions"))
        self._check_kind(node, fields, path, _POD_SECURITY, "PodSecurityConfiguration")
        return PodSecurityConfiguration(
            self.optional(fields, "defaults", path, self._defaults, NamespacePolicy()),
            self.optional(fields, "exemptions", path, self._exemptions, Exemptions()),
        )

    def _defaults(self, node: Node, path: str) -> NamespacePolicy:
        known = tuple(field for mode in MODES for field in (mode, f"{mode}-version"))
        fields = self.fields(node, path, known)
        modes = {
            mode: LevelVersion(
                self.optional(fields, mode, path, self._level, LevelVersion().level),
                self.optional(fields, f"{mode}-version", path, self._version, LevelVersion().version),
            )
            for mode in MODES
        }
        return NamespacePolicy(**modes)

    def _exemptions(self, node: Node, path: str) -> Exemptions:
        fields = self.fields(node, path, ("usernames", "namespaces", "runtimeClasses"))
        return Exemptions(
            self._unique(fields, "usernames", path, lambda text: "" if text else "must not be empty"),
            self._unique(fields, "namespaces", path, names.label),
            self._unique(fields, "runtimeClasses", path, names.subdomain),
        )

    def _unique(
        self, fields: dict[str, Node], name: str, path: str, rule: Callable[[str], str]
    ) -> frozenset[str]:
        seen: set[str] = set()

        def take(node: Node, where: str) -> str:
            text = self.text(node, where)
            if wrong := rule(text):
                self.wrong(node, where, f"{text!r}: {wrong}")
            elif text in seen:
                self.wrong(node, where, f"{text!r} is given twice")
            seen.add(text)
            return text

        return frozenset(self.items(fields, name, path, take))

    def _level(self, node: Node, path: str) -> str:
        text = self.text(node, path)
        # As in Kubernetes, what is empty is as if it were not there.
        level, wrong = parse_level(text or LevelVersion().level)
        if wrong:
            self.wrong(node, path, f"{text!r} {wrong}")
        return level

    def _version(self, node: Node, path: str) -> PolicyVersion:
        text = self.text(node, path)
        version, wrong = parse_version(text or "latest")
        if wrong:
            self.wrong(node, path, f"{text!r} {wrong}")
        return version

    def _check_kind(
        self, node: Node, fields: dict[str, Node], path: str, versions: tuple[str, ...], kind: str
    ) -> None:
        for name, allowed in (("apiVersion", versions), ("kind", (kind,))):
            given = self.optional(fields, name, path, self.text, "")
            if given not in allowed:
                where = f"{path}.{name}" if path else name
                found = f", not {given}" if given else ""
                self.wrong(fields.get(name, node), where, f"must be {' or '.join(allowed)}{found}")
