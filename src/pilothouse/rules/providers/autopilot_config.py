"""The file that names providers: ``--autopilot-config``.

    providers:
    - name: default
      type: prometheus
      params: url=http://prometheus:9090,token_file=/var/run/token
      labels: {volume: [pv]}
    budget: {actionsPerHour: 100, growthPerDay: 2Ti}

``params`` is text as in Autopilot's own files, or a mapping. Other fields of those files, such as
``poll_rate``, are read and not used: rules have their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from pilothouse.api.openstorage.actions import size_problem
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.rules.join_labels import DEFAULT_LABELS, JoinLabels

LARGEST: Final = 2**20
"""Of the file, in bytes."""
TYPES: Final = ("prometheus", "embedded", "datadog", "github-scm")
"""Those that a file may name; the last two are known, and not supported."""


class ConfigError(ValueError):
    """A file that can't be used; the message says where and why."""


class ProviderConfig(msgspec.Struct, frozen=True):
    """One entry of ``providers``."""

    name: str
    type: str
    params: Mapping[str, str] = {}
    labels: JoinLabels = DEFAULT_LABELS


class WebhookConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One entry of ``webhooks``: where actions may be posted."""

    name: str
    url: str
    ca: str = ""
    """The file of the CA that its certificate is verified with; the system's if empty."""
    secret_file: str = ""
    """The file of the key that posts are signed with."""


class AutopilotConfig(msgspec.Struct, frozen=True):
    """What the file says."""

    providers: tuple[ProviderConfig, ...] = ()
    warnings: tuple[str, ...] = ()
    """What is read and not honoured."""
    webhooks: tuple[WebhookConfig, ...] = ()
    notify: tuple[str, ...] = ()
    """The webhooks that are notified of approvals, failures and declines."""
    budget: ActionBudget | None = None
    """Of all rules together."""


