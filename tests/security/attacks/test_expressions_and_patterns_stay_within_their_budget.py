"""Who may define kinds and write their objects can't hold the server: each attack is refused or answered within its budget.

A server runs in a process of its own. Before each attack its CPU time and memory are limited to what an honest request needs
many times over; the kernel ends a process that takes more, and the attack counts as successful.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
CPU_SECONDS = 5
MEMORY = 256 * 1024 * 1024
PATIENCE = 240
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

TEXT = {"type": "string"}
NUMBERS = {"type": "array", "items": {"type": "integer"}}
TEXTS = {"type": "array", "items": TEXT}


class Attack(NamedTuple):
    """A definition with one field ``x``, and an object of it: where the server stops, and what it says."""

    field: dict[str, Any]
    value: Any
    stopped: str
    """"definition", "object", or empty if both are accepted."""
    said: str = ""


def rule(field: dict[str, Any], *expressions: str) -> dict[str, Any]:
    return {**field, "x-kubernetes-validations": [{"rule": each} for each in expressions]}


def doubling(times: int, first: str = "self") -> str:
    body = f"v{times}.size() >= 0"
    for index in range(times, 0, -1):
        before = f"v{index - 1}" if index > 1 else first
        body = f"cel.bind(v{index}, {before} + {before}, {body})"
    return body


EXPENSIVE = "estimated rule cost exceeds budget"
COSTLY = "call cost exceeds limit for rule"
LONG = "is too long to be matched with"
INVALID = "must be a valid regular expression"

ATTACKS = {
    "a text is doubled again and again": Attack(rule(TEXT, doubling(26)), "a", "definition", EXPENSIVE),
    "a list is doubled again and again": Attack(rule(NUMBERS, doubling(24)), [1], "definition", EXPENSIVE),
    "a list is doubled a few times": Attack(rule(NUMBERS, doubling(12)), [1] * 5_000, "object", COSTLY),
    "a literal is doubled": Attack(rule(TEXT, doubling(28, "'aaaa'")), "a", "definition", EXPENSIVE),
    "a text replaces its own letters": Attack(
        rule(TEXT, "self.replace('a', self).replace('a', self).size() > 0"), "a" * 3_000, "object", COSTLY
    ),
    "replacements are nested": Attack(
        rule(TEXT, "self" + ".replace('', 'aaaaaaaaaa')" * 12 + ".size() > 0"), "a", "definition", EXPENSIVE
    ),
    "a list is mapped": Attack(rule(NUMBERS, "self.map(x, x + 1).size() > 0"), [1] * 9_999, "object", COSTLY),
    "lists are mapped within lists": Attack(
        rule(NUMBERS, "self.map(a, self.map(b, self.map(c, [a, b, c]))).size() > 0"),
        [1] * 500,
        "object",
        COSTLY,
    ),
    "loops are nested": Attack(
        rule(
            NUMBERS, "self.all(a, self.all(b, self.all(c, self.all(d, self.all(e, self.all(f, a + f > 0))))))"
        ),
        [1] * 100,
        "definition",
        EXPENSIVE,
    ),
    "each element is looked for": Attack(
        rule(NUMBERS, "self.all(a, a in self)"), list(range(9_999)), "object", COSTLY
    ),
    "sets are compared": Attack(
        rule(NUMBERS, "sets.equivalent(self, self)"), list(range(9_999)), "object", COSTLY
    ),
    "a long text is searched for each element": Attack(
        rule(
            {"type": "object", "properties": {"s": TEXT, "l": NUMBERS}},
            "self.l.all(x, self.s.contains('ab') || true)",
        ),
        {"s": "a" * 1_000_000, "l": [1] * 9_000},
        "object",
        COSTLY,
    ),
    "a needle as long as half the haystack": Attack(
        rule({"type": "object", "properties": {"s": TEXT, "n": TEXT}}, "!self.s.contains(self.n)"),
        {"s": "a" * 1_500_000, "n": "a" * 700_000 + "b"},
        "object",
        COSTLY,
    ),
    "a text is split into letters": Attack(
        rule(TEXT, "self.split('').size() > 0"), "a" * 2_000_000, "object", COSTLY
    ),
    "find backtracks": Attack(rule(TEXT, "self.find('a*a*a*a*b') == ''"), "a" * 20_000, ""),
    "find backtracks within a group": Attack(rule(TEXT, "self.find('(a|aa)+$') != ''"), "a" * 5_000, ""),
    "find on a text of megabytes": Attack(
        rule(TEXT, "self.find('a*a*a*a*b') == ''"), "a" * 2_500_000, "object", COSTLY
    ),
    "findAll looks ahead at every place": Attack(
        rule(TEXT, "self.findAll('a+b|a').size() > 0"), "a" * 200_000, "object", COSTLY
    ),
    "findAll of many instructions looks ahead at every place": Attack(
        rule(TEXT, "self.findAll('(a|b)*a(a|b){220}c|a').size() > 0"), "abbabaab" * 500, "object", COSTLY
    ),
    "findAll again and again": Attack(
        rule(TEXTS, "self.all(t, t.findAll('a+b|a').size() > 0)"), ["a" * 1_000] * 500, "object", COSTLY
    ),
    "matches with repetitions written out": Attack(
        rule(TEXT, "self.matches('(a?){900}b')"), "a" * 1_000_000, "object", COSTLY
    ),
    "the object brings the expression": Attack(
        rule(TEXTS, "self.all(p, self[0].matches(p) || true)"),
        ["a" * 1_000, *(f"(a?){{9{index:02}}}b" for index in range(99))],
        "object",
        COSTLY,
    ),
    "a message that costs more than its rule": Attack(
        {
            **NUMBERS,
            "x-kubernetes-validations": [{"rule": "false", "messageExpression": f"string({doubling(24)})"}],
        },
        [1],
        "definition",
        EXPENSIVE,
    ),
    "a rule for each of very many elements": Attack(
        {"type": "array", "items": rule({"type": "object"}, *(f"size(self) < {n}" for n in range(9, 19)))},
        [{}] * 150_000,
        "object",
        "running out of cost budget",
    ),
    "a rule of megabytes": Attack(
        rule(TEXT, " || ".join(["self == 'a'"] * 20_000)), "a", "definition", "must not be longer than"
    ),
    "rules of megabytes together": Attack(
        {
            "type": "object",
            "properties": {
                f"f{index}": rule(TEXT, "self.size() < 10 || self == 'aaaaaaaaaa'") for index in range(10_000)
            },
        },
        {},
        "definition",
        "the rules of a schema must not be longer than",
    ),
    "an expression that is deep": Attack(rule(TEXT, "(" * 4_000 + "true" + ")" * 4_000), "a", "definition"),
    "an expression that is a long sum": Attack(rule(TEXT, "1" + "+1" * 4_000 + " > 0"), "a", "definition"),
    "a pattern backtracks": Attack({**TEXT, "pattern": "^(a*)*$"}, "a" * 100_000, ""),
    "a pattern with repetitions written out": Attack(
        {**TEXT, "pattern": "((a{0,100}){0,100}){0,10}b"}, "a" * 10_000, "definition", INVALID
    ),
    "a pattern that is large for its text": Attack(
        {**TEXT, "pattern": "[01]*1[01]{900}x"}, "01" * 500_000, "object", LONG
    ),
    "a pattern that is large for all texts together": Attack(
        {"type": "array", "items": {**TEXT, "pattern": "^[01]*1[01]{900}$"}},
        ["01" * 500] * 2_500,
        "object",
        LONG,
    ),
    "a pattern in each of many alternatives": Attack(
        {**TEXT, "anyOf": [{"pattern": f"[01]*1[01]{{90{index}}}x"} for index in range(9)]},
        "01" * 50_000,
        "object",
        LONG,
    ),
    "a pattern with look-around": Attack({**TEXT, "pattern": "(?=a)"}, "a", "definition", INVALID),
    "a pattern with a back-reference": Attack({**TEXT, "pattern": r"(a)\1"}, "a", "definition", INVALID),
    "patterns that take long to compile": Attack(
        {
            "type": "object",
            "properties": {
                f"f{index}": {**TEXT, "pattern": rf"^\pL{{1,{100 + index % 100}}}{index}$"}
                for index in range(5_000)
            },
        },
        {},
        "definition",
        "too large together",
    ),
    "a duration of digits": Attack({**TEXT, "format": "duration"}, "1" * 2_000_000, "object"),
    "a duration of hours": Attack({**TEXT, "format": "duration"}, "1h" * 1_000_000, "object"),
    "an address of signs": Attack({**TEXT, "format": "email"}, "a@" * 1_000_000, "object"),
    "a number that nothing divides": Attack({"type": "number", "multipleOf": 1e-300}, 1.7e308, ""),
}


def definition(number: int, field: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"x": field}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": f"attack{number}s", "kind": f"Attack{number}"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.attacks.example.io"},
        "spec": {"group": "attacks.example.io", "scope": "Cluster", "names": names, "versions": [version]},
    }


def attack_all() -> None:
    """The attacked process: a line for each attack that came to an end."""
    from tests.kit.core import CoreServer

    with CoreServer() as server:
        for number, (name, attack) in enumerate(ATTACKS.items()):
            limit_what_is_left()
            answer = server.send("POST", CRDS, definition(number, attack.field))
            stage = "definition" if answer.status != 201 else ""
            if not stage:
                server.settle()
                obj = {
                    "apiVersion": "attacks.example.io/v1",
                    "kind": f"Attack{number}",
                    "metadata": {"name": "a"},
                    "x": attack.value,
                }
                answer = server.send("POST", f"/apis/attacks.example.io/v1/attack{number}s", obj)
                stage = "object" if answer.status != 201 else ""
            print(json.dumps([name, stage, answer.status, shortened(answer.message)]), flush=True)


def shortened(message: str) -> str:
    return message if len(message) < 5_000 else f"{message[:2_000]} ... {message[-2_000:]}"


def limit_what_is_left() -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(used.ru_utime + used.ru_stime) + 1 + CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    size = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (size, resource.RLIM_INFINITY))


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Any]]:
    code = "import runpy, sys; runpy.run_path(sys.argv[1])['attack_all']()"
    ended = subprocess.run(
        [sys.executable, "-c", code, __file__], cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False
    )
    found = {line[0]: line[1:] for line in map(json.loads, ended.stdout.splitlines())}
    found["the end"] = [ended.returncode, ended.stderr.decode()[-2_000:]]
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_ends_within_its_budget(answers: dict[str, list[Any]], name: str) -> None:
    assert name in answers, f"the server did not come back from this, or an earlier one: {answers['the end']}"
    stage, status, message = answers[name]
    attack = ATTACKS[name]
    assert (stage, status) == (attack.stopped, 422 if attack.stopped else 201), message
    assert attack.said in message
    if attack.stopped == "definition":
        assert "spec.versions[0].schema.openAPIV3Schema" in message
