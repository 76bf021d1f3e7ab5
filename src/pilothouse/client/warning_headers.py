"""``Warning`` headers: what a server has to say about a request that it answered all the same."""

from __future__ import annotations

import re
from collections.abc import Iterable

_WARNING = re.compile(r'299 \S+ "(.*)"', re.DOTALL)


def warning_texts(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts, without code, agent and quotes."""
    found = (_WARNING.fullmatch(text) for text in headers)
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)
