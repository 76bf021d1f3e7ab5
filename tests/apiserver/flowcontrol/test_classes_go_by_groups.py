from __future__ import annotations

import pytest

from pilothouse.apiserver.flowcontrol.fair_queuing import PriorityLevel, class_of
from pilothouse.apiserver.server.messages import ANONYMOUS, User

ACCOUNT = ("system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated")
SYSTEM_ACCOUNT = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
WAITING = {"authentication.kubernetes.io/pod-name": ("db-0",)}
NOWHERE = {**WAITING, "authentication.kubernetes.io/node-name": ("made-up",)}
POD = {**NOWHERE, "authentication.kubernetes.io/node-uid": ("u1",)}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("admin", groups=("system:masters",)), PriorityLevel.SYSTEM),
        (User("system:kube-scheduler"), PriorityLevel.SYSTEM),
        (User("system:kube-controller-manager"), PriorityLevel.SYSTEM),
        (User("pilothouse:apiserver", groups=("pilothouse:apiservers",)), PriorityLevel.SYSTEM),
        (User("pilothouse:controller-manager"), PriorityLevel.CONTROLLERS),
        (User("system:serviceaccount:t:operator", groups=ACCOUNT), PriorityLevel.WORKLOADS),
        (
            User("system:serviceaccount:kube-system:operator", groups=SYSTEM_ACCOUNT),
            PriorityLevel.CONTROLLERS,
        ),
        (User("system:serviceaccount:t:db", groups=ACCOUNT, extra=POD), PriorityLevel.AGENTS),
        (User("system:serviceaccount:t:waiting", groups=ACCOUNT, extra=WAITING), PriorityLevel.WORKLOADS),
        (User("system:serviceaccount:t:nowhere", groups=ACCOUNT, extra=NOWHERE), PriorityLevel.WORKLOADS),
        (User("system:node:a", groups=("system:nodes",)), PriorityLevel.NODES),
        (User("system:node:a"), PriorityLevel.PEOPLE),
        (User("system:serviceaccount:t:fake", groups=("system:authenticated",)), PriorityLevel.PEOPLE),
        (User("alice", groups=("dev",)), PriorityLevel.PEOPLE),
        (ANONYMOUS, PriorityLevel.PEOPLE),
    ],
    ids=lambda value: value.name if isinstance(value, User) else value.value,
)
def test_a_user_is_in_the_class_that_its_groups_say(user: User, expected: PriorityLevel) -> None:
    assert class_of(user) is expected
