"""How places are divided, on the lanes themselves: no requests, no time."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.apiserver.flowcontrol.fair_queuing import ASSURED, PriorityLevel, SeatPool, UserFlow
from pilothouse.apiserver.server.messages import User


def person(name: str) -> User:
    return User(name, groups=("system:authenticated",))


def account(namespace: str, name: str, pod: str = "") -> User:
    """A service account, in a pod on a machine if a pod is named."""
    about = {"pod-name": (pod,), "node-name": ("a",), "node-uid": ("u1",)} if pod else {}
    return User(
        f"system:serviceaccount:{namespace}:{name}",
        groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"),
        extra={f"authentication.kubernetes.io/{key}": value for key, value in about.items()},
    )


def another(kind: PriorityLevel, number: int) -> User:
    """One more user of a class; for all that is known, somebody else's."""
    if kind in (PriorityLevel.AGENTS, PriorityLevel.WORKLOADS):
        return account(f"n-{number}", "db", pod="db-0" if kind is PriorityLevel.AGENTS else "")
    return User(f"{MEMBERS[kind].name}-{number}", groups=MEMBERS[kind].groups)


MEMBERS = {
    PriorityLevel.SYSTEM: User("root", groups=("system:masters",)),
    PriorityLevel.CONTROLLERS: User("pilothouse:controller-manager"),
    PriorityLevel.NODES: User("system:node:a", groups=("system:nodes",)),
    PriorityLevel.AGENTS: account("t", "db", pod="db-0"),
    PriorityLevel.WORKLOADS: account("u", "robot"),
    PriorityLevel.PEOPLE: person("alice"),
}


def fill(lane: SeatPool, user: User) -> list[UserFlow]:
    """Take places until there are no more."""
    taken = []
    while (flow := lane.enter(user)) is not None:
        taken.append(flow)
    return taken


def test_a_busy_user_leaves_a_third() -> None:
    lane = SeatPool("reads", 400)
    reach = lane.open + lane.bands[PriorityLevel.PEOPLE].assured
    assert len(fill(lane, person("alice"))) == pytest.approx(reach * 2 / 3, abs=1)


@pytest.mark.parametrize("busy", [2, 5, 20])
def test_as_requests_end_shares_become_equal_and_the_next_one_finds_a_place(busy: int) -> None:
    lane = SeatPool("reads", 400)
    random = Random(busy)
    users = [person(f"busy-{number}") for number in range(busy)]
    held = [flow for user in users for flow in fill(lane, user)]
    for _ in range(10_000):
        held.pop(random.randrange(len(held))).leave(1)
        # Everyone tries again at once, those who had the most first.
        for user in users:
            if (flow := lane.enter(user)) is not None:
                held.append(flow)
    shares = sorted(sum(flow is each for flow in held) for each in {id(flow): flow for flow in held}.values())
    assert len(shares) == busy
    assert shares[-1] - shares[0] <= 2
    assert lane.enter(person("late")) is not None


def test_two_who_come_in_turn_get_the_same() -> None:
    lane = SeatPool("reads", 400)
    alice, bob = person("alice"), person("bob")
    held = {"alice": 0, "bob": 0}
    for _ in range(400):
        for user in (alice, bob):
            if lane.enter(user) is not None:
                held[user.name] += 1
    assert abs(held["alice"] - held["bob"]) <= 1


@pytest.mark.parametrize("flooding", PriorityLevel)
def test_a_flood_in_one_class_leaves_the_others_what_is_theirs(flooding: PriorityLevel) -> None:
    lane = SeatPool("mutations", 200)
    flooders = [MEMBERS[flooding]] + [another(flooding, number) for number in range(50)]
    for user in flooders:
        fill(lane, user)
    for kind in set(PriorityLevel) - {flooding}:
        assert lane.bands[kind].assured == 200 * ASSURED[kind] // 100
        assert lane.enter(MEMBERS[kind]) is not None
        others = [another(kind, 100 + number) for number in range(100)]
        assert sum(lane.enter(user) is not None for user in others) >= lane.bands[kind].assured - 1


def test_a_quiet_server_lends_what_nobody_needs() -> None:
    lane = SeatPool("reads", 400)
    assert len(fill(lane, person("alice"))) > 400 * ASSURED[PriorityLevel.PEOPLE] // 100


