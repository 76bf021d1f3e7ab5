"""The labels of series, shared by all that have the same.

    names = LabelSets()
    names.get({"__name__": "used_bytes", "pod": "a"}).nameless is names.get({"pod": "a"})      # True

Series are matched by the identity of their label sets: those of one evaluation come from one ``LabelSets``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NAME: Final = "__name__"


class LabelSet:
    """Immutable. Labels with an empty value are left out, as they mean the same as none."""

    __slots__ = ("_sets", "_without_name", "key", "labels")

    def __init__(self, labels: Mapping[str, str], key: frozenset[tuple[str, str]], sets: LabelSets) -> None:
        self.labels = labels
        self.key = key
        self._sets = sets
        self._without_name: LabelSet | None = None

    @property
    def nameless(self) -> LabelSet:
        """Without ``__name__``."""
        if self._without_name is None:
            if NAME in self.labels:
                self._without_name = self._sets.get(
                    {name: value for name, value in self.labels.items() if name != NAME}
                )
            else:
                self._without_name = self
        return self._without_name

    def only(self, names: frozenset[str]) -> LabelSet:
        return self._sets.get({name: value for name, value in self.labels.items() if name in names})

    def without(self, names: frozenset[str]) -> LabelSet:
        """Without these, and without ``__name__``."""
        return self._sets.get(
            {name: value for name, value in self.labels.items() if name not in names and name != NAME}
        )

    def changed(self, changes: Mapping[str, str]) -> LabelSet:
        """With these instead; an empty value removes a label."""
        return self._sets.get({**self.labels, **changes})

    def __repr__(self) -> str:
        return "{" + ", ".join(f'{name}="{value}"' for name, value in sorted(self.labels.items())) + "}"


class LabelSets:
    """One object for each set of labels that is in use."""

    def __init__(self) -> None:
        self._known: dict[frozenset[tuple[str, str]], LabelSet] = {}

    def get(self, labels: Mapping[str, str]) -> LabelSet:
        key = frozenset(labels.items())
        known = self._known.get(key)
        if known is None:
            if "" in labels.values():
                return self.get({name: value for name, value in labels.items() if value})
            known = self._known[key] = LabelSet(dict(labels), key, self)
        return known

    def __len__(self) -> int:
        return len(self._known)

    def retain(self, used: frozenset[LabelSet]) -> None:
        """Forget all but these, and what they are without their name."""
        kept = used | {each.nameless for each in used}
        self._known = {each.key: each for each in kept}
