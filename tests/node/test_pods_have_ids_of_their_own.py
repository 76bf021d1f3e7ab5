"""Each pod has 65,536 user and group ids that no other pod on the machine has, nor anybody else."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest
from tests.kit.containers import needs_root

from pilothouse.node.interfaces import NotReady
from pilothouse.node.machine.id_ranges import SIZE, IdRanges
from pilothouse.node.machine.node_conditions import users_condition
from pilothouse.node.pods.pod_directories import PodDirectory
from pilothouse.node.volumes.removal import remove
from pilothouse.supervise.launch_spec import IdRange
from pilothouse.supervise.machine_survey import Capability, MachineSurvey
from pilothouse.supervise.shim.namespaces import OWNERS

FIRST = 0x70000000
ROOM = IdRange(FIRST, 4 * SIZE)


class Place:
    """A machine with a folder of claims, its files of users, and agents."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.claims = folder / "run" / "ids"
        self.users = folder / "etc"
        self.users.mkdir()

    def agent(self, name: str = "a", among: IdRange = ROOM) -> IdRanges:
        ranges = IdRanges(self.pods(name), among, claims=self.claims, machine=self.users)
        ranges.recover()
        return ranges

    def pods(self, name: str = "a") -> Path:
        return self._folder / name / "pods"

    def pod(self, uid: str, agent: str = "a") -> PodDirectory:
        folder = PodDirectory(self.pods(agent) / uid)
        folder.path.mkdir(parents=True, exist_ok=True)
        return folder


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def clear(folder: PodDirectory) -> None:
    """Remove it."""
    for each in folder.discard():
        remove(each)


def test_no_two_pods_have_the_same_not_even_of_two_agents(place: Place) -> None:
    one, other = place.agent("a"), place.agent("b", IdRange(FIRST + 100, 4 * SIZE))
    found = [
        one.claim(place.pod("1")),
        other.claim(place.pod("2", "b")),
        one.claim(place.pod("3")),
    ]
    firsts = sorted(each.first for each in found)
    assert all(each.count == SIZE for each in found)
    assert all(later - earlier >= SIZE for earlier, later in itertools.pairwise(firsts))


def test_a_pod_keeps_its_own_over_agents(place: Place) -> None:
    first = place.agent().claim(place.pod("1"))
    assert place.agent().claim(place.pod("1")) == first
    assert place.agent().claim(place.pod("2")) != first


def test_a_pod_keeps_its_own_though_the_claims_are_lost(place: Place) -> None:
    agent = place.agent()
    agent.claim(place.pod("1"))
    second = agent.claim(place.pod("2"))
    for claim in place.claims.iterdir():
        claim.unlink()
    assert place.agent().claim(place.pod("2")) == second


def test_what_was_freed_is_given_again_only_after_all_others(place: Place) -> None:
    """What a pod left somewhere with its ids is not the next pod's, which may be another tenant's, or another agent's."""
    agents = itertools.cycle((place.agent("a"), place.agent("b")))
    given = []
    for number, (agent, name) in zip(range(8), zip(agents, itertools.cycle("ab"), strict=True), strict=False):
        given.append(agent.claim(place.pod(str(number), name)).first)
        agent.release(str(number))
        agent.release(str(number))
        agent.release("unknown")
    assert sorted(given[:4]) == [FIRST + each * SIZE for each in range(4)]
    assert given[4:] == given[:4]


def test_a_pod_that_stays_keeps_its_own_while_others_come_and_go(place: Place) -> None:
    agent = place.agent()
    kept = agent.claim(place.pod("kept"))
    for number in range(8):
        assert agent.claim(place.pod(str(number))) != kept
        agent.release(str(number))
    assert agent.claim(place.pod("kept")) == kept


def test_the_ids_that_own_pods_namespaces_are_in_no_pod(place: Place) -> None:
    among = IdRange(OWNERS - SIZE - 100, 4 * SIZE)
    agent = place.agent(among=among)
    given = [agent.claim(place.pod(str(number))).first for number in range(2)]
    assert all(first + SIZE <= OWNERS or first >= OWNERS + SIZE for first in given)
    with pytest.raises(NotReady):
        agent.claim(place.pod("2"))


