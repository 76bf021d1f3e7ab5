"""The watch of AutopilotRules: polls metrics, and names the claims that call for a decision.

    watch = RuleWatch(providers, clock)
    await watch.run(caches, enqueue)

Rules of the same poll interval are due together, and each distinct expression is asked once for all of them.
Without a rule nothing is asked, and neither numpy nor a provider is imported.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pilothouse.api.kind_names import (
    AutopilotRule,
    AutopilotRuleObject,
    KindName,
    Namespace,
    PersistentVolumeClaim,
    Pod,
)
from pilothouse.api.objects import Object
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import parse_time
from pilothouse.rules.readings import NO_READING, ObjectReading, PastValue, RuleFindings
from pilothouse.rules.rule_object_status import rule_object_name
from pilothouse.rules.rule_providers import LabelledProvider, RuleProviders
from pilothouse.rules.ruled_objects import RuleSettings, terms_of
from pilothouse.rules.samples import Answer, QueryFailure
from pilothouse.rules.steady_clock import SteadyClock
from pilothouse.runtime.sampled_watch import Enqueue, FollowedCache

if TYPE_CHECKING:
    from pilothouse.rules.evaluation import ClaimTable, EvaluatedRule
    from pilothouse.rules.join import Joined

MOST_RULE_OBJECTS: Final = 20_000
"""Above it, objects that are Normal have no AutopilotRuleObject."""
_PENDING: Final = "ActiveActionsPending"
_SETTINGS: Final = RuleSettings()
_MOST_OTHERS: Final = 6
"""How many names of other rules are found."""
_CAPACITY: Final = ("status", "capacity", "storage")

Caches = Mapping[KindName, FollowedCache]
Pair = tuple[str, str]
"""The uids of a rule and of a claim."""

log = logging.getLogger(__name__)


class StateOnRecord(NamedTuple):
    """What an AutopilotRuleObject says: its state, when that ends, and whether an approach was reported."""

    state: str = ""
    until: float | None = None
    approaching: bool = False


_NOTHING: Final = StateOnRecord()


class RuleReadings:
    """What the watch knows at one moment: see ``readings``."""

    def __init__(self, watch: RuleWatch, ahead: float) -> None:
        self._watch = watch
        self.ahead = ahead
        self.crowded = watch.crowded

    def of(self, rule: Object, claim: Object) -> ObjectReading:
        evaluated = self._watch.rules.get(rule.uid)
        if evaluated is None or evaluated.terms.generation != rule.generation:
            return NO_READING
        return evaluated.reading(claim.uid)

    def past(self, rule: Object, claim: Object) -> Sequence[PastValue | None]:
        evaluated = self._watch.rules.get(rule.uid)
        if evaluated is None or evaluated.terms.generation != rule.generation:
            return ()
        return evaluated.past(claim.uid)

    def due(self, claim: Object) -> Sequence[str]:
        return [name for name, claims in self._watch.due.items() if claim.uid in claims]

    def findings(self, rule: Object) -> RuleFindings | None:
        found = self._watch.found.get(rule.uid)
        return found[1] if found is not None and found[0] == rule.generation else None


class RuleWatch:
    def __init__(self, providers: RuleProviders, clock: Clock) -> None:
        self._providers = providers
        self._clock = clock
        self._steady = SteadyClock(clock)
        self._caches: Caches = {}
        self._enqueue: Enqueue = _nowhere
        self._table: ClaimTable | None = None
        self.rules: dict[str, EvaluatedRule] = {}
        """By uid."""
        self.found: dict[str, tuple[int, RuleFindings]] = {}
        """The generation and the findings of each rule, by its uid."""
        self.due: dict[str, set[str]] = {}
        """The uids of the claims whose last values matter, by the name of the rule."""
        self._records: dict[Pair, StateOnRecord] = {}
        self._others: Mapping[str, tuple[str, ...]] = {}
        """The names of the first few other rules on an object of each rule, by the uid of the rule."""
        self._next: dict[str, float] = {}
        """When each rule is due, by its uid."""
        self._changed = asyncio.Event()
        self._rules_changed = True
        self._claims_changed = True
        self.idle = False

    @property
    def readings(self) -> RuleReadings:
        return RuleReadings(self, self._steady.ahead)

    @property
    def crowded(self) -> bool:
        return len(self._records) > MOST_RULE_OBJECTS

    async def run(self, caches: Caches, enqueue: Enqueue) -> None:
        """Poll until cancelled."""
        self._caches, self._enqueue, self.idle = caches, enqueue, False
        ends = [
            caches[AutopilotRule].subscribe(self._rule_changed),
            caches[PersistentVolumeClaim].subscribe(self._claim_changed),
            caches[Namespace].subscribe(self._namespace_changed),
            caches[Pod].subscribe(self._pod_changed),
            caches[AutopilotRuleObject].subscribe(self._record_changed),
        ]
        self._records.clear()
        for one in caches[AutopilotRuleObject].list():
            self._record_changed(None, one)
        self._rules_changed = self._claims_changed = True
        self.rules, self._table = {}, None
        try:
            while True:
                await self._poll()
        finally:
            for end in ends:
                end()
            self.due.clear()

    async def look_at_all(self) -> None:
        """Look at every rule now, whether it is due or not."""
        await self._look(tuple(self.rules.values()))

    async def _poll(self) -> None:
        self._changed.clear()
        self._rebuild()
        now = self._clock.monotonic()
        due = [one for uid, one in self.rules.items() if self._next.get(uid, 0.0) <= now]
        if due:
            await self._look(due)
            for one in due:
                interval = float(one.terms.spec.poll_interval)
                # On a grid, so that rules of the same interval are due together.
                self._next[one.uid] = (now // interval + 1) * interval
        self.idle = True
        await self._wait_until(min((self._next[uid] for uid in self.rules), default=None))

    async def _wait_until(self, moment: float | None) -> None:
        """Wait for this moment of the monotonic clock, or for a change of the rules."""
        timeout = None if moment is None else max(0.0, moment - self._clock.monotonic())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            return

    def _rebuild(self) -> None:
        """Bring the table of claims and the rules up to date."""
        rules = [one for one in self._caches[AutopilotRule].list() if not one.deleting]
        if not rules and not self.rules:
            self._table = None
            self._claims_changed = True
            return
        if not (self._rules_changed or self._claims_changed):
            return
        from pilothouse.rules.evaluation import ClaimTable, shared_by

        if self._claims_changed or self._table is None:
            claims = sorted(self._caches[PersistentVolumeClaim].list(), key=lambda one: one.key)
            self._table = ClaimTable(claims, tuple(self._caches[Pod].list()))
        self._rules_changed = self._claims_changed = False
        earlier, self.rules = self.rules, {}
        for rule in rules:
            made = self._evaluated(rule, self._table, earlier.get(rule.uid))
            if made is not None:
                self.rules[rule.uid] = made
        self._others = shared_by(tuple(self.rules.values()), _MOST_OTHERS)
        for pair, recorded in self._records.items():
            self._note(pair, recorded)
        for gone in set(self.found) - {rule.uid for rule in rules}:
            del self.found[gone]
            self._next.pop(gone, None)
        names = {rule.name for rule in rules}
        self.due = {name: claims for name, claims in self.due.items() if name in names}

    def _evaluated(
        self, rule: Object, table: ClaimTable, earlier: EvaluatedRule | None
    ) -> EvaluatedRule | None:
        from pilothouse.rules.evaluation import EvaluatedRule

        if earlier is not None and earlier.table is table and earlier.terms.generation == rule.generation:
            return earlier
        if earlier is None or earlier.terms.generation != rule.generation:
            self._next.pop(rule.uid, None)
        terms = terms_of(rule, _SETTINGS)
        try:
            if terms is None:
                raise ValueError("the rule is not valid")
            made = EvaluatedRule(terms, rule.uid, table, self._namespace)
        except ValueError as problem:
            self._find(
                rule.uid, rule.name, rule.generation, RuleFindings(0, QueryFailure("Invalid", str(problem)))
            )
            return None
        if earlier is not None:
            made.carry_over(earlier)
        return made

    def _namespace(self, name: str) -> Object | None:
        return self._caches[Namespace].get("", name)

    async def _look(self, due: Sequence[EvaluatedRule]) -> None:
        """Ask the providers, and enqueue what calls for a decision."""
        wanted: dict[str, dict[str, None]] = defaultdict(dict)
        for rule in due:
            if rule.queries.refusal is None:
                wanted[rule.queries.provider].update(dict.fromkeys(rule.queries.expressions))
        joined: dict[tuple[str, str], Joined | QueryFailure] = {}
        answers = await asyncio.gather(*(self._ask(name, tuple(texts)) for name, texts in wanted.items()))
        for name, (found, by_text) in zip(wanted, answers, strict=True):
            for text, answer in by_text.items():
                joined[name, text] = self._joined(answer, found)
                # Thousands of samples each: the lease must be renewed meanwhile.
                await asyncio.sleep(0)
        room = MOST_RULE_OBJECTS - len(self._records)
        for rule in due:
            room -= self._take(rule, joined, room)
            await asyncio.sleep(0)

    async def _ask(
        self, name: str, expressions: Sequence[str]
    ) -> tuple[LabelledProvider | None, Mapping[str, Answer]]:
        found = self._providers.get(name)
        if found is None:
            failure = QueryFailure("UnknownProvider", f"there is no provider {name!r} in the configuration")
            return None, dict.fromkeys(expressions, failure)
        return found, await found.provider.query(expressions, self._clock.now())

    def _joined(self, answer: Answer, found: LabelledProvider | None) -> Joined | QueryFailure:
        from pilothouse.rules.join import join

        if isinstance(answer, QueryFailure) or found is None or self._table is None:
            return answer if isinstance(answer, QueryFailure) else QueryFailure("UnknownProvider", "")
        return join(answer, self._table.index, found.labels)

    def _take(
        self, rule: EvaluatedRule, joined: Mapping[tuple[str, str], Joined | QueryFailure], room: int
    ) -> int:
        """Evaluate a rule; how many objects get a record for the first time."""
        import numpy as np

        from pilothouse.rules.evaluation import ABSENT
        from pilothouse.rules.verdicts import MET

        queries = rule.queries
        failure = queries.refusal
        answers: list[Joined] = []
        for text in queries.expressions if failure is None else ():
            answer = joined[queries.provider, text]
            if isinstance(answer, QueryFailure):
                failure = answer
                break
            answers.append(answer)
        positions = rule.evaluate(None if failure is not None else answers, self._steady.now())
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
            ),
        )
        return made

    def _enqueue_all(self, rule: EvaluatedRule, positions: Iterable[int]) -> None:
        name = rule.terms.name
        self.due[name] = due = set[str]()
        pending = _code(_PENDING)
        for position in positions:
            claim = rule.table.claims[position]
            if rule.state[position] == pending:
                volume = str(claim.spec.get("volumeName", ""))
                self._enqueue(AutopilotRuleObject, claim.namespace, rule_object_name(name, volume))
            else:
                due.add(claim.uid)
                self._enqueue(PersistentVolumeClaim, *claim.key)

    def _find(self, uid: str, name: str, generation: int, findings: RuleFindings) -> None:
        if self.found.get(uid) != (generation, findings):
            self.found[uid] = generation, findings
            self._enqueue(AutopilotRule, "", name)

    def _rule_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None or after is None or before.generation != after.generation or after.deleting:
            self._rules_changed = True
            self._changed.set()

    def _claim_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is None:
            return
        if before is None or after is None or _identity(before) != _identity(after):
            self._claims_changed = True
        elif self._table is not None and before.at(*_CAPACITY) != after.at(*_CAPACITY):
            self._table.resized(after)

    def _namespace_changed(self, before: Object | None, after: Object | None) -> None:
        if before is not None and after is not None and before.labels == after.labels:
            return
        if before is not None or after is not None:
            self._claims_changed = True

    def _pod_changed(self, before: Object | None, after: Object | None) -> None:
        if before is None and after is None:
            return
        if before is None or after is None or before.spec.get("nodeName") != after.spec.get("nodeName"):
            self._claims_changed = True

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
        rule, claim = pair
        evaluated = self.rules.get(rule)
        position = evaluated.table.position.get(claim) if evaluated is not None else None
        if evaluated is not None and position is not None:
            state, until, approaching = recorded
            evaluated.record(position, state, until, approaching=approaching)


def _on_record(rule_object: Object) -> StateOnRecord:
    status = rule_object.status
    until = status.get("until")
    return StateOnRecord(
        str(status.get("state", "")), parse_time(until) if until else None, status.get("approaching") is True
    )


def _identity(claim: Object) -> object:
    spec, phase = claim.spec, claim.status.get("phase")
    return claim.uid, spec.get("volumeName"), phase, claim.labels, claim.deleting


def _pair(rule_object: Object | None) -> Pair | None:
    if rule_object is None or (owner := rule_object.controller) is None:
        return None
    claim = rule_object.at("status", "object", "uid")
    return (str(owner.get("uid", "")), str(claim)) if claim else None


def _code(state: str) -> int:
    from pilothouse.rules.evaluation import CODES

    return CODES[state]


def _nowhere(noun: KindName, namespace: str, name: str) -> None:
    return None
