"""Variables and their sources, ``$(NAME)``, commands and arguments, users and rights: no process needed to see them."""

from __future__ import annotations

import base64
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.kit.node_parts import PlainImage

from pilothouse.api.kind_names import Pod
from pilothouse.api.kubernetes.pods.qos_class import quality_of_service
from pilothouse.api.objects import Object
from pilothouse.node.containers.container_launch import (
    PodSetting,
    compose_launch,
    oom_score,
    stop_signal,
)
from pilothouse.node.containers.environment import environment, expanded, referenced_sources
from pilothouse.node.containers.security_context import AgentIdentity, capabilities, no_new_privileges, user
from pilothouse.node.interfaces import NotReady
from pilothouse.node.pods.pod_directories import ContainerDirectory
from pilothouse.supervise.launch_spec import IdRange, LaunchSpec, ProcessUser
from pilothouse.supervise.shim.process_setup import CAPABILITIES

ROOT, NOBODY = AgentIdentity(0, 0), AgentIdentity(65534, 65534)


def pod(**spec: Any) -> Object:
    tree = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "db-0",
            "namespace": "prod",
            "uid": "u-1",
            "labels": {"app": "db"},
            "annotations": {"a/b": "note"},
        },
        "spec": {"nodeName": "m1", "serviceAccountName": "db", "containers": [{"name": "app"}], **spec},
    }
    return Object(Pod, tree)


def env_of(container: dict[str, Any], sources: Any = None, image: Any = None) -> dict[str, str]:
    return environment(
        pod(containers=[{"name": "app", **container}]),
        {"name": "app", **container},
        sources or {},
        image or {},
        address="127.8.0.1",
        host="10.0.0.1",
        allocatable={"cpu": "4", "memory": "8Gi"},
    )


def config_map(**data: str) -> Object:
    return Object.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})