def test_a_range_whose_owner_is_somebody_of_the_machine_is_left_out(place: Place) -> None:
    (place.users / "subuid").write_text(f"eve:{OWNERS}:{FIRST // SIZE + 1}\n")
    agent = place.agent()
    given = {agent.claim(place.pod(str(number))).first for number in range(3)}
    assert given == {FIRST + each * SIZE for each in (1, 2, 3)}


def test_what_a_killed_agent_could_not_free_is_freed_by_the_next(place: Place) -> None:
    among = IdRange(FIRST, SIZE)
    first = place.agent(among=among).claim(place.pod("1"))
    clear(place.pod("1"))
    assert place.agent(among=among).claim(place.pod("2")) == first


def test_when_all_are_taken_a_pod_waits_and_says_so(place: Place) -> None:
    agent = place.agent()
    given = [agent.claim(place.pod(str(number))) for number in range(4)]
    with pytest.raises(NotReady, match="--user-namespace-ids") as told:
        agent.claim(place.pod("4"))
    assert told.value.reason == "UserNamespaceUnavailable"
    assert agent.claim(place.pod("3")) == given[3]


def test_the_claims_of_agents_whose_data_is_gone_do_not_stay_for_ever(place: Place) -> None:
    gone = place.agent("gone")
    for number in range(4):
        gone.claim(place.pod(str(number), "gone"))
    for number in range(4):
        clear(place.pod(str(number), "gone"))
    agent = place.agent()
    assert [each.name for each in place.claims.iterdir()] == ["latest"], (
        "and not only once there are no others"
    )
    assert agent.claim(place.pod("1")).count == SIZE


@needs_root
def test_ids_that_something_still_runs_with_are_not_given_again(place: Place) -> None:
    gone = place.agent("gone", IdRange(FIRST, SIZE))
    gone.claim(place.pod("1", "gone"))
    clear(place.pod("1", "gone"))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.setuid(FIRST + 999)
        os.read(reader, 1)
        os._exit(0)
    try:
        while Path(f"/proc/{child}").stat().st_uid == 0 and os.waitpid(child, os.WNOHANG) == (0, 0):
            os.sched_yield()
        with pytest.raises(NotReady):
            place.agent(among=IdRange(FIRST, SIZE)).claim(place.pod("2"))
    finally:
        os.close(writer)
        os.close(reader)
        os.waitpid(child, 0)


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("passwd", f"eve:x:{FIRST + 7}:0::/:/bin/sh"),
        ("group", f"eve:x:{FIRST + SIZE - 1}:"),
        ("subuid", f"eve:{FIRST - 5}:6"),
        ("subgid", f"# a comment\n\neve:{FIRST + 1000}:{SIZE - 1001}"),
    ],
)
def test_ids_of_others_are_left_to_them(place: Place, file: str, line: str) -> None:
    (place.users / file).write_text(line + "\n")
    assert place.agent(among=IdRange(FIRST, 2 * SIZE)).claim(place.pod("1")).first == FIRST + SIZE


@needs_root
@pytest.mark.parametrize("attack", ["others-own-it", "others-write-it", "others-write-above-it", "a-link"])
def test_claims_that_others_could_change_are_not_believed(place: Place, attack: str) -> None:
    place.claims.mkdir(mode=0o700, parents=True)
    match attack:
        case "others-own-it":
            os.chown(place.claims, 65534, 65534)
        case "others-write-it":
            place.claims.chmod(0o777)
        case "others-write-above-it":
            place.claims.parent.chmod(0o777)
        case "a-link":
            place.claims.rename(place.claims.with_name("elsewhere"))
            place.claims.symlink_to("elsewhere")
    with pytest.raises((NotReady, OSError)):
        place.agent().claim(place.pod("1"))


def test_a_node_that_can_not_give_ids_says_so() -> None:
    yes = Capability(True)
    lacking = MachineSurvey(view=yes, ids=Capability(False, "Linux 5.4"), users=yes, limits={})
    told = users_condition(lacking, accepted=False)
    assert (told["status"], told["reason"]) == ("False", "UserNamespacesUnavailable")
    assert "Linux 5.4" in told["message"]
    assert "--allow-host-users" in told["message"]
    assert (
        users_condition(MachineSurvey(view=yes, ids=yes, users=yes, limits={}), accepted=False)["status"]
        == "True"
    )
