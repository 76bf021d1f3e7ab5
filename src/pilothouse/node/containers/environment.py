"""The environment of a container: the image's variables, service links, ``envFrom``, ``env``; later ones
override.

    env = environment(pod, container, sources, image_env, address="127.8.1.2", ...)
    expanded("--name=$(POD_NAME)", env)                  # "--name=web-0"; "$$(X)" is "$(X)"

``sources`` holds the config maps and secrets that ``referenced_sources`` lists; a missing one that isn't
optional raises ``NotReady``. ``$(NAME)`` in a value refers to an earlier variable, in a command to any; an
undefined one stays as it is.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pilothouse.api.objects import Object, Tree
from pilothouse.base.quantity import parse_quantity
from pilothouse.client.in_cluster import OTHER_SERVERS
from pilothouse.node.containers.service_links import service_links
from pilothouse.node.interfaces import NotReady

PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OWN_PROGRAMS: Final = str(Path(sys.executable).parent)
"""The programs of this installation, last in every PATH, also an image's: database pods start a pilot."""
CONFIG_MAP, SECRET = "ConfigMap", "Secret"
Source = tuple[str, str]
"""Kind and name."""
Sources = Mapping[Source, Object | None]
_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
_NAME: Final = re.compile(r"[ -<>-~]+")
"""Printable ASCII but for ``=``."""
LONGEST: Final = 128 << 10
"""The longest variable or argument, in characters: the kernel's limit."""
MOST_IN_ALL: Final = 4 << 20
"""Characters of all variables, and of all arguments, of a container: nested references grow exponentially."""
_SUBSCRIPT: Final = re.compile(r"(metadata\.(?:labels|annotations))\['([^']*)'\]")
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_ALL_KEYS: Final = (("configMapRef", CONFIG_MAP), ("secretRef", SECRET))
_ONE_KEY: Final = (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET))


def referenced_sources(container: Tree) -> set[Source]:
    """The config maps and secrets that a container's environment refers to."""
    references = [(each, _ALL_KEYS) for each in container.get("envFrom") or ()]
    references += [(each.get("valueFrom") or {}, _ONE_KEY) for each in container.get("env") or ()]
    return {
        (kind, source[field].get("name", ""))
        for source, fields in references
        for field, kind in fields
        if source.get(field)
    }


def environment(
    pod: Object,
    container: Tree,
    sources: Sources,
    image: Mapping[str, str],
    *,
    address: str,
    host: str,
    allocatable: Mapping[str, str],
    server: str = "",
    other_servers: Sequence[str] = (),
    services: Sequence[Object] = (),
) -> dict[str, str]:
    """The environment. ``server`` is the URL of the API server, ``other_servers`` are those of its peers,
    ``services`` are the services of the namespace. Raises ``NotReady``."""
    links = service_links(services) if pod.spec.get("enableServiceLinks", True) else {}
    env = {
        "PATH": PATH,
        **image,
        **links,
        **dict(_api_server_variables(server, other_servers)),
        "HOSTNAME": hostname(pod),
    }
    env["PATH"] = f"{env['PATH']}:{OWN_PROGRAMS}"
    for each in container.get("envFrom") or ():
        env |= {each.get("prefix", "") + name: value for name, value in _all_of(each, sources)}
    total = sum(map(len, env.values()))
    for each in container.get("env") or ():
        name = each["name"]
        if each.get("valueFrom"):
            value = _value(pod, container, name, each["valueFrom"], sources, address, host, allocatable)
            if value is not None:
                env[name] = value
        else:
            env[name] = expanded(each.get("value") or "", env)
            total += len(env[name])
            if total > MOST_IN_ALL:
                raise NotReady(
                    _CONFIG_ERROR, f"the environment is larger than {MOST_IN_ALL} characters in all"
                )
    return env


