"""YAML responses that read back as the same JSON, also by YAML 1.1 readers, for which a bare ``y`` is
true."""

from __future__ import annotations

import re

import msgspec
import yaml


class _Dumper(yaml.CSafeDumper):
    """Quotes text that other readers take for a boolean or a number, though PyYAML's own reader does not."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"^[-+.]*[0-9][-+.:_0-9a-fA-FxXoO]*$"), list("-+.0123456789")
)


def write(body: bytes) -> bytes:
    text: str = yaml.dump(msgspec.json.decode(body), Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return text.encode()
