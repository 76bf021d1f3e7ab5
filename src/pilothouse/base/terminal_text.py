r"""Text of others, made fit for a terminal: what would steer it is shown instead.

>>> visible("\x1b[31mred\r\nfake line")
'^[[31mred^M^Jfake line'
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""All controls but the tab; separators of lines; and what turns the direction of text round."""


def escape_control_characters(text: str) -> str:
    """The text on one line, with control characters in caret notation, as kubectl writes them."""
    return _CONTROLS.sub(_shown, text)


def _shown(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"^{chr(code ^ 0x40)}" if code < 0x80 else f"\\u{code:04x}"
