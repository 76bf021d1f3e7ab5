"""The only module that uses RE2: regular expressions in linear time.

    expression = compile_expression("a*b")
    expression.find("xxaab")            # "aab"
    expression.find_all("ab aab b")     # ["ab", "aab", "b"]

A search takes time by the text's length times ``size``, the number of instructions with repetitions expanded:
``(a?){900}`` has some 3,600. Callers limit that product for users' expressions. Huge expressions, look-around
and back-references are refused. The library is loaded on first use.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

MAX_STEPS: Final = 10_000_000
"""Instructions times bytes of one search: some 100 ms at worst, usually a hundredth of that."""

MAX_STEPS_AGAIN: Final = 2_000_000
"""The same for all searches after the first match."""
_COUNT: Final = re.compile(r"\{(\d{1,4})(?:,(\d{0,4}))?\}", re.ASCII)
_PER_CHARACTER: Final = 14
"""Instructions per character of an expression, unless it names a Unicode class."""
_PER_CLASS: Final = 2000
MAX_SIZE: Final = 5_000_000
"""Larger expressions, by ``rough_size``, aren't compiled: that would take 50 ms and more."""


class ExpressionError(ValueError):
    """The text is no RE2 expression."""


class TooManySteps(ValueError):
    """The text is too long for the expression."""


class RegularExpression:
    """A compiled expression; ``size`` is the number of its instructions."""

    def __init__(self, pattern: str) -> None:
        import re2  # It costs a start 13 ms and 3 MB, and few servers need it.

        options = re2.Options()
        options.log_errors = False
        try:
            self._compiled: Any = re2.compile(pattern.encode(), options)
        except re2.error as error:
            said = error.args[0] if error.args else "unknown error"
            detail = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
            raise ExpressionError(f"error parsing regexp: {detail}") from None
        self.size = int(self._compiled.programsize)

    def find(self, text: str) -> str:
        """The leftmost match, or the empty string."""
        found = self.find_all(text, 1)
        return found[0] if found else ""

    def find_all(self, text: str, limit: int = -1) -> list[str]:
        """The non-overlapping matches, from the left; all of them if ``limit`` is negative.

        Each match restarts the search over the rest of the text, so the sum of these searches is limited,
        too.
        """
        data = text.encode(errors="surrogatepass")
        found: list[str] = []
        if limit == 0:
            return found
        if len(data) * self.size > MAX_STEPS:
            raise _too_many(text, self.size)
        left = MAX_STEPS_AGAIN
        for match in self._compiled.finditer(data):
            found.append(match.group(0).decode(errors="replace"))
            if 0 <= limit <= len(found):
                break
            left -= (len(data) - match.end()) * self.size
            if left < 0:
                raise _too_many(text, self.size)
        return found


def _too_many(text: str, size: int) -> TooManySteps:
    return TooManySteps(
        f"a text of {len(text)} characters is too long for a regular expression of {size} instructions"
    )


@lru_cache(maxsize=256)
def compile_expression(pattern: str) -> RegularExpression:
    """Raises ExpressionError, a ValueError."""
    if rough_size(pattern) > MAX_SIZE:
        raise ExpressionError("it is too large once its repetitions are written out")
    return RegularExpression(pattern)


def rough_size(pattern: str) -> int:
    """An upper bound of an expression's size, without compiling it; often far too high."""
    wide = "\\p" in pattern or "\\P" in pattern
    bound = (len(pattern) + 2) * (_PER_CLASS if wide else _PER_CHARACTER)
    for least, most in _COUNT.findall(pattern):
        bound *= max(int(least), int(most or 0), 1)
    return bound


@lru_cache(maxsize=4096)
def size_of(pattern: str) -> int:
    """The size of an expression; an upper bound if it can't be compiled."""
    try:
        return compile_expression(pattern).size
    except ExpressionError:
        return rough_size(pattern)