def secret(**data: str) -> Object:
    coded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return Object.of({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": coded})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "db-0"),
        ("metadata.namespace", "prod"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['app']", "db"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['a/b']", "note"),
        ("spec.nodeName", "m1"),
        ("spec.serviceAccountName", "db"),
        ("status.podIP", "127.8.0.1"),
        ("status.podIPs", "127.8.0.1"),
        ("status.hostIP", "10.0.0.1"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    env = env_of({"env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]})
    assert env["X"] == value


@pytest.mark.parametrize(
    ("resource", "divisor", "value"),
    [
        ("limits.cpu", None, "2"),
        ("limits.cpu", "1m", "1500"),
        ("limits.memory", None, "268435456"),
        ("limits.memory", "1Mi", "256"),
        ("requests.cpu", "1m", "250"),
        ("requests.memory", "1Mi", "0"),
        ("limits.ephemeral-storage", "1", "0"),
    ],
)
def test_amounts_are_divided_and_rounded_up(resource: str, divisor: str | None, value: str) -> None:
    reference = {"resource": resource, **({"divisor": divisor} if divisor else {})}
    resources = {"limits": {"cpu": "1500m", "memory": "256Mi"}, "requests": {"cpu": "250m"}}
    env = env_of(
        {"resources": resources, "env": [{"name": "X", "valueFrom": {"resourceFieldRef": reference}}]}
    )
    assert env["X"] == value


def test_without_a_limit_it_is_what_the_node_has() -> None:
    env = env_of({"env": [{"name": "X", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]})
    assert env["X"] == "4"


def test_keys_of_config_maps_and_secrets() -> None:
    sources = {("ConfigMap", "c"): config_map(mode="fast"), ("Secret", "s"): secret(password="p w")}
    env = env_of(
        {
            "env": [
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "mode"}}},
                {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "password"}}},
            ]
        },
        sources,
    )
    assert (env["MODE"], env["PASSWORD"]) == ("fast", "p w")


def test_whole_sources_with_a_prefix_and_what_comes_later_wins() -> None:
    sources = {("ConfigMap", "c"): config_map(a="1", b="1"), ("Secret", "s"): secret(b="2")}
    container = {
        "envFrom": [
            {"prefix": "X_", "configMapRef": {"name": "c"}},
            {"prefix": "X_", "secretRef": {"name": "s"}},
        ],
        "env": [{"name": "X_a", "value": "3"}],
    }
    env = env_of(container, sources)
    assert (env["X_a"], env["X_b"]) == ("3", "2")


def test_keys_that_are_no_identifiers_are_variables_too() -> None:
    sources = {("ConfigMap", "c"): config_map(**{"1st": "x", "data-1": "y", "ok.name": "z"})}
    env = env_of({"envFrom": [{"configMapRef": {"name": "c"}}]}, sources)
    assert (env["1st"], env["data-1"], env["ok.name"]) == ("x", "y", "z")
    prefixed = env_of({"envFrom": [{"configMapRef": {"name": "c"}, "prefix": "a="}]}, sources)
    assert not any("=" in name for name in prefixed)


def test_services_of_the_namespace_are_variables() -> None:
    def service(name: str, address: str, *ports: dict[str, Any]) -> Object:
        spec = {"clusterIP": address, "ports": list(ports)}
        meta = {"name": name, "namespace": "prod"}
        return Object.of({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})

    services = [
        service(
            "redis-master", "127.96.4.7", {"port": 6379, "name": "cl-ient"}, {"port": 53, "protocol": "UDP"}
        ),
        service("headless", "None", {"port": 80}),
        service("elsewhere", ""),
    ]

    def links(**spec: Any) -> dict[str, str]:
        env = environment(
            pod(**spec),
            {"name": "app", "env": [{"name": "URL", "value": "$(REDIS_MASTER_SERVICE_HOST)"}]},
            {},
            {},
            address="127.8.0.1",
            host="10.0.0.1",
            allocatable={},
            services=services,
        )
        return {name: value for name, value in env.items() if name not in ("PATH", "HOSTNAME")}

    assert links() == {
        "REDIS_MASTER_SERVICE_HOST": "127.96.4.7",
        "REDIS_MASTER_SERVICE_PORT": "6379",
        "REDIS_MASTER_SERVICE_PORT_CL_IENT": "6379",
        "REDIS_MASTER_PORT": "tcp://127.96.4.7:6379",
        "REDIS_MASTER_PORT_6379_TCP": "tcp://127.96.4.7:6379",
        "REDIS_MASTER_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_MASTER_PORT_6379_TCP_PORT": "6379",
        "REDIS_MASTER_PORT_6379_TCP_ADDR": "127.96.4.7",
        "REDIS_MASTER_PORT_53_UDP": "udp://127.96.4.7:53",
        "REDIS_MASTER_PORT_53_UDP_PROTO": "udp",
        "REDIS_MASTER_PORT_53_UDP_PORT": "53",
        "REDIS_MASTER_PORT_53_UDP_ADDR": "127.96.4.7",
        "URL": "127.96.4.7",
    }
    assert links(enableServiceLinks=False) == {"URL": "$(REDIS_MASTER_SERVICE_HOST)"}


def test_optional_sources_may_be_missing() -> None:
    reference = {"name": "c", "key": "mode", "optional": True}
    env = env_of(
        {
            "envFrom": [{"secretRef": {"name": "s", "optional": True}}],
            "env": [{"name": "MODE", "valueFrom": {"configMapKeyRef": reference}}],
        }
    )
    assert "MODE" not in env


def test_a_missing_key_is_named() -> None:
    reference = {"name": "c", "key": "mode"}
    with pytest.raises(NotReady, match="couldn't find key mode in ConfigMap prod/c"):
        env_of(
            {"env": [{"name": "MODE", "valueFrom": {"configMapKeyRef": reference}}]},
            {("ConfigMap", "c"): config_map(other="x")},
        )


def test_what_is_referred_to_is_known_beforehand() -> None:
    container = {
        "name": "app",
        "envFrom": [{"configMapRef": {"name": "a"}}, {"secretRef": {"name": "b"}}],
        "env": [
            {"name": "X", "value": "1"},
            {"name": "Y", "valueFrom": {"secretKeyRef": {"name": "c", "key": "k"}}},
        ],
    }
    assert referenced_sources(container) == {("ConfigMap", "a"), ("Secret", "b"), ("Secret", "c")}


def test_the_image_comes_first_and_the_manifest_over_it() -> None:
    env = env_of({"env": [{"name": "B", "value": "mine"}]}, image={"A": "image", "B": "image"})
    assert (env["A"], env["B"]) == ("image", "mine")
    assert env["PATH"].startswith("/usr/local/sbin")
    assert env["HOSTNAME"] == "db-0"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)z", "x1y2z"),
        ("$(NONE)", "$(NONE)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A}", "$A ${A}"),
        ("$(A", "$(A"),
        ("100$", "100$"),
    ],
)
def test_variables_in_texts(text: str, value: str) -> None:
    assert expanded(text, {"A": "1", "B": "2"}) == value