def test_places_given_back_can_be_taken_again() -> None:
    lane = SeatPool("reads", 50)
    first = fill(lane, person("alice"))
    for flow in first:
        flow.leave(1)
    assert lane.lent == 0
    assert len(fill(lane, person("alice"))) == len(first)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_small_limits_are_used_up_to_the_last_place_by_several(limit: int) -> None:
    lane = SeatPool("reads", limit)
    assert [lane.enter(person(f"user-{number}")) is not None for number in range(limit + 1)] == [
        *[True] * limit,
        False,
    ]


def test_who_was_turned_away_is_counted_and_why() -> None:
    lane = SeatPool("reads", 2)
    alice, bob = person("alice"), person("bob")
    assert lane.enter(alice) is not None
    assert lane.enter(bob) is not None
    assert lane.enter(alice) is None
    band = lane.bands[PriorityLevel.PEOPLE]
    assert (band.crowded, band.unfair) == (1, 0)
    wide = SeatPool("reads", 400)
    fill(wide, alice)
    assert (wide.bands[PriorityLevel.PEOPLE].crowded, wide.bands[PriorityLevel.PEOPLE].unfair) == (0, 1)


def test_pods_that_share_a_service_account_have_shares_of_their_own() -> None:
    lane = SeatPool("reads", 100)
    fill(lane, account("t", "db", pod="db-0"))
    assert lane.enter(account("t", "db", pod="db-1")) is not None
    assert lane.bands[PriorityLevel.CONTROLLERS].running == 0


@pytest.mark.parametrize("pod", ["", "db"], ids=["accounts", "pods"])
def test_the_identities_of_a_namespace_have_one_share_together(pod: str) -> None:
    """They are free to make, so that a thousand of them must be worth no more than one."""
    one, many = SeatPool("reads", 400), SeatPool("reads", 400)
    alone = len(fill(one, account("a", "u", pod=pod)))
    together = sum(
        len(fill(many, account("a", f"u-{number}", pod=pod and f"{pod}-{number}"))) for number in range(1000)
    )
    kind = PriorityLevel.AGENTS if pod else PriorityLevel.WORKLOADS
    assert together == pytest.approx((many.open + many.bands[kind].assured) * 2 / 3, abs=1)
    assert alone == pytest.approx(together * 2 / 3, abs=2)
    victim = account("b", "u", pod=pod)
    assert len(fill(many, victim)) > 1


def test_a_namespace_has_one_share_whatever_its_identities_are() -> None:
    lane = SeatPool("reads", 400)
    for number in range(100):
        fill(lane, account("a", f"u-{number}"))
        fill(lane, account("a", f"u-{number}", pod=f"p-{number}"))
    assert lane.lent < lane.open


def test_users_who_have_left_are_forgotten() -> None:
    lane = SeatPool("reads", 400)
    stayer = lane.enter(person("stayer"))
    for number in range(20_000):
        flow = lane.enter(person(f"passer-by-{number}"))
        assert flow is not None
        flow.leave(1)
    assert len(lane._flows) <= 4096
    assert stayer is not None
    assert lane.enter(person("stayer")) is stayer


steps = st.lists(
    st.tuples(
        st.sampled_from(
            [*MEMBERS.values(), person("bob"), account("t", "db", pod="db-1"), account("t", "robot")]
        ),
        st.integers(1, 5),
    ),
    max_size=60,
)


@given(st.integers(1, 60), steps, st.randoms(use_true_random=False))
def test_the_books_balance(limit: int, steps: list[tuple[User, int]], random: Random) -> None:
    """Never more taken than there is; what is lent is what goes beyond the classes' own; at the end all is back."""
    lane = SeatPool("reads", limit)
    held: list[tuple[UserFlow, int]] = []
    for user, weight in steps:
        weight = min(weight, lane.heaviest)
        flow = lane.enter(user, weight)
        if flow is not None:
            held.append((flow, weight))
        if held and random.random() < 0.4:
            flow, weight = held.pop(random.randrange(len(held)))
            flow.leave(weight)
        bands = lane.bands.values()
        assert sum(band.used for band in bands) == sum(weight for _, weight in held) <= limit
        assert lane.lent == sum(max(0, band.used - band.assured) for band in bands) <= lane.open
    for flow, weight in held:
        flow.leave(weight)
    assert lane.lent == 0
    assert all(band.used == band.running == 0 for band in lane.bands.values())
    assert all(flow.tenant is None or flow.tenant.used == 0 for flow, _ in held)
