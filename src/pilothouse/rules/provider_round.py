"""What one provider answers to those of its rules that are due, joined to objects.

    asked = ProviderRound(providers.get("prometheus"), "prometheus")
    await asked.ask(["100 * used / capacity"], now)
    asked.hold(tables)
    await asked.join(rule.queries.conditions)
    asked.samples("volume", rule.queries.conditions)

Each distinct expression is asked once. While a provider does not answer, tables and rules may be built anew:
only what is joined belongs to the tables of one moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from pilothouse.rules.evaluation import EvaluatedRule
from pilothouse.rules.join import Joined, join
from pilothouse.rules.level_relations import spread
from pilothouse.rules.level_tables import LevelTables
from pilothouse.rules.rule_providers import LabelledProvider
from pilothouse.rules.rule_queries import VOLUME_INFO, LevelQuery
from pilothouse.rules.samples import Answer, QueryFailure


class ProviderRound:
    def __init__(self, found: LabelledProvider | None, name: str) -> None:
        """``found`` is None if there is no provider of this name."""
        self._found = found
        self._name = name
        self._tables: LevelTables | None = None
        self._answers: dict[str, Answer] = {}
        """By the text of the query."""
        self._joined: dict[LevelQuery, Joined | QueryFailure] = {}
        self._spread: dict[tuple[LevelQuery, str], Joined] = {}
        """The samples of a level, on the objects of another."""

    async def ask(self, texts: Iterable[str], now: float) -> None:
        """Ask what was not asked yet."""
        missing = tuple(text for text in dict.fromkeys(texts) if text not in self._answers)
        if self._found is None:
            failure = QueryFailure(
                "UnknownProvider", f"there is no provider {self._name!r} in the configuration"
            )
            self._answers |= dict.fromkeys(missing, failure)
        elif missing:
            self._answers |= await self._found.provider.query(missing, now)

    def hold(self, tables: LevelTables) -> None:
        """Take the tables to which all answers are joined. They learn where volumes are, if asked."""
        info = self._answers.get(VOLUME_INFO)
        if info is not None and not isinstance(info, QueryFailure):
            tables.inform(self._name, info)
        self._tables = tables.held()

    async def join(self, queries: Iterable[LevelQuery]) -> None:
        """Join the answers to these queries to objects."""
        for query in queries:
            if query not in self._joined:
                self._joined[query] = self._join(query)
                # Thousands of samples each: the lease must be renewed meanwhile.
                await asyncio.sleep(0)

    def samples(self, about: str, queries: Sequence[LevelQuery]) -> list[Joined] | QueryFailure:
        """The samples of the objects of a level, or why an expression has none."""
        found: list[Joined] = []
        for query in queries:
            answer = self._joined[query]
            if isinstance(answer, QueryFailure):
                return answer
            found.append(answer if query.level == about else self._on(about, query, answer))
        return found

    def of_candidates(self, rule: EvaluatedRule) -> list[list[Joined]] | QueryFailure:
        """Those of each candidate of a rule."""
        found: list[list[Joined]] = []
        for queries in rule.queries.candidates:
            each = self.samples(rule.table.level, queries)
            if isinstance(each, QueryFailure):
                return each
            found.append(each)
        return found

    def _join(self, query: LevelQuery) -> Joined | QueryFailure:
        answer = self._answers[query.text]
        if isinstance(answer, QueryFailure):
            return answer
        assert self._found is not None
        assert self._tables is not None
        return join(answer, self._tables.table(query.level).index, self._found.labels)

    def _on(self, about: str, query: LevelQuery, answer: Joined) -> Joined:
        assert self._tables is not None
        if (known := self._spread.get((query, about))) is None:
            relation = self._tables.relation(query.level, about)
            names = self._tables.table(query.level).names
            known = self._spread[query, about] = spread(answer, relation, names)
        return known