def test_variables_refer_to_earlier_ones_alone() -> None:
    env = env_of(
        {"env": [{"name": "A", "value": "$(B)"}, {"name": "B", "value": "2"}, {"name": "C", "value": "$(B)"}]}
    )
    assert (env["A"], env["C"]) == ("$(B)", "2")


def launched(container: dict[str, Any], image: PlainImage = PlainImage(), **spec: Any) -> LaunchSpec:
    folder = ContainerDirectory(Path("/nodes/pods/u-1/containers/app"))
    spec_of = {"name": "app", "image": "x", **container}
    return compose_launch(
        pod(containers=[spec_of], **spec), spec_of, image, {"N": "7"}, PodSetting(agent=ROOT), folder, 3
    )


@pytest.mark.parametrize(
    ("command", "args", "argv"),
    [
        (None, None, ("/usr/bin/entry", "default")),
        (None, ["a"], ("/usr/bin/entry", "a")),
        (["run"], None, ("run",)),
        (["run"], ["a", "b"], ("run", "a", "b")),
        (["run", "--n=$(N)"], ["$(N)"], ("run", "--n=7", "7")),
    ],
)
def test_commands_and_arguments(
    command: list[str] | None, args: list[str] | None, argv: tuple[str, ...]
) -> None:
    image = PlainImage(entrypoint=("/usr/bin/entry",), cmd=("default",))
    given = {key: value for key, value in (("command", command), ("args", args)) if value is not None}
    assert launched(given, image).argv == argv


def test_a_container_without_a_command_says_so() -> None:
    with pytest.raises(NotReady, match='container "app" no command'):
        launched({}, PlainImage(entrypoint=()))


def test_a_program_of_the_machine_that_containers_do_not_see_says_what_would_show_it() -> None:
    image = PlainImage(entrypoint=("/opt/java/bin/java",))
    with pytest.raises(NotReady, match="start the node with --expose-path /opt/java/bin"):
        launched({}, image)
    assert launched({"command": ["sh"]}, image).argv == ("sh",)


def test_the_working_folder_is_the_containers_then_the_images() -> None:
    image = PlainImage(working_dir="/srv")
    assert launched({"workingDir": "/data"}, image).cwd == "/data"
    assert launched({}, image).cwd == "/srv"
    assert launched({}).cwd == "/"


def test_the_view_has_image_message_file_and_host_name() -> None:
    image = PlainImage(root=Path("/images/x"), mount_at="/opt/x")
    view = launched({"terminationMessagePath": "/tmp/last"}, image, hostname="custom").view
    assert view is not None
    assert view.hostname == "custom"
    targets = {mount.target: mount for mount in view.mounts}
    assert targets["/opt/x"].read_only
    assert targets["/tmp/last"].source == "/nodes/pods/u-1/containers/app/3/termination-log"


