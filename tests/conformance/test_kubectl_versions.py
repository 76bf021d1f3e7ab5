"""Case 71, and the commands people use every day, with every kubectl on this machine.

From 1.32 on kubectl sends protobuf bodies for built-in kinds, before that JSON; the oldest asks for other versions
of some kinds. A server has to be right for all of them.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kit import kube
from tests.kit.databases import GROUP, Databases, database, manifest
from tests.kit.http import Http
from tests.kit.kubectl import Binary, Kubectl, installed
from tests.kit.servers import Target
from tests.kit.waiting import eventually

pytestmark = [pytest.mark.conformance, pytest.mark.kubectl]

DB = f"database.{GROUP}/a"


@pytest.fixture(params=installed(), ids=lambda binary: binary.version)
def binary(request: pytest.FixtureRequest) -> Binary:
    found: Binary = request.param
    return found


@pytest.fixture
def kubectl(binary: Binary, target: Target, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return Kubectl(binary, target.kubeconfig, tmp_path_factory.getbasetemp() / f"kubectl-{binary.version}")


async def test_case_71_namespaces_and_config_maps_are_created(kubectl: Kubectl, http: Http, ns: str) -> None:
    assert (await kubectl("create", "ns", f"{ns}-made")).ok() == f"namespace/{ns}-made created\n"
    created = await kubectl("create", "cm", "cm", "-n", f"{ns}-made", "--from-literal=k=v")
    assert created.ok() == "configmap/cm created\n"

    live = (await http.get(f"/api/v1/namespaces/{ns}-made/configmaps/cm")).expect(200)
    assert live["data"] == {"k": "v"}
    assert live["metadata"]["managedFields"][0]["manager"] == "kubectl-create"


async def test_create_get_and_delete(kubectl: Kubectl, dbs: Databases) -> None:
    ns = ("-n", dbs.namespace)
    assert (await kubectl("create", *ns, "-f", "-", stdin=manifest(database("a")))).ok() == f"{DB} created\n"

    header, row = (await kubectl("get", "db", *ns, "-o", "wide")).rows()
    assert header == ["NAME", "ENGINE", "REPLICAS", "PHASE", "AGE"]
    assert row[:3] == ["a", "pg", "1"]
    columns = "custom-columns=NAME:.metadata.name,ENGINE:.spec.engine"
    assert (await kubectl("get", "db", *ns, "-o", columns)).rows() == [["NAME", "ENGINE"], ["a", "pg"]]
    assert "engine: pg" in (await kubectl("get", "db", "a", *ns, "-o", "yaml")).ok()
    assert (await kubectl("get", "all", *ns, "-o", "name")).ok() == f"{DB}\n"
    assert "deleted" in (await kubectl("delete", "db", "a", *ns, "--cascade=background")).ok()
    assert (await kubectl("get", "db", "a", *ns)).code == 1


async def test_apply_and_diff(kubectl: Kubectl, dbs: Databases) -> None:
    on_file = ("-n", dbs.namespace, "-f", "-")
    first, second = manifest(database("a")), manifest(database("a", replicas=2))
    assert (await kubectl("apply", *on_file, stdin=first)).ok() == f"{DB} created\n"
    assert (await kubectl("apply", *on_file, stdin=first)).ok() == f"{DB} unchanged\n"
    different = await kubectl("diff", *on_file, stdin=second)
    assert different.code == 1
    assert "+  replicas: 2" in different.out
    assert (await kubectl("apply", *on_file, stdin=second)).ok() == f"{DB} configured\n"
    assert (await kubectl("diff", *on_file, stdin=second)).ok() == ""


async def test_apply_on_the_server(kubectl: Kubectl, dbs: Databases) -> None:
    arguments = ("apply", "--server-side", "-n", dbs.namespace, "-f", "-")
    body = manifest(database("a", replicas=2))
    assert (await kubectl(*arguments, stdin=body)).ok() == f"{DB} serverside-applied\n"
    conflicting = manifest(database("a", replicas=3))
    refused = await kubectl(*arguments, "--field-manager=other", stdin=conflicting)
    assert 'conflict with "kubectl": .spec.replicas' in refused.err
    forced = await kubectl(*arguments, "--field-manager=other", "--force-conflicts", stdin=conflicting)
    assert forced.ok() == f"{DB} serverside-applied\n"
    assert (await dbs.read("a"))["spec"]["replicas"] == 3


async def test_edit_patch_label_annotate_and_replace(
    kubectl: Kubectl, dbs: Databases, tmp_path: Path
) -> None:
    await dbs.create("a")
    ns = ("-n", dbs.namespace)
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/replicas: 1/replicas: 2/' \"$1\"\n")
    editor.chmod(0o755)
    assert (await kubectl("edit", "db", "a", *ns, editor=str(editor))).ok() == f"{DB} edited\n"
    patch = ("patch", "db", "a", *ns, "--type=merge", "-p", '{"spec":{"owner":"o"}}')
    assert (await kubectl(*patch)).ok() == f"{DB} patched\n"
    assert (await kubectl("label", "db", "a", *ns, "k=v")).ok() == f"{DB} labeled\n"
    annotated = (await kubectl("annotate", "db", "a", *ns, "n=m")).ok()
    assert annotated.startswith(f"{DB} annotate")  # 1.27 leaves out the last letter
    live = await dbs.read("a")
    assert live["spec"] == {"engine": "pg", "replicas": 2, "owner": "o"}
    assert live["metadata"]["labels"] == {"k": "v"}
    assert live["metadata"]["annotations"] == {"n": "m"}
    assert (
        await kubectl("replace", *ns, "-f", "-", stdin=manifest(database("a")))
    ).ok() == f"{DB} replaced\n"
    assert (await dbs.read("a"))["spec"] == {"engine": "pg", "replicas": 1}


async def test_strategic_patches_of_built_in_kinds(kubectl: Kubectl, http: Http, ns: str) -> None:
    (await kubectl("create", "cm", "cm", "-n", ns, "--from-literal=a=1", "--from-literal=b=2")).ok()
    assert (
        await kubectl("patch", "cm", "cm", "-n", ns, "-p", '{"data":{"a":"3"}}')
    ).ok() == "configmap/cm patched\n"
    (await kubectl("label", "cm", "cm", "-n", ns, "k=v")).ok()
    live = (await http.get(f"/api/v1/namespaces/{ns}/configmaps/cm")).expect(200)
    assert live["data"] == {"a": "3", "b": "2"}
    assert live["metadata"]["labels"] == {"k": "v"}


async def test_scale_and_wait(kubectl: Kubectl, dbs: Databases, http: Http) -> None:
    await dbs.create("a")
    ns = ("-n", dbs.namespace)
    assert (await kubectl("scale", "db", "a", *ns, "--replicas=4")).ok() == f"{DB} scaled\n"
    assert (await dbs.read("a"))["spec"]["replicas"] == 4

    waiting = kubectl("wait", "db/a", *ns, "--for=condition=Ready", "--timeout=30s")
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    shown, _ = await asyncio.gather(waiting, http.patch(dbs.at("a", "status"), ready))
    assert shown.ok() == f"{DB} condition met\n"

    gone = kubectl("wait", "db/a", *ns, "--for=delete", "--timeout=30s")
    shown, _ = await asyncio.gather(gone, http.delete(dbs.at("a")))
    # Whoever comes too late is told that there is nothing to wait for.
    assert shown.code == 0 or "not found" in shown.err


async def test_watch(kubectl: Kubectl, dbs: Databases, http: Http) -> None:
    await dbs.create("a")

    async with kubectl.started("get", "db", "-w", "-n", dbs.namespace) as process:
        assert process.stdout

        async def words() -> list[str]:
            assert process.stdout
            return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().split()

        assert await words() == ["NAME", "ENGINE", "REPLICAS", "AGE"]
        assert (await words())[:3] == ["a", "pg", "1"]
        (await http.patch(dbs.at("a"), {"spec": {"replicas": 2}})).expect(200)
        assert (await words())[:3] == ["a", "pg", "2"]
        await dbs.create("b")
        assert (await words())[:3] == ["b", "pg", "1"]


async def test_explain_and_api_resources(kubectl: Kubectl, http: Http) -> None:
    assert "Who may log in." in (await kubectl("explain", "db.spec.users")).ok()
    shown = (await kubectl("api-resources", f"--api-group={GROUP}", "--no-headers")).ok()
    assert sorted(line.split()[0] for line in shown.splitlines()) == ["databases", "regions"]
    assert f"{GROUP}/v1" in (await kubectl("api-versions")).ok().split()
    assert "Server Version" in (await kubectl("version")).ok()


async def test_auth_whoami(kubectl: Kubectl, target: Target, http: Http) -> None:
    if kubectl.binary.minor == 27 and target.name == kube.NAME:
        # This kubectl knows only v1alpha1 and v1beta1 of the review, which a 1.33 server does not have.
        assert "the selfsubjectreviews API is not enabled" in (await kubectl("auth", "whoami")).err
        return
    shown = (await kubectl("auth", "whoami")).ok()
    assert "system:authenticated" in shown
    assert "system:masters" in shown
    assert (await kubectl("auth", "can-i", "create", "db")).ok() == "yes\n"


async def test_describe_and_events(kubectl: Kubectl, dbs: Databases, http: Http) -> None:
    live = await dbs.create("a")
    involved = {"apiVersion": live["apiVersion"], "kind": "Database", "name": "a", "namespace": dbs.namespace}
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "a.1"},
        "involvedObject": {**involved, "uid": live["metadata"]["uid"]},
        "type": "Normal",
        "reason": "Grown",
        "message": "from one to two",
        "source": {"component": "grower"},
        "lastTimestamp": live["metadata"]["creationTimestamp"],
        "count": 1,
    }
    (await http.post(f"/api/v1/namespaces/{dbs.namespace}/events", event)).expect(201)

    described = (await kubectl("describe", "db", "a", "-n", dbs.namespace)).ok()
    assert "Engine:" in described
    assert "from one to two" in described
    assert "Grown" in (await kubectl("events", "-n", dbs.namespace, "--for", "db/a")).ok()
    assert "Grown" in (await kubectl("get", "events", "-n", dbs.namespace)).ok()


@pytest.mark.parametrize("cascade", ["orphan", "foreground"])
async def test_delete_says_how_to_cascade(kubectl: Kubectl, dbs: Databases, cascade: str) -> None:
    await dbs.create("a")
    arguments = ("delete", "db", "a", "-n", dbs.namespace, f"--cascade={cascade}", "--wait=false")
    assert "deleted" in (await kubectl(*arguments)).ok()

    async def finalizers() -> list[str]:
        live = await dbs.http.get(dbs.at("a"))
        return list(live.json["metadata"].get("finalizers", [])) if live.status == 200 else ["gone"]

    # A garbage collector that happens to be attached may have done its work already.
    expected = {"orphan": "orphan", "foreground": "foregroundDeletion"}[cascade]
    assert await eventually(finalizers) in ([expected], ["gone"])
