"""A node's certificate in the wrong hands. Its user has every right that RBAC can give besides."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.kit.sample_installation import LEASES, SampleInstallation, node

from pilothouse.apiserver.server.messages import User

Json = dict[str, Any]
MERGE = "application/merge-patch+json"
N1 = node("n1")
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"


@pytest.fixture(scope="module", autouse=True)
def n1(shop: SampleInstallation) -> User:
    shop.grant_everything(N1)
    return N1


def request_for(name: str, *groups: str, signer: str = CLIENT) -> Json:
    names = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    key = ec.generate_private_key(ec.SECP256R1())
    made = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    pem = base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()
    spec = {"request": pem, "signerName": signer, "usages": ["client auth"]}
    return {"metadata": {"generateName": "csr-"}, "spec": spec}


# Reading


def test_it_reads_all_nodes_to_find_the_way_to_them(shop: SampleInstallation) -> None:
    for name in ("n1", "n2"):
        shop.send("GET", f"/api/v1/nodes/{name}", user=N1).expect(200)
    listed = shop.send("GET", "/api/v1/nodes", user=N1).expect(200)
    assert {"n1", "n2"} <= {item["metadata"]["name"] for item in listed["items"]}
    assert shop.send("GET", "/api/v1/nodes", query="watch=1", user=N1).status == 200


def test_it_lists_the_pods_that_are_bound_to_it(shop: SampleInstallation) -> None:
    own = "fieldSelector=spec.nodeName%3Dn1"
    listed = shop.send("GET", "/api/v1/pods", query=own, user=N1).expect(200)
    assert {item["spec"]["nodeName"] for item in listed["items"]} == {"n1"}
    assert len(listed["items"]) > 3
    assert shop.send("GET", "/api/v1/pods", query=f"watch=1&{own}", user=N1).status == 200
    for query in ("", "fieldSelector=spec.nodeName%3Dn2", "fieldSelector=spec.nodeName!%3Dn2", "watch=1"):
        said = shop.refused(shop.send("GET", "/api/v1/pods", query=query, user=N1))
        assert "ask with fieldSelector=spec.nodeName=n1" in said
    shop.send("GET", shop.at("pods", "web"), user=N1).expect(200)
    shop.refused(shop.send("GET", shop.at("pods", "es-demo-1"), user=N1))


def test_it_reads_what_its_pods_refer_to(shop: SampleInstallation) -> None:
    for plural, name in (
        ("secrets", "web-password"),
        ("secrets", "demo-password"),
        ("serviceaccounts", "web"),
    ):
        shop.send("GET", shop.at(plural, name), user=N1).expect(200)
        query = f"watch=1&fieldSelector=metadata.name%3D{name}"
        watched = shop.send("GET", shop.at(plural), query=query, user=N1)
        assert watched.status == (200 if plural == "secrets" else 403)
    said = shop.refused(shop.send("GET", shop.at("secrets", "web-password"), user=node("n2")))
    assert "no relationship found between node 'n2' and this object" in said


@pytest.mark.parametrize(
    ("plural", "name"),
    [
        ("secrets", "unrelated"),
        ("configmaps", "unrelated"),
        ("configmaps", "demo-config"),
        ("secrets", "nowhere"),
    ],
)
def test_it_reads_nothing_else(shop: SampleInstallation, plural: str, name: str) -> None:
    shop.refused(shop.send("GET", shop.at(plural, name), user=N1))
    for query in ("", "watch=1", f"fieldSelector=metadata.name%3D{name}", "labelSelector=a%3Db"):
        shop.refused(shop.send("GET", shop.at(plural), query=query, user=N1))
        shop.refused(shop.send("GET", f"/api/v1/{plural}", query=query, user=N1))


def test_every_kind_of_reference_counts_until_the_pod_is_gone(shop: SampleInstallation) -> None:
    references: list[Json] = [
        {"name": "a", "secret": {"secretName": "by-volume"}},
        {"name": "b", "configMap": {"name": "by-volume"}},
        {
            "name": "c",
            "projected": {
                "sources": [{"secret": {"name": "by-projection"}}, {"configMap": {"name": "by-projection"}}]
            },
        },
    ]
    container = {
        "name": "main",
        "image": "x:1",
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "by-key", "key": "k"}}},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "by-key", "key": "k"}}},
        ],
        "envFrom": [{"secretRef": {"name": "by-all"}}, {"configMapRef": {"name": "by-all"}}],
    }
    for way in ("volume", "projection", "key", "all"):
        shop.make("shop", "secrets", f"by-{way}")
        shop.make("shop", "configmaps", f"by-{way}")
    shop.make("shop", "secrets", "by-pull")
    paths = [
        *(
            shop.at(plural, f"by-{way}")
            for plural in ("secrets", "configmaps")
            for way in ("volume", "projection")
        ),
        *(shop.at(plural, f"by-{way}") for plural in ("secrets", "configmaps") for way in ("key", "all")),
        shop.at("secrets", "by-pull"),
    ]
    for path in paths:
        shop.refused(shop.send("GET", path, user=N1))
    pull = [{"name": "by-pull"}]
    shop.pod("shop", "rich", volumes=references, containers=[container], imagePullSecrets=pull)
    shop.refused(shop.send("GET", paths[0], user=N1))  # the pod is bound to nobody yet
    binding = {"metadata": {"name": "rich"}, "target": {"kind": "Node", "name": "n1"}}
    shop.send("POST", shop.at("pods", "rich", sub="binding"), binding).expect(201)
    for path in paths:
        shop.send("GET", path, user=N1).expect(200)
        shop.refused(shop.send("GET", path, user=node("n2")))
    shop.send("DELETE", shop.at("pods", "rich"), query="gracePeriodSeconds=0").expect(200)
    for path in paths:
        shop.refused(shop.send("GET", path, user=N1))


def test_services_and_where_they_lead_are_open_to_every_node(shop: SampleInstallation) -> None:
    for path in ("/api/v1/services", "/api/v1/endpoints", "/apis/discovery.k8s.io/v1/endpointslices"):
        shop.send("GET", path, user=N1).expect(200)


# Writing


def test_it_writes_itself_and_no_other_node(shop: SampleInstallation) -> None:
    mine = {"metadata": {"labels": {"example.io/rack": "7", "kubernetes.io/hostname": "n1"}}}
    shop.send("PATCH", "/api/v1/nodes/n1", mine, type=MERGE, user=N1).expect(200)
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    shop.send("PATCH", "/api/v1/nodes/n1/status", status, type=MERGE, user=N1).expect(200)
    shop.refused(shop.send("PATCH", "/api/v1/nodes/n2", mine, type=MERGE, user=N1))
    shop.refused(shop.send("PATCH", "/api/v1/nodes/n2/status", status, type=MERGE, user=N1))
    shop.refused(shop.send("DELETE", "/api/v1/nodes/n1", user=N1))


@pytest.mark.parametrize(
    ("patch", "field"),
    [
        ({"metadata": {"labels": {"node-restriction.kubernetes.io/tier": "gold"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"a.node-restriction.kubernetes.io/tier": "gold"}}}, "metadata.labels"),
        ({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}, "metadata.labels"),
        ({"metadata": {"labels": {"example.k8s.io/a": "b"}}}, "metadata.labels"),
        ({"metadata": {"finalizers": ["example.io/stay"]}}, "metadata.finalizers"),
        (
            {
                "metadata": {
                    "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"}]
                }
            },
            "metadata.ownerReferences",
        ),
        ({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, "spec.taints"),
    ],
)
def test_it_does_not_make_itself_more_attractive(shop: SampleInstallation, patch: Json, field: str) -> None:
    said = shop.refused(shop.send("PATCH", "/api/v1/nodes/n1", patch, type=MERGE, user=N1))
    assert f"{field}: a node may not" in said


def test_it_does_not_come_back_from_a_cordon(shop: SampleInstallation) -> None:
    shop.send("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": True}}, type=MERGE, user=N1).expect(200)
    said = shop.refused(
        shop.send("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": None}}, type=MERGE, user=N1)
    )
    assert "spec.unschedulable: a node that was cordoned may not uncordon itself" in said
    shop.send("PATCH", "/api/v1/nodes/n1", {"spec": {"unschedulable": None}}, type=MERGE).expect(200)


def test_it_registers_under_its_own_name_only(shop: SampleInstallation) -> None:
    n3 = node("n3")
    taints = {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    shop.refused(shop.send("POST", "/api/v1/nodes", {"metadata": {"name": "n4"}}, user=n3))
    labels = {"node-restriction.kubernetes.io/tier": "gold"}
    shop.refused(shop.send("POST", "/api/v1/nodes", {"metadata": {"name": "n3", "labels": labels}}, user=n3))
    labels = {"kubernetes.io/os": "linux", "node.kubernetes.io/instance-type": "m"}
    body = {"metadata": {"name": "n3", "labels": labels}, "spec": taints}
    shop.send("POST", "/api/v1/nodes", body, user=n3).expect(201)


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_no_labels_come_with_the_status_that_it_writes(shop: SampleInstallation, field: str) -> None:
    stolen = {"metadata": {field: {"app": "bank"}}}
    at = shop.at("pods", "web")
    said = shop.refused(shop.send("PATCH", f"{at}/status", stolen, type=MERGE, user=N1))
    assert f"metadata.{field}" in said
    assert "app" not in shop.read("pods", "web")["metadata"].get(field, {})
    reserved = {"metadata": {"labels": {"node-restriction.kubernetes.io/vault": "yes"}}}
    said = shop.refused(shop.send("PATCH", "/api/v1/nodes/n1/status", reserved, type=MERGE, user=N1))
    assert "node-restriction.kubernetes.io/vault" in said


def test_it_writes_the_status_of_its_own_pods(shop: SampleInstallation) -> None:
    status = {"status": {"phase": "Running"}}
    shop.send("PATCH", shop.at("pods", "web", sub="status"), status, type=MERGE, user=N1).expect(200)
    shop.refused(shop.send("PATCH", shop.at("pods", "es-demo-1", sub="status"), status, type=MERGE, user=N1))
    shop.refused(shop.send("PATCH", shop.at("pods", "web"), status, type=MERGE, user=N1))


def test_it_deletes_and_evicts_its_own_pods_only(shop: SampleInstallation) -> None:
    shop.pod("shop", "short", "n1")
    shop.pod("shop", "brief", "n1")
    for user in (node("n2"), N1):
        evicted = shop.send("POST", shop.at("pods", "short", sub="eviction"), {}, user=user)
        deleted = shop.send("DELETE", shop.at("pods", "brief"), query="gracePeriodSeconds=0", user=user)
        expected = (201, 200) if user is N1 else (403, 403)
        assert (evicted.status, deleted.status) == expected
    shop.refused(shop.send("DELETE", shop.at("pods"), query="fieldSelector=spec.nodeName%3Dn1", user=N1))


def test_it_makes_no_pods_nor_binds_any(shop: SampleInstallation) -> None:
    mirror = {
        "metadata": {"name": "static", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "x:1"}]},
    }
    said = shop.refused(shop.send("POST", shop.at("pods"), mirror, user=N1))
    assert "there are no static or mirror pods here" in said
    shop.pod("shop", "floating")
    binding = {"metadata": {"name": "floating"}, "target": {"kind": "Node", "name": "n1"}}
    shop.refused(shop.send("POST", shop.at("pods", "floating", sub="binding"), binding, user=N1))


def test_it_holds_its_own_lease_only(shop: SampleInstallation) -> None:
    leases = f"{LEASES}/namespaces/kube-node-lease/leases"
    shop.send("POST", leases, {"metadata": {"name": "n1"}}, user=N1).expect(201)
    patch = {"spec": {"holderIdentity": "n1"}}
    shop.send("PATCH", f"{leases}/n1", patch, type=MERGE, user=N1).expect(200)
    shop.make("kube-node-lease", "leases", "n2")
    shop.refused(shop.send("PATCH", f"{leases}/n2", patch, type=MERGE, user=N1))
    shop.refused(shop.send("POST", leases, {"metadata": {"name": "n9"}}, user=N1))
    shop.refused(shop.send("POST", shop.at("leases"), {"metadata": {"name": "n1"}}, user=N1))
    shop.refused(shop.send("GET", leases, user=N1))
    for field, value in (
        ("finalizers", ["example.io/stay"]),
        ("ownerReferences", [{"apiVersion": "v1", "kind": "Node", "name": "n2", "uid": "u"}]),
    ):
        body = {"metadata": {field: value}}
        said = shop.refused(shop.send("PATCH", f"{leases}/n1", body, type=MERGE, user=N1))
        assert f"metadata.{field}" in said
    shop.send("DELETE", f"{leases}/n1", user=N1).expect(200)


def test_it_has_tokens_for_the_accounts_of_its_pods_bound_to_them(shop: SampleInstallation) -> None:
    uid = shop.read("pods", "web")["metadata"]["uid"]
    other = shop.read("pods", "es-demo-1")["metadata"]["uid"]
    path = shop.at("serviceaccounts", "web", sub="token")

    def ask(where: str = path, **spec: Any) -> Any:
        return shop.send("POST", where, {"spec": spec}, user=N1)

    bound = {"kind": "Pod", "apiVersion": "v1", "name": "web", "uid": uid}
    ask(boundObjectRef=bound).expect(201)
    assert "bound to a pod" in shop.refused(ask())
    assert "bound to a pod" in shop.refused(ask(boundObjectRef={"kind": "Node", "name": "n1"}))
    assert "must be the pod's uid" in shop.refused(ask(boundObjectRef={**bound, "uid": other}))
    assert "must be the pod's uid" in shop.refused(ask(boundObjectRef={"kind": "Pod", "name": "web"}))
    assert 'asks for a token for "vault"' in shop.refused(ask(boundObjectRef=bound, audiences=["vault"]))
    elsewhere = {"kind": "Pod", "name": "es-demo-1", "uid": other}
    accounts = shop.at("serviceaccounts", "es-demo", sub="token")
    assert "no pod of node 'n1'" in shop.refused(ask(accounts, boundObjectRef=elsewhere))
    assert "no pod of node 'n1'" in shop.refused(ask(accounts, boundObjectRef=bound))
    shop.refused(ask(shop.at("serviceaccounts", "es-demo", namespace="kube-system", sub="token")))


def test_it_has_tokens_for_the_audiences_that_its_pods_ask_for(shop: SampleInstallation) -> None:
    token = {"serviceAccountToken": {"path": "t", "audience": "vault"}}
    volume = {"name": "t", "projected": {"sources": [token]}}
    made = shop.pod("shop", "vaulted", "n1", account="web", volumes=[volume])
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "vaulted", "uid": made["metadata"]["uid"]}
    path = shop.at("serviceaccounts", "web", sub="token")
    for audience, status in (("vault", 201), ("bank", 403)):
        spec = {"boundObjectRef": bound, "audiences": [audience]}
        assert shop.send("POST", path, {"spec": spec}, user=N1).status == status


def test_it_asks_for_certificates_of_its_own_name_only(shop: SampleInstallation) -> None:
    made = shop.send("POST", CSRS, request_for("system:node:n1", "system:nodes"), user=N1).expect(201)
    own = f"{CSRS}/{made['metadata']['name']}"
    shop.send("GET", own, user=N1).expect(200)
    waits = f"watch=1&fieldSelector=metadata.name%3D{made['metadata']['name']}"
    assert shop.send("GET", CSRS, query=waits, user=N1).status == 200
    shop.refused(shop.send("GET", own, user=node("n2")))
    for request in (
        request_for("system:node:n2", "system:nodes"),
        request_for("system:node:n1"),
        request_for("admin", "system:masters"),
        request_for("system:node:n1", "system:nodes", "system:masters"),
        request_for("system:node:n1", "system:nodes", signer="kubernetes.io/kube-apiserver-client"),
    ):
        shop.refused(shop.send("POST", CSRS, request, user=N1))
    approval = {"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "me"}]}}
    shop.refused(shop.send("PATCH", f"{own}/approval", approval, type=MERGE, user=N1))
    shop.refused(shop.send("PATCH", f"{own}/status", approval, type=MERGE, user=N1))
    shop.refused(shop.send("GET", CSRS, user=N1))


def test_claims_volumes_and_classes_are_open_to_every_node(shop: SampleInstallation) -> None:
    storage = "/apis/storage.k8s.io/v1"
    for path in (
        "/api/v1/persistentvolumeclaims",
        "/api/v1/persistentvolumes",
        f"{storage}/storageclasses",
        f"{storage}/volumeattributesclasses",
    ):
        shop.send("GET", path, user=N1).expect(200)
        shop.refused(shop.send("DELETE", path, user=N1))
    shop.refused(shop.send("POST", f"{storage}/storageclasses", {"metadata": {"name": "mine"}}, user=N1))


def _sent(shop: SampleInstallation, name: str, to: str) -> Json:
    """A claim whose pod is sent to a node."""
    marks = {
        "volume.kubernetes.io/selected-node": to,
        "volume.kubernetes.io/storage-provisioner": "pilothouse.io/directory",
    }
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    return shop.make("shop", "persistentvolumeclaims", name, {"spec": size}, annotations=marks)


def _volume(claim: Json, on: str, **spec: Any) -> Json:
    metadata = claim["metadata"]
    marks = {"pilothouse.io/node": on, "pv.kubernetes.io/provisioned-by": "pilothouse.io/directory"}
    reference = {"namespace": "shop", "name": metadata["name"], "uid": metadata["uid"]}
    affinity = {"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}
    return {
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": marks,
            "finalizers": ["pilothouse.io/volume"],
        },
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [affinity]}]}},
            "claimRef": reference,
            **spec,
        },
    }


def test_it_makes_volumes_for_claims_that_are_sent_to_it_and_changes_their_size(
    shop: SampleInstallation,
) -> None:
    body = _volume(_sent(shop, "mine", "n1"), "n1")
    shop.send("POST", "/api/v1/persistentvolumes", body, user=N1).expect(201)
    path = f"/api/v1/persistentvolumes/{body['metadata']['name']}"
    grown: Json = {"spec": {"capacity": {"storage": "2Gi"}}}
    shop.send("PATCH", path, grown, type=MERGE, user=N1).expect(200)
    for beyond in (
        {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
        {"spec": {"claimRef": {"name": "another"}}},
        {"metadata": {"finalizers": ["kubernetes.io/pv-protection"]}},
        {"metadata": {"annotations": {"pilothouse.io/node": "n2"}}},
    ):
        shop.refused(shop.send("PATCH", path, beyond, type=MERGE, user=N1))
    status = shop.at("persistentvolumeclaims", "mine", sub="status")
    why: Json = {"status": {"conditions": [{"type": "pilothouse.io/Provisioned", "status": "False"}]}}
    shop.send("PATCH", status, why, type=MERGE, user=N1).expect(200)
    shop.refused(shop.send("PATCH", status, why, type=MERGE, user=node("n2")))
    for other in (grown, {"metadata": {"finalizers": None}}):
        shop.refused(shop.send("PATCH", path, other, type=MERGE, user=node("n2")))
    shop.refused(shop.send("DELETE", path, user=node("n2")))
    shop.send("PATCH", path, {"metadata": {"finalizers": None}}, type=MERGE, user=N1).expect(200)
    shop.send("DELETE", path, user=N1).expect(200)


def test_it_draws_no_pods_to_itself_by_volumes(shop: SampleInstallation) -> None:
    theirs, mine = _sent(shop, "theirs", "n2"), _sent(shop, "drawn", "n1")
    unmarked = _volume(mine, "n1")
    unmarked["metadata"]["annotations"].pop("pilothouse.io/node")
    foreign = _volume(mine, "n1")
    foreign["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = "csi.example.com"
    other_keeper = _volume(mine, "n1")
    other_keeper["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = "pilothouse.io/loop"
    renamed = _volume(mine, "n1")
    renamed["metadata"]["name"] = "pvc-1"
    recreated = _volume(mine, "n1")
    recreated["spec"]["claimRef"]["uid"] = "another"
    free = _volume(mine, "n1")
    free["spec"].pop("claimRef")
    elsewhere = _volume(mine, "n1", hostPath={"path": "/"})
    elsewhere["spec"].pop("local")
    bodies = [_volume(theirs, "n1"), _volume(theirs, "n2"), _volume(mine, "n2"), unmarked, foreign]
    for body in (*bodies, other_keeper, renamed, recreated, free, elsewhere):
        shop.refused(shop.send("POST", "/api/v1/persistentvolumes", body, user=N1))
    patch: Json = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
    path = shop.at("persistentvolumeclaims", "theirs")
    shop.refused(shop.send("PATCH", path, patch, type=MERGE, user=N1))


def test_it_writes_of_a_claim_what_concerns_its_size(shop: SampleInstallation) -> None:
    size = {"resources": {"requests": {"storage": "1Gi"}}, "accessModes": ["ReadWriteOnce"]}
    shop.make("shop", "persistentvolumeclaims", "grows", {"spec": size})
    shop.pod("shop", "grower", "n1", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "grows"}}])
    path = shop.at("persistentvolumeclaims", "grows", sub="status")
    grown = {"status": {"capacity": {"storage": "2Gi"}}}
    shop.send("PATCH", path, grown, type=MERGE, user=N1).expect(200)
    said = shop.refused(shop.send("PATCH", path, {"status": {"phase": "Lost"}}, type=MERGE, user=N1))
    assert "status.phase" in said
    shop.refused(shop.send("PATCH", path, grown, type=MERGE, user=node("n2")))


def test_it_reads_whose_volumes_are_and_says_nothing_about_it(shop: SampleInstallation) -> None:
    """Which control plane volumes belong to, and whose it may take over, is in a namespace."""
    namespaces = "/api/v1/namespaces"
    shop.send("GET", f"{namespaces}/kube-system", user=N1).expect(200)
    adopts = {"metadata": {"annotations": {"pilothouse.io/adopts-volumes-of": "another"}}}
    shop.refused(shop.send("PATCH", f"{namespaces}/kube-system", adopts, type=MERGE, user=N1))
    for path in ("", "/default", "/kube-system/status"):
        shop.refused(shop.send("GET", f"{namespaces}{path}", user=N1))


def test_it_becomes_nobody_else_and_binds_no_roles(shop: SampleInstallation) -> None:
    for name, group in (("admin", "system:masters"), ("system:node:n2", "system:nodes")):
        headers = {"Impersonate-User": name, "Impersonate-Group": group}
        assert "cannot impersonate" in shop.refused(
            shop.send("GET", "/api/v1/nodes/n2", headers=headers, user=N1)
        )
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    shop.refused(shop.send("POST", path, {"metadata": {"name": "mine"}}, user=N1))


# Who is a node


def test_the_name_without_the_group_is_nobody_special(shop: SampleInstallation) -> None:
    named = User("system:node:n2", groups=("system:authenticated",))
    said = shop.refused(shop.send("GET", "/api/v1/nodes/n2", user=named))
    assert "node:" not in said.replace("system:node:", "")
    shop.send("GET", "/version", user=named).expect(200)


@pytest.mark.parametrize("name", ["alice", "system:node:", "system:nodes", "system:serviceaccount:shop:web"])
def test_the_group_without_the_name_may_do_nothing(shop: SampleInstallation, name: str) -> None:
    user = User(name, groups=("system:nodes", "system:authenticated"))
    for path in ("/api/v1/nodes/n1", "/api/v1/services", "/apis", "/metrics"):
        said = shop.refused(shop.send("GET", path, user=user))
        assert "the group system:nodes is for users named system:node:NAME" in said