def test_an_image_at_the_root_has_each_of_its_files_beside_the_machines(tmp_path: Path) -> None:
    (tmp_path / "agnhost").write_text("#!/bin/sh\n")
    (tmp_path / "uploads").mkdir()
    (tmp_path / "image.json").write_text("{}")
    view = launched({}, PlainImage(root=tmp_path, mount_at="/")).view
    assert view is not None
    seen = {mount.target: mount.source for mount in view.mounts if mount.read_only}
    assert seen == {"/agnhost": f"{tmp_path}/agnhost", "/uploads": f"{tmp_path}/uploads"}


def test_the_log_is_in_the_folder_of_the_instance() -> None:
    assert launched({}).log.path == "/nodes/pods/u-1/containers/app/3/log"


@pytest.mark.parametrize(
    ("of_pod", "own", "image", "expected"),
    [
        ({}, {}, "", (0, 0)),
        ({"runAsUser": 54321}, {}, "", (54321, 0)),
        ({"runAsUser": 1000, "runAsGroup": 50}, {"runAsUser": 2000}, "", (2000, 50)),
        ({}, {}, "999:998", (999, 998)),
        ({"runAsUser": 54321}, {}, "999:998", (54321, 998)),
    ],
)
def test_users_are_the_containers_then_the_pods_then_the_images(
    of_pod: dict[str, Any], own: dict[str, Any], image: str, expected: tuple[int, int]
) -> None:
    found = user(pod(securityContext=of_pod), {"name": "app", "securityContext": own}, image, ROOT)
    assert found is not None
    assert (found.uid, found.gid) == expected


def test_groups_of_volumes_are_added() -> None:
    of_pod = {"fsGroup": 2000, "supplementalGroups": [3000]}
    found = user(pod(securityContext=of_pod), {"name": "app"}, "", ROOT)
    assert found == ProcessUser(0, 0, (2000, 3000))


def test_who_must_not_be_root_is_not() -> None:
    asked = pod(securityContext={"runAsNonRoot": True})
    with pytest.raises(NotReady, match="runAsNonRoot"):
        user(asked, {"name": "app"}, "", ROOT)
    assert user(asked, {"name": "app", "securityContext": {"runAsUser": 7}}, "", ROOT) is not None


def test_an_ordinary_users_pod_is_shown_the_number_that_it_asks_for() -> None:
    asked = pod(
        securityContext={"runAsUser": 54321, "runAsNonRoot": True, "supplementalGroups": [7], "fsGroup": 8}
    )
    assert user(asked, {"name": "app"}, "", NOBODY) == ProcessUser(54321, 0)
    assert user(pod(securityContext={"runAsGroup": 50}), {"name": "app"}, "", NOBODY) == ProcessUser(
        65534, 50
    )
    assert user(pod(securityContext={"runAsNonRoot": True}), {"name": "app"}, "", NOBODY) is None
    with pytest.raises(NotReady, match="runAsNonRoot"):
        user(pod(securityContext={"runAsNonRoot": True, "runAsUser": 0}), {"name": "app"}, "", NOBODY)


@pytest.mark.parametrize(
    ("asked", "has", "lacks"),
    [
        ({}, "CHOWN", "SYS_ADMIN"),
        ({"capabilities": {"drop": ["ALL"]}}, None, "CHOWN"),
        ({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}, "NET_BIND_SERVICE", "CHOWN"),
        ({"capabilities": {"add": ["CAP_SYS_TIME"]}}, "SYS_TIME", "SYS_ADMIN"),
        ({"capabilities": {"drop": ["chown"]}}, "KILL", "CHOWN"),
    ],
)
def test_capabilities_are_added_and_dropped(asked: dict[str, Any], has: str | None, lacks: str) -> None:
    found = capabilities({"name": "app", "securityContext": asked})
    assert has is None or has in found
    assert lacks not in found


