r"""Escapes untrusted text for a terminal: control characters are shown, not interpreted.

>>> escape_control_characters("\x1b[31mred\r\nfake line")
'^[[31mred^M^Jfake line'
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters except tab, line separators, characters that change the text direction, and surrogates:
names of files that are not UTF-8 have them, and no encoder takes them."""


def escape_control_characters(text: str) -> str:
    """The text on one line, with control characters in caret notation, as kubectl writes them."""
    return _CONTROLS.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"\\u{code:04x}"
