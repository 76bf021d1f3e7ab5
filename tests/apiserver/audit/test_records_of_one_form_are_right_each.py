"""Reads repeat one another, so their records are filled into a form: each is what it would be if it were the first."""

from __future__ import annotations

import json

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.apiserver.audit.scenes import EVERYTHING, T0, asked

from pilothouse.apiserver.audit.audit_policy import DEFAULT, AuditPolicy
from pilothouse.apiserver.audit.records import AuditRecorder
from pilothouse.apiserver.audit.request_stage import Arrival, RequestStage
from pilothouse.apiserver.authorization.authorizer import AuthorizationDecision
from pilothouse.apiserver.server.messages import User

NASTY = st.sampled_from(
    ["", "a", '"', "\\", '","auditID":"x', '"requestReceivedTimestamp":"', "ä\u2028", '{"stageTimestamp":"']
)
USERS = st.builds(
    User, NASTY, NASTY, st.tuples(NASTY), st.fixed_dictionaries({}, optional={"k": st.tuples(NASTY)})
)


@st.composite
def sights(draw: st.DrawFn) -> RequestStage:
    headers = {name: draw(NASTY) for name in ("User-Agent", "X-Forwarded-For", "Pilothouse-Fence")}
    path = "/api/v1/namespaces/t/pods/" + draw(st.sampled_from(["a", "b", 'c"d']))
    request = asked("GET", path, user=draw(USERS), headers=headers)
    request.verdict = draw(
        st.sampled_from(
            [None, AuthorizationDecision(True, "rule 1"), AuthorizationDecision(True, 'rule "2"')]
        )
    )
    number = draw(st.sampled_from(["id-1", "0b7a-9", 'x"y', "\\", ""]))
    moment = T0 + draw(st.floats(0, 5))
    return RequestStage(
        Arrival(number, path, moment),
        request,
        "ResponseComplete",
        moment + 1,
        draw(st.sampled_from([200, 404])),
    )


@given(st.lists(sights(), min_size=1, max_size=8), st.sampled_from([DEFAULT, EVERYTHING]))
@settings(max_examples=150, deadline=None)
def test_a_record_does_not_depend_on_those_before(seen: list[RequestStage], policy: AuditPolicy) -> None:
    kept = AuditRecorder(policy, "host-1")
    for sight in [*seen, *seen]:
        line = kept.line(sight)
        # A number that has to be escaped fits into no form, so that this record is written out.
        odd = msgspec.structs.replace(sight, arrival=msgspec.structs.replace(sight.arrival, audit_id='"'))
        whole = AuditRecorder(policy, "host-1").line(odd)
        if line is None or whole is None:
            assert line == whole
        else:
            assert json.loads(line) == {**json.loads(whole), "auditID": sight.arrival.audit_id}