def read_config(path: Path) -> AutopilotConfig:
    """Raises ``ConfigError``."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as problem:
        raise ConfigError(f"{path} can't be read: {problem.strerror or problem}") from None
    if len(content) > LARGEST:
        raise ConfigError(f"{path} is larger than {LARGEST} bytes")
    try:
        tree = yaml.load(content, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as problem:
        raise ConfigError(f"{path} is not YAML: {' '.join(str(problem).split())}") from None
    try:
        return config_of(tree)
    except ConfigError as problem:
        raise ConfigError(f"{path}: {problem}") from None


def config_of(tree: Any) -> AutopilotConfig:
    """From a decoded file. Raises ``ConfigError``."""
    if tree is None:
        return AutopilotConfig()
    if not isinstance(tree, dict):
        raise ConfigError("must be a mapping with providers")
    warnings = []
    for field, text in _UNUSED.items():
        if tree.get(field) is not None:
            warnings.append(f"{field}: {text}")
    for field, text in _REFUSED.items():
        if tree.get(field) is not None:
            raise ConfigError(f"{field}: {text}")
    known = {"budget", "providers", "webhooks", "notify", *_UNUSED}
    if unknown := sorted(str(field) for field in tree if field not in known):
        raise ConfigError(f"{unknown[0]}: not a field; there are {', '.join(sorted(known))}")
    listed = tree.get("providers") or []
    if not isinstance(listed, list):
        raise ConfigError("providers: must be a list")
    providers = tuple(_provider(each, f"providers[{number}]") for number, each in enumerate(listed))
    names = [each.name for each in providers]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise ConfigError(f"providers[{number}].name: {name} is given twice")
    warnings += [
        f"provider {each.name}: {each.type} is not supported"
        for each in providers
        if each.type in ("datadog", "github-scm")
    ]
    webhooks = _webhooks(tree.get("webhooks") or [])
    notify = tree.get("notify") or []
    if not isinstance(notify, list):
        raise ConfigError("notify: must be a list of names of webhooks")
    for number, name in enumerate(notify):
        if name not in [each.name for each in webhooks]:
            raise ConfigError(f"notify[{number}]: there is no webhook {name}")
    return AutopilotConfig(providers, tuple(warnings), webhooks, tuple(notify), _budget(tree.get("budget")))


def _budget(tree: Any) -> ActionBudget | None:
    if tree is None:
        return None
    if not isinstance(tree, dict):
        raise ConfigError("budget: must be a mapping such as {actionsPerHour: 100}")
    known = [each.encode_name for each in msgspec.structs.fields(ActionBudget)]
    if unknown := sorted(str(field) for field in tree if field not in known):
        raise ConfigError(f"budget.{unknown[0]}: not a field; there are {', '.join(known)}")
    try:
        found = msgspec.convert(tree, ActionBudget)
    except msgspec.ValidationError as problem:
        what, _, path = str(problem).partition(" - at `$.")
        raise ConfigError(f"budget.{path.rstrip('`')}: {what}") from None
    for name, least in (("actionsPerHour", 0), ("perObjectPerDay", 0), ("concurrent", 1)):
        if (number := tree.get(name)) is not None and number < least:
            raise ConfigError(f"budget.{name}: must be at least {least}, not {number}")
    growth = found.growth_per_day
    if growth is not None and (wrong := size_problem(growth)):
        raise ConfigError(f"budget.growthPerDay: {growth!r} {wrong}")
    return found


def _webhooks(listed: Any) -> tuple[WebhookConfig, ...]:
    try:
        found = msgspec.convert(listed, tuple[WebhookConfig, ...])
    except msgspec.ValidationError as problem:
        raise ConfigError(f"webhooks: {problem}") from None
    names = [each.name for each in found]
    for number, each in enumerate(found):
        if each.name in names[:number]:
            raise ConfigError(f"webhooks[{number}].name: {each.name} is given twice")
        if not each.url.startswith(("https://", "http://")):
            raise ConfigError(f"webhooks[{number}].url: must begin with https:// or http://")
    return found


_UNUSED: Final = {
    "min_poll_interval": "is not used; each rule has its pollInterval, and timers end when they are due",
    "poll_rate": "is not used; each rule has its pollInterval",
    "cool_down_rate": "is not used; each rule has its actionsCoolDownPeriod",
}
_GITOPS: Final = (
    "is not supported: an ActionApproval is an object, so that any GitOps tool can apply it; let the rule "
    "ask with enforcement: approvalRequired, and notify people by the fields webhooks and notify"
)
_REFUSED: Final = {"gitops": _GITOPS, "github": _GITOPS, "bitbucket-scm": _GITOPS}


def _provider(tree: Any, path: str) -> ProviderConfig:
    if not isinstance(tree, dict):
        raise ConfigError(f"{path}: must be a mapping with name, type and params")
    known = ("name", "type", "params", "labels")
    if unknown := sorted(str(field) for field in tree if field not in known):
        raise ConfigError(f"{path}.{unknown[0]}: not a field; there are {', '.join(known)}")
    kind = tree.get("type") or "prometheus"
    if kind not in TYPES:
        raise ConfigError(f"{path}.type: {kind} is not one of {', '.join(TYPES)}")
    name = tree.get("name") or kind
    if not isinstance(name, str):
        raise ConfigError(f"{path}.name: must be text")
    try:
        labels = msgspec.convert(tree.get("labels") or {}, JoinLabels)
    except msgspec.ValidationError as problem:
        raise ConfigError(f"{path}.labels: {problem}") from None
    if kind == "embedded" and labels != DEFAULT_LABELS:
        raise ConfigError(f"{path}.labels: embedded checks its pages by the default ones")
    return ProviderConfig(name, kind, _params(tree.get("params") or {}, f"{path}.params"), labels)


def _params(value: Any, path: str) -> Mapping[str, str]:
    if isinstance(value, dict):
        return {str(key): _text(each) for key, each in value.items()}
    if not isinstance(value, str):
        raise ConfigError(f"{path}: must be text such as url=http://prometheus:9090, or a mapping")
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in value.split(","))):
        key, equals, text = part.partition("=")
        if not equals:
            raise ConfigError(f"{path}: {part!r} is not KEY=VALUE")
        found[key.strip()] = text.strip()
    return found


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
