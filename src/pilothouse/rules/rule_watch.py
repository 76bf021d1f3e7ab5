"""The watch of AutopilotRules: polls metrics, and names the objects that call for a decision.

    watch = RuleWatch(providers, clock)
    await watch.run(caches, enqueue)

Rules of the same poll interval are due together, and each distinct expression is asked once for all of them.
Each provider is asked in rounds of its own, so that one that does not answer delays its own rules alone.
Expressions of candidates are asked while the conditions of their rule are met by some object. Without a rule
nothing is asked, and neither numpy nor a provider is imported; objects of a type that no rule is about cost
nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    PersistentVolume,
)
from pilothouse.api.objects import Object
from pilothouse.api.openstorage.v1alpha1 import ActionBudget
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.rules.object_types import records_of, ruled_kinds, subject_of, type_of_rule
from pilothouse.rules.readings import NO_READING, ObjectReading, PastValue, RuleFindings
from pilothouse.rules.rule_object_status import rule_object_name
from pilothouse.rules.rule_problems import invalid_because
from pilothouse.rules.rule_providers import RuleProviders
from pilothouse.rules.rule_queries import VOLUME_INFO
from pilothouse.rules.ruled_objects import RuleSettings, terms_of
from pilothouse.rules.samples import QueryFailure
from pilothouse.rules.steady_clock import SteadyClock
from pilothouse.runtime.sampled_watch import Enqueue, SubscribableCache

if TYPE_CHECKING:
    from pilothouse.rules.evaluation import EvaluatedRule
    from pilothouse.rules.join import Joined
    from pilothouse.rules.level_tables import LevelTables
    from pilothouse.rules.object_table import Positions
    from pilothouse.rules.provider_round import ProviderRound

MOST_RULE_OBJECTS: Final = 20_000
"""Above it, objects that are Normal have no AutopilotRuleObject."""
_PENDING: Final = "ActiveActionsPending"
_SETTINGS: Final = RuleSettings()
_MOST_OTHERS: Final = 6
"""How many names of other rules are found."""
_FILTERS: Final = frozenset("<>")
"""In an expression that may have no series although the metric exists."""

Caches = Mapping[KindName, SubscribableCache]
Pair = tuple[str, str]
"""The uids of a rule and of an object."""

log = logging.getLogger(__name__)


class StateOnRecord(NamedTuple):
    """What an AutopilotRuleObject says: its state, when that ends, and whether an approach was reported."""

    state: str = ""
    until: float | None = None
    approaching: bool = False


_NOTHING: Final = StateOnRecord()


class RuleReadings:
    """What the watch knows at one moment: see ``readings``."""

    def __init__(self, watch: RuleWatch, steady: SteadyClock, budget: ActionBudget | None) -> None:
        self._watch = watch
        self.budget = budget
        self.ahead = steady.ahead
        self.aheads = steady.aheads
        self.moment = steady.moment
        self.crowded = watch.crowded

    def of(self, rule: Object, one: Object) -> ObjectReading:
        evaluated = self._watch.rules.get(rule.uid)
        if evaluated is None or evaluated.terms.generation != rule.generation:
            return NO_READING
        return evaluated.reading(one.uid)

    def past(self, rule: Object, one: Object) -> Sequence[PastValue | None]:
        evaluated = self._watch.rules.get(rule.uid)
        if evaluated is None or evaluated.terms.generation != rule.generation:
            return ()
        return evaluated.past(one.uid)

    def due(self, one: Object) -> Sequence[str]:
        return [name for name, uids in self._watch.due.items() if one.uid in uids]

    def reached(self, about: str, one: Object, level: str) -> Sequence[Object] | None:
        return self._watch.reached(about, one, level)

    def findings(self, rule: Object) -> RuleFindings | None:
        found = self._watch.found.get(rule.uid)
        return found[1] if found is not None and found[0] == rule.generation else None


class RuleWatch:
    def __init__(
        self, providers: RuleProviders, clock: Clock, budget: Callable[[], ActionBudget | None] = lambda: None
    ) -> None:
        """``budget`` is that of all rules together at the time."""
        self._providers = providers
        self._budget = budget
        self._clock = clock
        self._steady = SteadyClock(clock)
        self._caches: Caches = {}
        self._enqueue: Enqueue = _nowhere
        self._tables: LevelTables | None = None
        self.rules: dict[str, EvaluatedRule] = {}
        """By uid."""
        self.found: dict[str, tuple[int, RuleFindings]] = {}
        """The generation and the findings of each rule, by its uid."""
        self.due: dict[str, set[str]] = {}
        """The uids of the objects whose last values matter, by the name of the rule."""
        self._records: dict[Pair, StateOnRecord] = {}
        self._others: Mapping[str, tuple[str, ...]] = {}
        """The names of the first few other rules on an object of each rule, by the uid of the rule."""
        self._next: dict[str, float] = {}
        """When each rule is due, by its uid."""
        self._changed = asyncio.Event()
        self._rules_changed = True
        self._under_way: set[str] = set()
        """The providers that are asked at the moment."""
        self._evaluating = asyncio.Lock()
        """Held while rules are built, or evaluated on what was built."""
        self.idle = False

    @property
    def readings(self) -> RuleReadings:
        return RuleReadings(self, self._steady, self._budget())

    @property
    def crowded(self) -> bool:
        return len(self._records) > MOST_RULE_OBJECTS

    async def run(self, caches: Caches, enqueue: Enqueue) -> None:
        """Poll until cancelled."""
        self._caches, self._enqueue, self.idle = caches, enqueue, False
        ends = [
            caches[AutopilotRule].subscribe(self._rule_changed),
            caches[Namespace].subscribe(self._namespace_changed),
            caches[PersistentVolume].subscribe(self._volume_changed),
            caches[AutopilotRuleObject].subscribe(self._record_changed),
            *(caches[kind].subscribe(partial(self._object_changed, kind)) for kind in ruled_kinds()),
        ]
        self._records.clear()
        for one in caches[AutopilotRuleObject].list():
            self._record_changed(None, one)
        self._rules_changed = True
        self.rules, self._tables = {}, None
        try:
            async with asyncio.TaskGroup() as rounds:
                while True:
                    await self._poll(rounds)
        finally:
            for end in ends:
                end()
            self.due.clear()
            self._under_way.clear()

    async def look_at_all(self) -> None:
        """Look at every rule now, whether it is due or not."""
        by_provider: dict[str, list[EvaluatedRule]] = defaultdict(list)
        for one in self.rules.values():
            by_provider[one.queries.provider].append(one)
        await asyncio.gather(*(self._round(name, each) for name, each in by_provider.items()))

    async def _poll(self, rounds: asyncio.TaskGroup) -> None:
        self._changed.clear()
        if self._rules_changed or self._due(self._clock.monotonic()):
            async with self._evaluating:
                self._rebuild()
        now = self._clock.monotonic()
        for name, due in self._due(now).items():
            for one in due:
                interval = float(one.terms.spec.poll_interval)
                # On a grid, so that rules of the same interval are due together.
                self._next[one.uid] = (now // interval + 1) * interval
            self._under_way.add(name)
            rounds.create_task(self._round(name, due))
        if not self._under_way:
            self.idle = True
        waiting = (uid for uid, one in self.rules.items() if one.queries.provider not in self._under_way)
        await self._wait_until(min((self._next[uid] for uid in waiting), default=None))

    def _due(self, now: float) -> dict[str, list[EvaluatedRule]]:
        """The rules that are due, by the provider; none of one that has not answered yet."""
        found: dict[str, list[EvaluatedRule]] = defaultdict(list)
        for uid, one in self.rules.items():
            if self._next.get(uid, 0.0) <= now and one.queries.provider not in self._under_way:
                found[one.queries.provider].append(one)
        return found

    async def _wait_until(self, moment: float | None) -> None:
        """Wait for this moment of the monotonic clock, or for a change of the rules."""
        timeout = None if moment is None else max(0.0, moment - self._clock.monotonic())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    def reached(self, about: str, one: Object, level: str) -> Sequence[Object] | None:
        """See ``Readings``."""
        if about == level:
            return (one,)
        return self._tables.reached(about, one.uid, level) if self._tables is not None else None

    def _rebuild(self) -> None:
        """Bring the tables of objects and the rules up to date."""
        rules = [one for one in self._caches[AutopilotRule].list() if not one.deleting]
        if not rules and not self.rules:
            self._tables = None
            return
        from pilothouse.rules.evaluation import shared_by
        from pilothouse.rules.level_tables import LevelTables

        if self._tables is None:
            self._tables = LevelTables(lambda kind: self._caches[kind].list())
        if not (self._tables.refresh() or self._rules_changed):
            return
        self._rules_changed = False
        earlier, self.rules = self.rules, {}
        for rule in rules:
            made = self._evaluated(rule, self._tables, earlier.get(rule.uid))
            if made is not None:
                self.rules[rule.uid] = made
        self._others = shared_by(tuple(self.rules.values()), _MOST_OTHERS)
        for pair, recorded in self._records.items():
            self._note(pair, recorded)
        for gone in set(self.found) - {rule.uid for rule in rules}:
            del self.found[gone]
            self._next.pop(gone, None)
        names = {rule.name for rule in rules}
        self.due = {name: uids for name, uids in self.due.items() if name in names}

    def _evaluated(
        self, rule: Object, tables: LevelTables, earlier: EvaluatedRule | None
    ) -> EvaluatedRule | None:
        from pilothouse.rules.evaluation import EvaluatedRule

        same = earlier is not None and earlier.terms.generation == rule.generation
        if earlier is not None and same and earlier.table is tables.table(earlier.table.level):
            return earlier
        terms = terms_of(rule, _SETTINGS)
        try:
            if not same:
                self._next.pop(rule.uid, None)
            if terms is None:
                raise ValueError(invalid_because(rule))
            made = EvaluatedRule(terms, rule.uid, tables.table(type_of_rule(terms.spec)), self._namespace)
        except ValueError as problem:
            self._find(
                rule.uid, rule.name, rule.generation, RuleFindings(0, QueryFailure("Invalid", str(problem)))
            )
            return None
        if earlier is not None and earlier.table.level == made.table.level:
            made.carry_over(earlier)
        return made

    def _namespace(self, name: str) -> Object | None:
        return self._caches[Namespace].get("", name)

    async def _round(self, name: str, due: Sequence[EvaluatedRule]) -> None:
        """Ask a provider for those of its rules that are due, and enqueue what calls for a decision."""
        from pilothouse.rules.provider_round import ProviderRound

        asked = ProviderRound(self._providers.get(name), name)
        valid = [rule.queries for rule in due if rule.queries.refusal is None]
        texts = [text for each in valid for text in each.expressions]
        if any(each.needs_info for each in valid):
            texts.append(VOLUME_INFO)
        await asked.ask(texts, self._clock.now())
        called: Sequence[tuple[EvaluatedRule, list[str]]] = ()
        async with self._evaluating:
            # None if every rule was deleted meanwhile.
            if self._tables is not None:
                asked.hold(self._tables)
                called = await self._evaluate(due, asked)
        if called:
            queries = [one for rule, _ in called for each in rule.queries.candidates for one in each]
            await asked.ask((one.text for one in queries), self._clock.now())
            async with self._evaluating:
                await asked.join(queries)
                await self._look_for_causes(called, asked)
        self._under_way.discard(name)
        self._changed.set()

    async def _evaluate(
        self, due: Sequence[EvaluatedRule], asked: ProviderRound
    ) -> list[tuple[EvaluatedRule, list[str]]]:
        """Enqueue what calls for a decision; the rules whose candidates are to be looked at before that, with
        the uids of such objects."""
        rules = list(self._present(due))
        for rule in rules:
            if rule.queries.refusal is None:
                await asked.join(rule.queries.conditions)
        each = [(rule, self._verdicts(rule, asked)) for rule in rules]
        room = MOST_RULE_OBJECTS - len(self._records)
        for rule, positions in each:
            if not rule.has_met:
                room -= self._take(rule, self._found(rule, asked), positions, room)
                await asyncio.sleep(0)
        return [
            (rule, [rule.table.objects[one].uid for one in positions.tolist()])
            for rule, positions in each
            if rule.has_met
        ]

    async def _look_for_causes(
        self, called: Sequence[tuple[EvaluatedRule, list[str]]], asked: ProviderRound
    ) -> None:
        import numpy as np

        room = MOST_RULE_OBJECTS - len(self._records)
        uids_of = {rule.uid: uids for rule, uids in called}
        for rule in self._present([rule for rule, _ in called]):
            place = rule.table.position
            positions = np.array([place[uid] for uid in uids_of[rule.uid] if uid in place], dtype=np.intp)
            # Of the tables to which the samples of its conditions were joined.
            rule.look_for_causes(asked.of_candidates(rule))
            room -= self._take(rule, self._found(rule, asked), positions, room)
            await asyncio.sleep(0)

    def _present(self, rules: Iterable[EvaluatedRule]) -> Iterator[EvaluatedRule]:
        """These rules as they are now, over the present objects; not those that were edited or deleted."""
        for rule in rules:
            found = self.rules.get(rule.uid)
            if found is not None and found.terms.generation == rule.terms.generation:
                yield found

    def _found(self, rule: EvaluatedRule, asked: ProviderRound) -> list[Joined] | QueryFailure:
        """The samples of the rule's objects, or why an expression has none."""
        return rule.queries.refusal or asked.samples(rule.table.level, rule.queries.conditions)

    def _verdicts(self, rule: EvaluatedRule, asked: ProviderRound) -> Positions:
        """Evaluate a rule: the positions of the objects that call for a decision."""
        found = self._found(rule, asked)
        return rule.evaluate(None if isinstance(found, QueryFailure) else found, self._steady.now())

    def _take(
        self, rule: EvaluatedRule, found: list[Joined] | QueryFailure, positions: Positions, room: int
    ) -> int:
        """Enqueue these objects of a rule, and note its findings; how many get their first record."""
        import numpy as np

        from pilothouse.rules.evaluation import ABSENT
        from pilothouse.rules.verdicts import MET

        failure = found if isinstance(found, QueryFailure) else None
        answers = [] if isinstance(found, QueryFailure) else found
        absent = rule.state[positions] == ABSENT
        made = int(absent.sum())
        left_out = 0
        if made > room:
            # Those that are met come first; the others have to do without a record.
            optional = np.flatnonzero(absent & (rule.verdicts[positions] != MET))
            dropped = optional[max(0, room - (made - len(optional))) :]
            left_out, made = len(dropped), made - len(dropped)
            positions = np.delete(positions, dropped)
        self._enqueue_all(rule, positions.tolist())
        count = len(rule.table)
        self._find(
            rule.uid,
            rule.terms.name,
            rule.terms.generation,
            RuleFindings(
                rule.objects,
                failure,
                max((one.unmatched for one in answers), default=0),
                max((len(one.several(count)) for one in answers), default=0),
                left_out,
                rule.oversized,
                self._others.get(rule.uid, ()),
                _missing(rule.queries.expressions, answers),
            ),
        )
        return made

    def _enqueue_all(self, rule: EvaluatedRule, positions: Iterable[int]) -> None:
        name = rule.terms.name
        self.due[name] = due = set[str]()
        pending = _code(_PENDING)
        for position in positions:
            one = rule.table.objects[position]
            if rule.state[position] == pending:
                named = rule_object_name(name, subject_of(one))
                self._enqueue(AutopilotRuleObject, records_of(one), named)
            else:
                due.add(one.uid)
                self._enqueue(one.noun, *one.key)

    def _find(self, uid: str, name: str, generation: int, findings: RuleFindings) -> None:
        if self.found.get(uid) != (generation, findings):
            self.found[uid] = generation, findings
            self._enqueue(AutopilotRule, "", name)

    def _rule_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None or after is None or before.generation != after.generation or after.deleting:
            self._rules_changed = True
            self._changed.set()

    def _object_changed(self, kind: KindName, before: Object | None, after: Object | None) -> None:
        if self._tables is not None:
            self._tables.changed(kind, before, after)

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if self._tables is not None:
            self._tables.namespace_changed(before, after)

    def _volume_changed(self, before: Object | None, after: Object | None) -> None:
        if self._tables is not None:
            self._tables.volume_changed(before, after)

    def _record_changed(self, before: Object | None, after: Object | None) -> None:
        for one, present in ((before, False), (after, True)):
            pair = _pair(one)
            if one is None or pair is None:
                continue
            recorded = _on_record(one) if present else _NOTHING
            if present:
                self._records[pair] = recorded
            else:
                self._records.pop(pair, None)
            self._note(pair, recorded)

    def _note(self, pair: Pair, recorded: StateOnRecord) -> None:
        rule, one = pair
        evaluated = self.rules.get(rule)
        position = evaluated.table.position.get(one) if evaluated is not None else None
        if evaluated is not None and position is not None:
            state, until, approaching = recorded
            evaluated.record(position, state, until, approaching=approaching)


def _on_record(rule_object: Object) -> StateOnRecord:
    status = rule_object.status
    until = status.get("until")
    return StateOnRecord(
        str(status.get("state", "")), parse_time(until) if until else None, status.get("approaching") is True
    )


def _pair(rule_object: Object | None) -> Pair | None:
    if rule_object is None or (owner := rule_object.controller) is None:
        return None
    one = rule_object.at("status", "object", "uid")
    return (str(owner.get("uid", "")), str(one)) if one else None


def _missing(expressions: Sequence[str], answers: Sequence[Joined]) -> tuple[str, ...]:
    """Expressions without any series; not of those that compare, which may have none at times."""
    each = zip(expressions, answers, strict=False)
    return tuple(text for text, found in each if not found.series and not _FILTERS.intersection(text))


def _code(state: str) -> int:
    from pilothouse.rules.evaluation import CODES

    return CODES[state]


def _nowhere(noun: KindName, namespace: str, name: str) -> None:
    return None
