"""What a user writes as a parameter never becomes a part of an expression as it stands."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.api.policies.expansion import expand
from pilothouse.api.policies.module_registry import BUILT_IN
from pilothouse.api.policies.policy_parameters import ParameterError, PolicyParameter, quoted
from pilothouse.meta.promql import parse

HOSTILE = '"} or vector(1) #'
PARAMETERS = [
    (module.name, policy.name, parameter.name)
    for module in BUILT_IN
    for policy in module.policies
    for parameter in policy.parameters
]


def expressions(spec: dict[str, Any]) -> list[str]:
    found = list(spec["conditions"]["expressions"])
    for candidate in spec.get("candidates") or ():
        found += candidate["when"]
    return [each["key"] for each in found if "key" in each]


def expanded(module: str, policy: str, parameters: dict[str, str]) -> Any:
    return expand("mine", {"application": module, "policies": [{"name": policy, "parameters": parameters}]})


@pytest.mark.parametrize(("module", "policy", "parameter"), PARAMETERS)
def test_no_parameter_takes_promql(module: str, policy: str, parameter: str) -> None:
    found = expanded(module, policy, {parameter: HOSTILE})

    (problem,) = found.problems
    assert (problem.reason, problem.path) == ("InvalidParameter", f"spec.policies[0].parameters.{parameter}")
    assert not found.rules


@given(
    place=st.sampled_from(PARAMETERS),
    value=st.text(max_size=40) | st.from_regex(r"[0-9.]{1,6}[a-zA-Z%]{0,2}"),
)
def test_a_value_is_refused_or_leaves_the_form_of_the_expressions(
    place: tuple[str, str, str], value: str
) -> None:
    module, policy, parameter = place
    found = expanded(module, policy, {parameter: value})
    if found.problems:
        assert [each.reason for each in found.problems] == ["InvalidParameter"]
        return
    plain = expanded(module, policy, {})
    for mine, standard in zip(
        expressions(found.rules[0].spec), expressions(plain.rules[0].spec), strict=True
    ):
        assert form(mine) == form(standard)


def form(text: str) -> str:
    """An expression without its literals."""
    parse(text)
    without_strings = re.sub(r'"(?:\\.|[^"\\])*"', '""', text)
    without_slot = without_strings.replace('{slot_name=""}', "")
    return re.sub(r"\b[0-9]+(\.[0-9]+)?", "0", without_slot)


@given(st.text(max_size=60))
def test_a_label_value_is_one_string_whatever_it_has(value: str) -> None:
    found: Any = parse(f"up{{slot_name={quoted(value)}}}")

    (matcher,) = found.matchers.matchers
    assert (found.name, matcher.name) == ("up", "slot_name")


@pytest.mark.parametrize(
    ("type", "text", "literal", "canonical"),
    [
        ("duration", "25ms", "0.025", "25ms"),
        ("duration", "1h30m", "5400", "1h30m"),
        ("quantity", "1Gi", "1073741824", "1Gi"),
        ("percentage", "70%", "70", "70"),
        ("number", "0.50", "0.5", "0.5"),
        ("count", "007", "7", "7"),
        ("text", "gold,silver", '"gold,silver"', "gold,silver"),
    ],
)
def test_a_value_is_a_number_or_a_string(type: Any, text: str, literal: str, canonical: str) -> None:
    value = PolicyParameter("p", type, "").read(text)
    assert (str(value), value.text) == (literal, canonical)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("number", "1e3"),
        ("number", "NaN"),
        ("number", "٣"),
        ("count", "-1"),
        ("count", ""),
        ("percentage", "50%%"),
        ("duration", "5"),
        ("duration", "5m offset 1h"),
        ("quantity", "1 Gi"),
        ("text", "a b"),
        ("text", ""),
    ],
)
def test_other_forms_are_refused(type: Any, text: str) -> None:
    with pytest.raises(ParameterError, match="must be"):
        PolicyParameter("p", type, "").read(text)


def test_bounds_are_inclusive_and_said() -> None:
    latency = PolicyParameter("latency", "duration", "", "25ms", "1ms", "10s")
    assert str(latency.read("1ms")) == "0.001"
    assert str(latency.read("10s")) == "10"
    with pytest.raises(ParameterError, match="more than 10s: must be 1ms to 10s"):
        latency.read("11s")
    with pytest.raises(ParameterError, match="one of up, down"):
        PolicyParameter("step", "choice", "", choices=("up", "down")).read("sideways")
