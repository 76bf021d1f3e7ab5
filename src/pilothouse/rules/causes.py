"""The comparisons that were made for one object, as an ApplicationAction records them.

    list(compared_expression.of(position, "db/data-0"))        # one Cause for each sample

``level`` and ``object`` say whose value it is, which may be an object above or below the rule's, and
``series`` what else the value is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgspec
import numpy as np

from pilothouse.api.openstorage.v1alpha1 import Cause, Expression
from pilothouse.base.rfc3339 import format_time
from pilothouse.rules.join import Joined
from pilothouse.rules.join_labels import DEFAULT_LABELS
from pilothouse.rules.rule_queries import text_of
from pilothouse.rules.verdicts import MET, UNKNOWN, Series, ThresholdComparison, compared

_OF_TARGETS: Final = frozenset(
    {
        "__name__", "container", "endpoint", "instance", "job", "prometheus", "server", "service", "uid",
        *(name for names in msgspec.structs.astuple(DEFAULT_LABELS) for name in names),
    }
)  # fmt: skip
"""Labels that say where a series was read, and which object it is about."""
_MOST_LABELS: Final = 8
_LONGEST_LABEL: Final = 253


class ComparedExpression(msgspec.Struct, frozen=True):
    """An expression, and the samples that it was compared with."""

    expression: Expression
    comparison: ThresholdComparison
    level: str
    joined: Joined
    candidate: str = ""

    def of(self, position: int, own: str, *, held: bool = False) -> Iterator[Cause]:
        """A Cause for each sample of the object at this position, whose name is ``own``; ``held`` says
        whether the comparison was met before."""
        joined = self.joined
        for sample in np.flatnonzero(joined.object_of == position).tolist():
            name = own if joined.seen_at is None else joined.names[int(joined.seen_at[sample])]
            verdict = int(
                compared(
                    self.comparison,
                    Series(np.zeros(1, np.int32), joined.values[sample : sample + 1]),
                    np.array([held]),
                )[0]
            )
            yield self._cause(
                value=f"{joined.values[sample]:g}",
                time=format_time(float(joined.times[sample])),
                object=name,
                series=_further_labels(joined.labels_of(sample)),
                held=None if verdict == UNKNOWN else verdict == MET,
            )

    def missing(self, own: str) -> Cause:
        """For an object without a sample."""
        return self._cause(object=own if self.joined.seen_at is None else "")

    def _cause(self, **fields: Any) -> Cause:
        return Cause(
            expression=text_of(self.expression),
            operator=self.expression.operator,
            threshold=self.expression.values,
            level=self.level,  # type: ignore[arg-type]
            candidate=self.candidate,
            **fields,
        )


def _further_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """What a series says beside its object, such as the name of a slot.

    A pod or a provider may have made it up. It is read by those who approve, so it has no line breaks; and
    a record has to hold it.
    """
    found = (
        (name, _one_line(value))
        for name, value in sorted(labels.items())
        if name not in _OF_TARGETS and value and len(name) <= _LONGEST_LABEL and name.isprintable()
    )
    return dict(islice(found, _MOST_LABELS))


def _one_line(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST_LABEL])