def _api_server_variables(server: str, others: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The variables by which client libraries find the API server; ours also finds its peers."""
    parts = urlsplit(server)
    if parts.hostname:
        port = str(parts.port or 443)
        yield "KUBERNETES_SERVICE_HOST", parts.hostname
        yield "KUBERNETES_SERVICE_PORT", port
        yield "KUBERNETES_SERVICE_PORT_HTTPS", port
        if others:
            yield OTHER_SERVERS, ",".join(others)


def hostname(pod: Object) -> str:
    name: str = pod.spec.get("hostname") or pod.name
    return name[:63].rstrip("-.")


def expanded(text: str, env: Mapping[str, str], limit: int = LONGEST) -> str:
    """Replace ``$(NAME)`` where it is defined, and ``$$`` by ``$``. Raises ``NotReady`` beyond the limit."""
    size = len(text)

    def replaced(match: re.Match[str]) -> str:
        nonlocal size
        value = "$" if match[0] == "$$" else env.get(match[1], match[0])
        size += len(value) - len(match[0])
        if size > limit:
            raise NotReady(
                _CONFIG_ERROR, f"a value that refers to variables is longer than {limit} characters"
            )
        return value

    return _REFERENCE.sub(replaced, text)


def _all_of(each: Tree, sources: Sources) -> Iterator[tuple[str, str]]:
    for field, kind in _ALL_KEYS:
        if (reference := each.get(field)) and (found := _source(kind, reference, sources)) is not None:
            for key, value in _texts(kind, found).items():
                # Kubernetes skips invalid variable names too.
                if _NAME.fullmatch(each.get("prefix", "") + key):
                    yield key, value


def _source(kind: str, reference: Tree, sources: Sources) -> Object | None:
    name = reference.get("name", "")
    found = sources.get((kind, name))
    if found is None and not reference.get("optional"):
        plural = "configmap" if kind == CONFIG_MAP else "secret"
        raise NotReady(_CONFIG_ERROR, f'{plural} "{name}" not found')
    return found


def _texts(kind: str, source: Object) -> dict[str, str]:
    data = source.get("data") or {}
    if kind == CONFIG_MAP:
        return dict(data)
    return {key: base64.b64decode(value).decode(errors="replace") for key, value in data.items()}


def _value(
    pod: Object,
    container: Tree,
    variable: str,
    source: Tree,
    sources: Sources,
    address: str,
    host: str,
    allocatable: Mapping[str, str],
) -> str | None:
    for field, kind in _ONE_KEY:
        if reference := source.get(field):
            found = _source(kind, reference, sources)
            if found is None:
                return None
            value = _texts(kind, found).get(reference["key"])
            if value is None and not reference.get("optional"):
                where = f"{kind} {pod.namespace}/{reference.get('name', '')}"
                raise NotReady(_CONFIG_ERROR, f"couldn't find key {reference['key']} in {where}")
            return value
    if reference := source.get("fieldRef"):
        return field_value(pod, reference["fieldPath"], address=address, host=host)
    if reference := source.get("resourceFieldRef"):
        return resource_value(pod, container, reference, allocatable)
    raise NotReady(_CONFIG_ERROR, f"env {variable}: valueFrom has no source that is known: {sorted(source)}")


def field_value(pod: Object, path: str, *, address: str, host: str) -> str:
    """The field of the pod that a ``fieldRef`` names. Raises ``NotReady``."""
    fields = {
        "metadata.name": pod.name,
        "metadata.namespace": pod.namespace,
        "metadata.uid": pod.uid,
        "spec.nodeName": str(pod.spec.get("nodeName") or ""),
        "spec.serviceAccountName": str(pod.spec.get("serviceAccountName") or ""),
        **dict.fromkeys(("status.podIP", "status.podIPs"), address),
        **dict.fromkeys(("status.hostIP", "status.hostIPs"), host),
    }
    if path in fields:
        return fields[path]
    if match := _SUBSCRIPT.fullmatch(path):
        held = pod.labels if match[1] == "metadata.labels" else pod.annotations
        return held.get(match[2], "")
    raise NotReady(_CONFIG_ERROR, f"fieldPath {path!r} is not one that an environment variable can have")


def resource_value(pod: Object, container: Tree, reference: Tree, allocatable: Mapping[str, str]) -> str:
    """The limit or request that a ``resourceFieldRef`` names, divided and rounded up. Raises ``NotReady``."""
    part, _, resource = str(reference["resource"]).partition(".")
    named = reference.get("containerName") or container["name"]
    containers = [*(pod.spec.get("initContainers") or ()), *(pod.spec.get("containers") or ())]
    found: Any = next((each for each in containers if each["name"] == named), None)
    if found is None:
        raise NotReady(_CONFIG_ERROR, f'resourceFieldRef: the pod has no container "{named}"')
    text = ((found.get("resources") or {}).get(part) or {}).get(resource)
    if text is None:
        # Without a limit, a container can use all that the node can allocate.
        text = allocatable.get(resource, "0") if part == "limits" else "0"
    amount, divisor = parse_quantity(str(text)), parse_quantity(str(reference.get("divisor") or "1"))
    if not divisor.nanos:
        divisor = parse_quantity("1")
    return str(-(-amount.nanos // divisor.nanos))
