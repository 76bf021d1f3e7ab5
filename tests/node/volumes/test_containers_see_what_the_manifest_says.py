"""Real processes with real images and volumes: what is seen from inside."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit.images import image_folder
from tests.node.real import RealNode, real_node, shell
from tests.node.volumes.conftest import World

from pilothouse.api.kind_names import Pod, ServiceAccount
from pilothouse.api.objects import Object
from pilothouse.base.clock import SystemClock
from pilothouse.node.images.image_store import ImageStore, ImageStoreError
from pilothouse.node.volumes.assembly import open_volumes
from pilothouse.node.volumes.mount_table import unmount_below


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[RealNode]:
    async with real_node(tmp_path, agent=False) as one:
        clock, data = SystemClock(), one.settings.data
        one.images = ImageStore(data / "images", clock)
        one.volumes = open_volumes(
            one.api, node=one.settings.name, data=data, clock=clock, rng=random.Random(1), refresh=0.2
        )
        await one.api.create(ServiceAccount, {"metadata": {"name": "default", "namespace": "default"}})
        one.start_agent()
        yield one
    unmount_below(tmp_path)


def ended(pod: Object) -> bool:
    return pod.status.get("phase") in ("Succeeded", "Failed")


async def said(
    node: RealNode,
    script: str,
    *volumes: dict[str, Any],
    container: dict[str, Any] | None = None,
    **spec: Any,
) -> str:
    """What a script prints that runs with these volumes, each mounted at /v/NAME unless the container says otherwise."""
    places = [{"name": one["name"], "mountPath": f"/v/{one['name']}"} for one in volumes]
    body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [shell(script, **{"volumeMounts": places, **(container or {})})],
        "volumes": list(volumes),
        **spec,
    }
    await node.pod(body)
    pod = await node.until(ended)
    log = node.log(pod)
    await node.delete(grace=0)
    await node.until_gone()
    return log


async def test_files_of_config_maps_secrets_and_the_pod_itself(node: RealNode) -> None:
    world = World(node.api)
    await world.config("app", {"a.conf": "one"})
    await world.secret("db", {"password": "hunter2"})
    name = {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}
    log = await said(
        node,
        "cat /v/c/a.conf; echo; cat /v/s/password; echo; cat /v/d/name; echo; touch /v/c/x 2>&1 | grep -o Read-only",
        {"name": "c", "configMap": {"name": "app"}},
        {"name": "s", "secret": {"secretName": "db"}},
        {"name": "d", "downwardAPI": {"items": [name]}},
    )
    assert log.splitlines() == ["one", "hunter2", "web-0", "Read-only"]


async def test_a_changed_config_map_reaches_a_container_that_runs(node: RealNode) -> None:
    world = World(node.api)
    await world.config("app", {"a.conf": "one"})
    script = "cat /v/a.conf; echo; until grep -q two /v/a.conf; do sleep 0.05; done; cat /v/a.conf; echo"
    body = {
        "restartPolicy": "Never",
        "containers": [shell(script, volumeMounts=[{"name": "c", "mountPath": "/v"}])],
        "volumes": [{"name": "c", "configMap": {"name": "app"}}],
        "automountServiceAccountToken": False,
    }
    await node.pod(body)
    await node.until(lambda pod: pod.status.get("phase") == "Running")
    await world.config("app", {"a.conf": "two"})
    pod = await node.until(ended)
    assert node.log(pod).splitlines() == ["one", "two"]


async def test_the_token_is_where_every_client_looks_for_it(node: RealNode) -> None:
    await World(node.api).config("kube-root-ca.crt", {"ca.crt": "CA"})
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = f"cd {folder} && cat ca.crt && echo && cat namespace && echo && tr -dc . <token && echo"
    await node.pod({"restartPolicy": "Never", "containers": [shell(script)]})
    pod = await node.until(ended)
    assert node.log(pod).splitlines() == ["CA", "default", ".."]


async def test_containers_share_an_empty_dir_and_a_restart_keeps_it(node: RealNode) -> None:
    place = [{"name": "e", "mountPath": "/shared"}]
    body = {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "initContainers": [shell("echo from-init > /shared/a", name="first", volumeMounts=place)],
        "containers": [
            shell(
                "cat /shared/a; echo again >> /shared/a; test $(wc -l < /shared/a) -ge 3", volumeMounts=place
            )
        ],
        "volumes": [{"name": "e", "emptyDir": {}}],
    }
    await node.pod(body)
    pod = await node.until(lambda pod: pod.status.get("phase") == "Succeeded", seconds=60)
    assert node.log(pod, attempt=1).splitlines() == ["from-init", "again"]


async def test_who_may_read_and_write(root: None, node: RealNode) -> None:
    log = await said(
        node,
        "id -u; id -G | tr ' ' '\\n' | grep -x 4242; touch /v/e/mine && stat -c '%u %g' /v/e/mine",
        {"name": "e", "emptyDir": {}},
        securityContext={"runAsUser": 1234, "runAsGroup": 1234, "fsGroup": 4242},
    )
    assert log.splitlines() == ["1234", "4242", "1234 4242"]


async def test_memory_holds_what_it_may(root: None, node: RealNode) -> None:
    log = await said(
        node,
        "stat -f -c %T /v/m; head -c 2097152 /dev/zero > /v/m/x 2>/dev/null || echo full",
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
    )
    assert log.splitlines() == ["tmpfs", "full"]


async def test_parts_of_volumes_and_files_of_the_host(node: RealNode, tmp_path: Path) -> None:
    (tmp_path / "motd").write_text("of the machine\n")
    places = [
        {"name": "e", "mountPath": "/one", "subPath": "a/b"},
        {"name": "e", "mountPath": "/mine", "subPathExpr": "$(NAME)"},
        {"name": "e", "mountPath": "/all", "readOnly": True},
        {"name": "h", "mountPath": "/etc/motd.of.host"},
    ]
    log = await said(
        node,
        "echo 1 > /one/x; echo 2 > /mine/y; cat /all/a/b/x /all/web-0/y /etc/motd.of.host; touch /all/z 2>&1 | grep -o Read-only",
        {"name": "e", "emptyDir": {}},
        {"name": "h", "hostPath": {"path": str(tmp_path / "motd"), "type": "File"}},
        container={
            "volumeMounts": places,
            "env": [{"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        },
    )
    assert log.splitlines() == ["1", "2", "of the machine", "Read-only"]


async def test_an_image_is_run_as_it_says(node: RealNode, tmp_path: Path) -> None:
    source = image_folder(
        tmp_path / "greeter",
        "bin/greet",
        'echo "$GREETING $1 from $(pwd), of $0"',
        entrypoint=["bin/greet"],
        cmd=["world"],
        env={"GREETING": "hello"},
        workingDir="/opt",
    )
    library = ImageStore(node.settings.data / "images", SystemClock())
    body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [{"name": "app", "image": "quay.io/team/greeter:1"}],
    }
    await node.pod(body)

    def waits(pod: Object) -> bool:
        [status] = pod.status.get("containerStatuses") or [{}]
        reason = (status.get("state") or {}).get("waiting", {}).get("reason")
        return bool(reason == "ErrImageNeverPull")

    waiting = await node.until(waits)
    why = waiting.status["containerStatuses"][0]["state"]["waiting"]["message"]
    assert "pilothouse image import greeter:1 FILE.tar.gz" in why
    library.import_("greeter:1", source)
    pod = await node.until(ended, seconds=60)
    assert node.log(pod) == "hello world from /opt, of /opt/greeter/bin/greet"


async def test_an_image_that_runs_is_not_removed(node: RealNode, tmp_path: Path) -> None:
    source = image_folder(tmp_path / "sleeper", "wait", "while :; do sleep 0.1; done")
    library = ImageStore(node.settings.data / "images", SystemClock())
    library.import_("sleeper:1", source)
    container = {"name": "app", "image": "sleeper:1", "command": ["/opt/sleeper/wait"]}
    await node.pod({"automountServiceAccountToken": False, "containers": [container]})
    await node.until(lambda pod: pod.status.get("phase") == "Running")
    with pytest.raises(ImageStoreError, match="sleeper:1 is in use by pod default/web-0; delete it first"):
        library.remove("sleeper:1")
    # A new import means the new files for the next start, and leaves the running container those that it has.
    former = library.resolve("sleeper:1").root
    library.import_("sleeper:1", source)
    assert former is not None
    assert former.exists()
    await node.delete(grace=1)
    await node.until_gone()
    library.remove("sleeper:1")
    assert not former.exists()


async def test_a_pod_that_outgrows_its_empty_dir_is_evicted(node: RealNode) -> None:
    script = "head -c 3145728 /dev/zero > /v/x; while :; do sleep 0.1; done"
    body = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [shell(script, volumeMounts=[{"name": "e", "mountPath": "/v"}])],
        "volumes": [{"name": "e", "emptyDir": {"sizeLimit": "1Mi"}}],
    }
    await node.pod(body)
    pod = await node.until(lambda pod: pod.status.get("phase") == "Failed", seconds=60)
    assert pod.status["reason"] == "Evicted"
    assert pod.status["message"] == 'Usage of EmptyDir volume "e" exceeds the limit "1Mi".'


async def test_what_is_missing_is_told_and_the_pod_starts_when_it_comes(node: RealNode) -> None:
    place = [{"name": "c", "mountPath": "/v"}]
    body = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [shell("cat /v/a", volumeMounts=place)],
        "volumes": [{"name": "c", "configMap": {"name": "later"}}],
    }
    await node.pod(body)

    def waits(pod: Object) -> bool:
        [status] = pod.status.get("containerStatuses") or [{}]
        return "not found" in (status.get("state") or {}).get("waiting", {}).get("message", "")

    pod = await node.until(waits)
    waiting = pod.status["containerStatuses"][0]["state"]["waiting"]
    assert waiting["message"] == 'volume "c": configmap "later" not found'
    await World(node.api).config("later", {"a": "here"})
    assert node.log(await node.until(ended, seconds=60)) == "here"
    assert await node.api.find(Pod, "web-0", "default") is not None


async def test_a_path_above_the_nodes_own_folder_shows_nothing_of_it(node: RealNode, tmp_path: Path) -> None:
    (tmp_path / "beside").write_text("seen")
    (node.settings.data / "key").write_text("secret")
    script = f"cat /v/h/beside; echo; ls -A /v/h/{node.settings.data.name}; cat /v/h/{node.settings.data.name}/key 2>&1"
    found = await said(node, script, {"name": "h", "hostPath": {"path": str(tmp_path)}})
    assert found.splitlines()[0] == "seen"
    assert found.splitlines()[-1].endswith("No such file or directory")
    assert "secret" not in found


async def test_a_part_of_a_path_above_the_nodes_own_folder_shows_nothing_of_it(
    node: RealNode, tmp_path: Path
) -> None:
    (node.settings.data / "key").write_text("secret")
    volume = {"name": "h", "hostPath": {"path": str(tmp_path.parent)}}
    places = [{"name": "h", "mountPath": "/host", "subPath": tmp_path.name}]
    script = f"ls /host; ls -A /host/{node.settings.data.name}; cat /host/{node.settings.data.name}/key 2>&1"
    found = await said(node, script, volume, container={"volumeMounts": places})
    assert node.settings.data.name in found.split()
    assert found.splitlines()[-1].endswith("No such file or directory")


async def test_a_filesystem_that_can_not_show_other_owners_is_told_of(root: None, node: RealNode) -> None:
    await node.pod(
        {
            "automountServiceAccountToken": False,
            "containers": [shell("true", volumeMounts=[{"name": "h", "mountPath": "/host"}])],
            "volumes": [{"name": "h", "hostPath": {"path": "/proc/sys"}}],
        }
    )

    def waiting(pod: Object) -> dict[str, str]:
        (status,) = pod.status.get("containerStatuses") or [{}]
        return dict((status.get("state") or {}).get("waiting") or {})

    pod = await node.until(lambda pod: waiting(pod).get("reason") == "IdMapRefused")
    assert "/host" in waiting(pod)["message"]
    assert "hostUsers: true" in waiting(pod)["message"]
