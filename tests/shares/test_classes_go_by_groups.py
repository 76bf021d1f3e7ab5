from __future__ import annotations

import pytest

from pilothouse.apiserver.flowcontrol.fair_queuing import Class, class_of
from pilothouse.apiserver.server.messages import ANONYMOUS, User

ACCOUNT = ("system:serviceaccounts", "system:serviceaccounts:t", "system:authenticated")
SYSTEM_ACCOUNT = ("system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated")
WAITING = {"authentication.kubernetes.io/pod-name": ("db-0",)}
NOWHERE = {**WAITING, "authentication.kubernetes.io/node-name": ("made-up",)}
POD = {**NOWHERE, "authentication.kubernetes.io/node-uid": ("u1",)}


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (User("admin", groups=("system:masters",)), Class.SYSTEM),
        (User("system:kube-scheduler"), Class.SYSTEM),
        (User("system:kube-controller-manager"), Class.SYSTEM),
        (User("pilothouse:apiserver", groups=("pilothouse:apiservers",)), Class.SYSTEM),
        (User("pilothouse:controller-manager"), Class.CONTROLLERS),
        (User("system:serviceaccount:t:operator", groups=ACCOUNT), Class.WORKLOADS),
        (User("system:serviceaccount:kube-system:operator", groups=SYSTEM_ACCOUNT), Class.CONTROLLERS),
        (User("system:serviceaccount:t:db", groups=ACCOUNT, extra=POD), Class.AGENTS),
        (User("system:serviceaccount:t:waiting", groups=ACCOUNT, extra=WAITING), Class.WORKLOADS),
        (User("system:serviceaccount:t:nowhere", groups=ACCOUNT, extra=NOWHERE), Class.WORKLOADS),
        (User("system:node:a", groups=("system:nodes",)), Class.NODES),
        (User("system:node:a"), Class.PEOPLE),
        (User("system:serviceaccount:t:fake", groups=("system:authenticated",)), Class.PEOPLE),
        (User("alice", groups=("dev",)), Class.PEOPLE),
        (ANONYMOUS, Class.PEOPLE),
    ],
    ids=lambda value: value.name if isinstance(value, User) else value.value,
)
def test_a_user_is_in_the_class_that_its_groups_say(user, expected):
    assert class_of(user) is expected
