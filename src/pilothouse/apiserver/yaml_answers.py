"""Answers in YAML, for the few who ask for it.

Written so that it reads back as the same JSON, here and in Kubernetes: both read YAML 1.1, where a bare ``y`` is true.
"""

from __future__ import annotations

import re

import msgspec
import yaml


class _Dumper(yaml.CSafeDumper):
    """Quotes the words that other readers take for booleans, which PyYAML's own resolver does not know of."""


_Dumper.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^[yYnN]$"), list("yYnN"))


def write(body: bytes) -> bytes:
    """JSON, translated."""
    text: str = yaml.dump(msgspec.json.decode(body), Dumper=_Dumper, allow_unicode=True, sort_keys=False)
    return text.encode()