def test_the_privileged_have_every_capability() -> None:
    assert set(capabilities({"name": "app", "securityContext": {"privileged": True}})) == set(CAPABILITIES)


def test_all_capabilities_can_be_had_but_some() -> None:
    asked = {"capabilities": {"add": ["ALL"], "drop": ["SYS_ADMIN"]}}
    found = capabilities({"name": "app", "securityContext": asked})
    assert set(found) == set(CAPABILITIES) - {"SYS_ADMIN"}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, True),
        ({"allowPrivilegeEscalation": False}, True),
        ({"capabilities": {"add": ["SYS_TIME"]}}, True),
        ({"allowPrivilegeEscalation": True}, False),
        ({"privileged": True}, False),
        ({"capabilities": {"add": ["CAP_SYS_ADMIN"]}}, False),
    ],
)
def test_privileges_are_gained_only_where_that_is_asked_for(asked: dict[str, Any], expected: bool) -> None:
    assert no_new_privileges({"name": "app", "securityContext": asked}) is expected
    assert launched({"securityContext": asked}).no_new_privileges is expected


@pytest.mark.parametrize(
    ("asked", "masked"),
    [
        ({}, True),
        ({"procMount": "Default"}, True),
        ({"procMount": "Unmasked"}, False),
        ({"privileged": True}, False),
    ],
)
def test_the_machines_own_figures_are_masked(asked: dict[str, Any], masked: bool) -> None:
    view = launched({"securityContext": asked}).view
    assert view is not None
    assert view.masked is masked


def test_owners_are_mapped_in_all_but_the_image() -> None:
    folder = ContainerDirectory(Path("/nodes/pods/u-1/containers/app"))
    image = PlainImage(root=Path("/images/x"), mount_at="/opt/x")
    setting = PodSetting(agent=ROOT, ids=IdRange(1 << 20), machine=("/opt/java",))
    launch = compose_launch(pod(), {"name": "app"}, image, {}, setting, folder, 0)
    assert launch.ids == IdRange(1 << 20)
    assert launch.view is not None
    assert launch.view.machine == ("/opt/java",)
    assert [mount.target for mount in launch.view.mounts if not mount.mapped] == ["/opt/x"]


@pytest.mark.parametrize(
    ("resources", "expected", "score"),
    [
        ({}, "BestEffort", 1000),
        ({"requests": {"cpu": "1"}}, "Burstable", 500),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", 0),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
            "Burstable",
            500,
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}},
            "Guaranteed",
            0,
        ),
        ({"limits": {"memory": "1Gi"}}, "Burstable", 500),
    ],
)
def test_who_goes_first_when_memory_is_short(resources: dict[str, Any], expected: str, score: int) -> None:
    one = {"name": "app", "resources": resources}
    assert quality_of_service(pod(containers=[one]).spec) == expected
    assert oom_score(pod(containers=[one]), one) == score


def test_the_stop_signal_is_sigterm_unless_told() -> None:
    assert stop_signal({"name": "app"}) == signal.SIGTERM
    assert stop_signal({"name": "app", "lifecycle": {"stopSignal": "SIGQUIT"}}) == signal.SIGQUIT
    assert stop_signal({"name": "app", "lifecycle": {"stopSignal": "SIGFOO"}}) == signal.SIGTERM


def test_references_that_double_each_other_are_refused_before_they_fill_the_memory() -> None:
    doubling = [{"name": "A0", "value": "x" * 1000}]
    doubling += [{"name": f"A{n}", "value": f"$(A{n - 1})$(A{n - 1})"} for n in range(1, 40)]
    with pytest.raises(NotReady, match="longer than 131072 characters"):
        env_of({"env": doubling})
    many = [{"name": "A0", "value": "x" * 100_000}]
    many += [{"name": f"B{n}", "value": "$(A0)"} for n in range(1000)]
    with pytest.raises(NotReady, match="larger than 4194304 characters in all"):
        env_of({"env": many})
