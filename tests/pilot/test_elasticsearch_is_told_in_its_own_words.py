"""What an Elasticsearch node is set up with, what its answers mean, and what a leading pilot does about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pilothouse.api.kind_names import Pilot
from pilothouse.api.objects import Object, Tree
from pilothouse.pilot.driver import DesiredState, HookFailed, InstanceEnvironment
from pilothouse.pilot.drivers.elasticsearch.cluster_actions import (
    ALL_IN,
    ALLOCATION,
    DECOMMISSIONS,
    EXCLUDED,
    HELD_BACK,
    MISSED,
    UNSEEN,
    Act,
    ExcludeVoters,
    IncludeVoters,
    MembershipTimer,
    SetSettings,
    are_all_in,
    cluster_actions,
    gives_vote_away,
    held,
    members,
    without_vote,
)
from pilothouse.pilot.drivers.elasticsearch.cluster_state import (
    ClusterState,
    ShardCopy,
    copies_of,
    documents,
    health_facts,
    not_elsewhere,
)
from pilothouse.pilot.drivers.elasticsearch.elasticsearch_driver import make
from pilothouse.pilot.drivers.elasticsearch.elasticsearch_metrics import cluster_metrics, node_metrics
from pilothouse.pilot.drivers.elasticsearch.preflight import (
    DataLayout,
    build_at,
    check_version,
    find_home,
    write_configuration,
)
from pilothouse.pilot.drivers.elasticsearch.settings import Build, jvm_options, settings_of, written

PLACE = InstanceEnvironment("es-demo-data-0", "default", "127.70.0.1", Path("/data"), {})
SETTINGS = {
    "cluster.name": "demo",
    "discovery.seed_hosts": ["es-demo-discovery.default.svc"],
    "cluster.initial_master_nodes": ["es-demo-data-0"],
    "discovery.zen.minimum_master_nodes": 2,
}


def settings(version: str, *, leads: bool = False, maps_memory: bool = True, secured: bool = True) -> Tree:
    spec = {"configuration": {"settings": SETTINGS}, "elasticsearch": {"roles": ["data", "master"]}}
    build = Build(version, secured=secured)
    desired = DesiredState(1, "a", spec, leads=leads)
    return settings_of(
        desired, PLACE, build, data=Path("/data/data"), logs=Path("/data/logs"), maps_memory=maps_memory
    )


def test_version_8_has_its_roles_as_a_list_and_no_security_unless_asked_for() -> None:
    said = settings("8.17.0")
    assert said["node.roles"] == ["master", "data"]
    assert said["xpack.security.enabled"] is False
    assert said["discovery.seed_hosts"] == ["es-demo-discovery.default.svc"]
    assert (said["node.name"], said["network.host"]) == ("es-demo-data-0", "127.70.0.1")
    assert "discovery.zen.minimum_master_nodes" not in said


def test_only_the_node_of_the_leading_pilot_is_told_who_forms_the_cluster() -> None:
    assert "cluster.initial_master_nodes" not in settings("8.17.0")
    assert settings("8.17.0", leads=True)["cluster.initial_master_nodes"] == ["es-demo-data-0"]


def test_version_6_has_other_names_and_counts_its_masters() -> None:
    said = settings("6.8.23", leads=True)
    assert said["discovery.zen.ping.unicast.hosts"] == ["es-demo-discovery.default.svc"]
    assert said["discovery.zen.minimum_master_nodes"] == 2
    assert (said["node.master"], said["node.data"], said["node.ingest"]) == (True, True, False)
    assert said["transport.tcp.port"] == 9300
    assert "cluster.initial_master_nodes" not in said
    assert said["xpack.security.enabled"] is False


def test_a_distribution_without_security_is_told_nothing_of_it() -> None:
    said = settings("6.8.23", secured=False)
    assert not [name for name in said if name.startswith("xpack.")]


def test_a_kernel_with_few_memory_maps_gets_none() -> None:
    assert settings("8.17.0", maps_memory=False)["node.store.allow_mmap"] is False
    assert "node.store.allow_mmap" not in settings("8.17.0")


def test_files_are_yaml_and_write_nothing_into_the_image() -> None:
    assert written({"b": ["x"], "a": True}) == 'a: true\nb: ["x"]\n'
    given = "-Xms1g\n-XX:+UseG1GC\n-XX:HeapDumpPath=data\n9-:-Xlog:gc*:file=logs/gc.log\n"
    assert jvm_options(given) == "-XX:+UseG1GC\n-Des.networkaddress.cache.ttl=5\n"


def test_no_java_of_a_node_shares_a_file_with_that_of_another(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "elasticsearch-7.17.29.jar").touch()
    environ = {"ES_HOME": str(tmp_path), "JDK_JAVA_OPTIONS": "-Dx=y"}
    driver = make(InstanceEnvironment("es-demo-data-0", "default", "127.70.0.1", tmp_path, environ))
    start = driver.start(DesiredState(1, "a", {}))
    assert start.environ["JDK_JAVA_OPTIONS"] == "-Dx=y -XX:-UsePerfData"
    assert start.environ["ES_TMPDIR"].startswith(str(tmp_path))


def test_a_home_is_known_by_its_jar(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    home = find_home({"ES_HOME": str(tmp_path)})
    with pytest.raises(HookFailed, match="no Elasticsearch"):
        build_at(home)
    (tmp_path / "lib" / "elasticsearch-8.17.0.jar").touch()
    assert build_at(home) == Build("8.17.0")


def test_an_archive_that_was_imported_as_it_is_has_its_home_in_one_folder(tmp_path: Path) -> None:
    (tmp_path / "elasticsearch-8.17.0" / "lib").mkdir(parents=True)
    (tmp_path / "notes" / "lib").mkdir(parents=True)
    assert find_home({"ES_HOME": str(tmp_path)}) == tmp_path / "elasticsearch-8.17.0"
    (tmp_path / "elasticsearch-8.17.1" / "lib").mkdir(parents=True)
    with pytest.raises(HookFailed, match="the image has no Elasticsearch"):
        find_home({"ES_HOME": str(tmp_path)})


def test_a_folder_that_a_later_version_may_have_begun_on_is_not_given_to_an_earlier_one(
    tmp_path: Path,
) -> None:
    home, layout = tmp_path / "home", DataLayout(tmp_path / "data")
    for folder in (home / "config", layout.configuration):
        folder.mkdir(parents=True)
    (home / "config" / "jvm.options").touch()
    check_version(layout, Build("7.17.9"))
    # No database has been started with it: that it is prepared is enough.
    write_configuration(layout, home, Build("8.17.0"), {}, {})
    with pytest.raises(HookFailed, match=r"written by Elasticsearch 8\.17\.0.*go back to 8\.17\.0 or later"):
        check_version(layout, Build("7.17.9"))
    check_version(layout, Build("8.17.0"))


def pilot(name: str, *roles: str, decommission: bool = False, generation: int = 1, **status: Any) -> Object:
    status.setdefault("phase", "Running")
    status.setdefault("lastStartedTime", "2026-01-01T00:00:00Z")
    status.setdefault("conditions", [{"type": "Ready", "status": "True"}])
    spec: Tree = {"elasticsearch": {"roles": list(roles)}, "decommission": decommission}
    metadata = {"name": name, "namespace": "a", "uid": f"uid-of-{name}", "generation": generation}
    tree = {"apiVersion": Pilot.api_version, "kind": Pilot.kind, "metadata": metadata}
    return Object(Pilot, {**tree, "spec": spec, "status": status})


def state(*names: str, excluded: tuple[str, ...] = ()) -> ClusterState:
    return ClusterState(
        uuid="u",
        master=names[0],
        names={name: name for name in names},
        excluded_voters=frozenset(excluded),
    )


def led(
    pilots: list[Object],
    seen: ClusterState,
    settings: Tree,
    *,
    version: tuple[int, int] = (8, 17),
    long: bool = False,
) -> list[Act]:
    return list(cluster_actions("es-demo-", pilots, seen, settings, version, release=long))


A, B, C = "es-demo-a-0", "es-demo-a-1", "es-demo-a-2"


def excluding(name: str, generation: int = 1) -> Tree:
    """The settings by which a node is excluded for the decommission of this generation."""
    return {EXCLUDED: name, DECOMMISSIONS: f"{name}=uid-of-{name}/{generation}"}


def test_shards_leave_the_nodes_that_are_to_go() -> None:
    pilots = [pilot(A, "data"), pilot(B, "data", decommission=True)]
    assert led(pilots, state(A, B), {}) == [SetSettings(excluding(B))]
    assert led(pilots, state(A, B), excluding(B)) == []


def test_a_cancelled_decommission_and_a_node_that_is_gone_are_taken_out_and_a_persons_own_stays() -> None:
    pilots = [pilot(A, "data"), pilot(B, "data", generation=2)]
    both = {**excluding(B), EXCLUDED: f"{B},{C}"}
    assert led(pilots, state(A, B), both) == [SetSettings({EXCLUDED: None, DECOMMISSIONS: None})]
    foreign = led(pilots, state(A, B), {EXCLUDED: f"other,{C}"})
    assert foreign == [SetSettings({EXCLUDED: "other", DECOMMISSIONS: None})]


def test_replicas_are_built_when_all_stay_or_one_is_missed_for_long() -> None:
    attendance, replicas = MembershipTimer(), frozenset({ALLOCATION})
    assert not attendance.suffices(True, replicas, 0.0)
    assert not attendance.suffices(False, replicas, ALL_IN - 1), "it is being restarted"
    assert not attendance.suffices(True, replicas, 100.0)
    assert attendance.suffices(True, replicas, 100.0 + ALL_IN)
    assert not attendance.suffices(False, replicas, 200.0)
    for seconds in range(0, int(MISSED), 5):
        assert not attendance.suffices(False, replicas, 200.0 + seconds)
    assert attendance.suffices(False, replicas, 200.0 + MISSED), "it was shut down for good"


def test_what_was_seen_before_somebody_else_led_does_not_count() -> None:
    attendance, replicas = MembershipTimer(), frozenset({ALLOCATION})
    assert not attendance.suffices(True, replicas, 0.0)
    assert not attendance.suffices(True, replicas, UNSEEN + 1), "another node may have got ready to stop"
    assert attendance.suffices(True, replicas, UNSEEN + 1 + ALL_IN)


def test_who_gets_ready_to_stop_has_time_to_say_so() -> None:
    attendance = MembershipTimer()
    assert not attendance.suffices(True, frozenset(), 0.0)
    assert not attendance.suffices(True, frozenset({ALLOCATION}), 100.0), (
        "that it stops is not yet known here"
    )
    assert not attendance.suffices(True, frozenset({ALLOCATION, A}), 100.0 + ALL_IN)
    assert attendance.suffices(True, frozenset({ALLOCATION, A}), 100.0 + 2 * ALL_IN)


def test_an_exclusion_says_for_which_decommission_it_is() -> None:
    again = [pilot(A, "data"), pilot(B, "data", decommission=True, generation=3)]
    assert led(again, state(A, B), excluding(B)) == [SetSettings(excluding(B, 3))]


def test_a_leader_that_lags_behind_takes_nothing_back_that_it_has_not_seen_yet() -> None:
    cancelled = [pilot(A, "master", "data"), pilot(B, "master", "data", generation=2)]
    assert led(cancelled, state(A, B, excluded=(B,)), excluding(B, 3)) == []
    # One that was made again counts from the beginning: nothing follows from its generation.
    made_again = {EXCLUDED: B, DECOMMISSIONS: f"{B}=another/3"}
    assert SetSettings({EXCLUDED: None, DECOMMISSIONS: None}) in led(cancelled, state(A, B), made_again)


def test_masters_that_go_lose_their_vote_and_get_it_back_when_they_stay() -> None:
    pilots = [pilot(A, "master"), pilot(B, "master"), pilot(C, "master", decommission=True)]
    assert led(pilots, state(A, B, C), excluding(C)) == [ExcludeVoters((C,))]
    assert led(pilots, state(A, B, C, excluded=(C,)), excluding(C)) == []
    stays = [pilot(A, "master"), pilot(B, "master"), pilot(C, "master")]
    assert led(stays, state(A, B, C, excluded=(C,)), {}) == [], "it may be about to stop"
    assert led(stays, state(A, B, C, excluded=(C,)), {}, long=True) == [IncludeVoters()]


def test_what_is_held_for_a_node_that_stops_is_not_what_is_held_for_one_that_goes() -> None:
    pilots = [pilot(A, "master"), pilot(B, "master"), pilot(C, "master", decommission=True)]
    seen = state(A, B, C, excluded=(B, C, "a-persons-own"))
    settings = {**excluding(C), ALLOCATION: HELD_BACK}
    assert held("es-demo-", pilots, seen, settings) == {ALLOCATION, B}
    assert without_vote("es-demo-", pilots, seen, settings) == {B}


@pytest.mark.parametrize(
    ("voters", "there", "excluded", "gives"),
    [
        pytest.param("A", "AB", "", True, id="the only vote"),
        pytest.param("A", "A", "", False, id="nobody to give it to"),
        pytest.param("B", "AB", "", False, id="it has none"),
        pytest.param("A", "AB", "B", False, id="the other is to have none"),
        pytest.param("ABC", "ABC", "", False, id="two of three are left"),
        pytest.param("ABC", "AB", "", False, id="one of three is away, and will vote again"),
    ],
)
def test_a_node_that_stops_gives_the_only_vote_away(
    voters: str, there: str, excluded: str, gives: bool
) -> None:
    seen = msgspec.structs.replace(state(*there, excluded=tuple(excluded)), voters=frozenset(voters))
    assert gives_vote_away("A", set(there), seen) is gives


def test_the_last_masters_keep_their_vote() -> None:
    pilots = [pilot(A, "master", decommission=True)]
    assert led(pilots, state(A), excluding(A)) == []


def test_replicas_are_allocated_again_when_all_have_been_in_for_long() -> None:
    pilots = [pilot(A, "data")]
    held = {ALLOCATION: "primaries"}
    assert led(pilots, state(A), held) == []
    assert led(pilots, state(A), held, long=True) == [SetSettings({ALLOCATION: None})]
    assert led(pilots, state(A), {ALLOCATION: "none"}, long=True) == []


def test_all_are_in_but_for_those_that_are_to_go_or_have_no_pod() -> None:
    gone = [{"type": "PodPresent", "status": "False"}]
    pilots = [pilot(A, "data"), pilot(B, "data", decommission=True), pilot(C, "data", conditions=gone)]
    assert are_all_in(pilots, state(A))
    assert not are_all_in([*pilots, pilot("es-demo-b-0", "data")], state(A))
    assert not are_all_in([pilot(A, "data", phase="PreStop")], state(A))


def test_version_6_has_the_greatest_number_of_masters_that_any_pilot_says() -> None:
    def saying(name: str, number: int) -> Object:
        one = pilot(name, "master").thawed()
        one["spec"]["configuration"] = {"settings": {"discovery.zen.minimum_master_nodes": number}}
        return Object(Pilot, one)

    name = "discovery.zen.minimum_master_nodes"
    pilots = [saying(A, 1), saying(B, 2)]
    assert led(pilots, state(A, B), {}, version=(6, 8)) == [SetSettings({name: 2})]
    assert led(pilots, state(A, B), {name: "2"}, version=(6, 8)) == []
    assert led(pilots, state(A), {name: "1"}, version=(6, 8)) == [], (
        "Elasticsearch refuses more than there are"
    )
    leaving = Object(Pilot, {**pilots[1].tree, "spec": {**pilots[1].spec, "decommission": True}})
    [changes] = led([pilots[0], leaving], state(A, B), {name: "2"}, version=(6, 8))
    assert isinstance(changes, SetSettings)
    assert changes.settings[name] == 1, "one that leaves has no say"


def test_members_carry_the_start_that_their_pilot_vouches_for() -> None:
    restarting = pilot(B, "data", conditions=[{"type": "Ready", "status": "False"}])
    assert members([pilot(A, "data"), restarting], state(A, B)) == {A: "2026-01-01T00:00:00Z", B: ""}


def test_health_is_settled_when_nothing_moves_or_is_held_back() -> None:
    yellow = {"status": "yellow", "number_of_nodes": 2, "active_shards": 3, "unassigned_shards": 1}
    facts = health_facts(yellow, held_back=False)
    assert facts["health"] == "Yellow"
    assert facts["settled"] is True
    assert not health_facts(yellow, held_back=True)["settled"]
    assert not health_facts({**yellow, "delayed_unassigned_shards": 1}, held_back=False)["settled"]
    looking = health_facts({**yellow, "number_of_in_flight_fetch": 2}, held_back=False)
    assert (looking["settled"], looking["shards"]["initializing"]) == (False, 2)


def test_a_cluster_that_is_not_formed_has_no_uuid() -> None:
    assert ClusterState.of({"cluster_uuid": "_na_"}).uuid == ""
    assert ClusterState.of({"cluster_uuid": "x", "metadata": {"cluster_uuid_committed": False}}).uuid == ""
    formed = ClusterState.of(
        {
            "cluster_uuid": "x",
            "master_node": "1",
            "nodes": {"1": {"name": A}},
            "routing_nodes": {"nodes": {"1": [{"index": "a"}, {"index": "b"}]}},
            "metadata": {
                "cluster_uuid_committed": True,
                "cluster_coordination": {
                    "last_committed_config": ["1"],
                    "voting_config_exclusions": [{"node_id": "2", "node_name": B}],
                },
            },
        }
    )
    assert (formed.uuid, formed.has_master, formed.id_of(A), formed.shards) == ("x", True, "1", {"1": 2})
    assert (formed.voters, formed.excluded_voters) == (frozenset({"1"}), frozenset({B}))


def test_documents_that_nobody_counted_are_unknown() -> None:
    assert documents({"nodes": {"1": {"indices": {"docs": {"count": 0}}}}}) == 0
    assert documents({}) is None


def copies(**found: str) -> list[ShardCopy]:
    """Of one shard: on which nodes, each ``whole``, ``building`` or ``leaving``."""
    return [ShardCopy(("books", 0), node, said == "whole") for node, said in found.items()]


@pytest.mark.parametrize(
    ("found", "staying", "left"),
    [
        (copies(b="whole"), "b", 0),
        (copies(a="whole", b="whole"), "bc", 1),
        (copies(a="whole", b="whole"), "b", 0),
        (copies(a="whole", b="building"), "b", 1),
        (copies(a="leaving", c="building", b="whole"), "bc", 1),
        (copies(a="whole", c="building", b="whole"), "bc", 1),
        (copies(a="whole", c="whole", b="whole"), "bc", 0),
        (copies(a="building", b="whole"), "b", 1),
        (copies(a="whole"), "", 1),
        (copies(a="whole", b="whole"), "", 1),
    ],
)
def test_a_copy_is_waited_for_unless_it_is_whole_elsewhere_and_has_nowhere_to_go(
    found: list[ShardCopy], staying: str, left: int
) -> None:
    assert not_elsewhere("a", found, set(staying)) == left


def test_copies_are_whole_once_they_are_started_and_stay() -> None:
    shards = [{"index": "books", "shard": 1, "state": said} for said in ("STARTED", "RELOCATING")]
    assert copies_of({"routing_nodes": {"nodes": {"a": shards}}}) == [
        ShardCopy(("books", 1), "a", True),
        ShardCopy(("books", 1), "a", False),
    ]


def test_figures_have_the_names_that_dashboards_know() -> None:
    gc = {"collectors": {"young": {"collection_count": 3, "collection_time_in_millis": 1500}}}
    node = {
        "indices": {"docs": {"count": 7}, "store": {"size_in_bytes": 90}, "indexing": {"index_total": 8}},
        "jvm": {"mem": {"heap_used_in_bytes": 5, "heap_max_in_bytes": 6}, "gc": gc},
        "fs": {"total": {"total_in_bytes": 100, "available_in_bytes": 40}},
    }
    found = {
        (each.name, each.labels.get("area", each.labels.get("gc", ""))): each.value
        for each in node_metrics({"nodes": {"1": node}}, 2, cluster="demo", name=A)
    }
    assert found == {
        ("elasticsearch_indices_docs", ""): 7,
        ("elasticsearch_node_shards_total", ""): 2,
        ("elasticsearch_indices_store_size_bytes", ""): 90,
        ("elasticsearch_indices_indexing_index_total", ""): 8,
        ("elasticsearch_filesystem_data_size_bytes", ""): 100,
        ("elasticsearch_filesystem_data_available_bytes", ""): 40,
        ("elasticsearch_jvm_memory_used_bytes", "heap"): 5,
        ("elasticsearch_jvm_memory_max_bytes", "heap"): 6,
        ("elasticsearch_jvm_gc_collection_seconds_count", "young"): 3,
        ("elasticsearch_jvm_gc_collection_seconds_sum", "young"): 1.5,
    }
    health = {"status": "yellow", "number_of_nodes": 2, "active_shards": 4}
    whole = [(each.name, each.labels.get("color", ""), each.value) for each in cluster_metrics(health, 3)]
    assert whole == [
        ("elasticsearch_cluster_health_status", "green", 0),
        ("elasticsearch_cluster_health_status", "yellow", 1),
        ("elasticsearch_cluster_health_status", "red", 0),
        ("elasticsearch_cluster_health_number_of_nodes", "", 2),
        ("elasticsearch_cluster_health_active_shards", "", 4),
        ("elasticsearch_cluster_read_only_indices", "", 3),
    ]
