"""A cluster that asks for security: its Secrets are made once and kept, pods are given them, and what comes of it is told."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any

import pytest
from tests.kit.admission import admit
from tests.kit.controller_harness import reasons
from tests.kit.elasticsearch_harness import ElasticsearchHarness, elastic, pool

from pilothouse.api.applications.elasticsearch_application import ELASTICSEARCH
from pilothouse.api.kind_names import Pilot, Pod, Secret, StatefulSet
from pilothouse.api.navigator.labels import CERTIFICATES
from pilothouse.api.objects import Object
from pilothouse.api.registry import own_resources
from pilothouse.apiserver.discovery.catalog import KindCatalog
from pilothouse.controllers.elasticsearch.cluster_controller import (
    clusters_using_secret,
    elasticsearch_clusters,
)
from pilothouse.controllers.elasticsearch.desired.security import content, node_names
from pilothouse.controllers.elasticsearch.secrets_controller import RandomSecrets, elasticsearch_secrets
from pilothouse.meta.kind import Kind
from pilothouse.pki.certificate_info import certificates_in
from pilothouse.runtime.intents import Create

DAY = 24 * 3600.0
forging = elasticsearch_secrets(RandomSecrets())


def secured(**security: Any) -> tuple[ElasticsearchHarness, Object]:
    sea = ElasticsearchHarness()
    pools = [pool("data", 2)]
    test = sea.add(elastic("test", version="8.17.0", pools=pools, security=security))
    sea.now = 1_800_000_000.0
    return sea, test


def enable(sea: ElasticsearchHarness, said: str = "Enabled") -> None:
    """What the pilots say of it."""
    for pilot in sea.all(Pilot):
        told = {**(pilot.at("status", "elasticsearch") or {}), "security": said}
        sea.change(pilot, lambda tree, told=told: tree.setdefault("status", {}).update(elasticsearch=told))  # type: ignore[misc]


def formed() -> tuple[ElasticsearchHarness, Object]:
    sea, test = secured()
    sea.step(forging, test)
    sea.sail(test)
    enable(sea)
    sea.sail(test)
    return sea, test


def test_nothing_is_started_before_the_secrets_are_there() -> None:
    sea, test = secured()
    sea.sail(test)
    assert sea.all(StatefulSet) == []
    assert sea.condition(test, "Secured") == ("False", "SecretMissing")
    assert sea.condition(test, "Progressing") == ("True", "SecretMissing")
    sea.step(forging, test)
    sea.sail(test)
    assert len(sea.all(Pod)) == 2
    assert sea.condition(test, "Secured") == ("Unknown", "NodesStarting")


def test_the_secrets_are_the_clusters_and_pilots_are_given_no_right_to_them() -> None:
    sea, test = secured()
    sea.step(forging, test)
    assert sea.names(Secret) == ["es-test-authority", "es-test-certificates", "es-test-users"]
    for secret in sea.all(Secret):
        assert secret.owned_by(test)
        assert ELASTICSEARCH.cluster_label not in secret.labels
    assert len(content(sea.of(Secret, "es-test-users"), "elastic")) >= 24
    assert "ca.key" not in sea.of(Secret, "es-test-certificates")["data"]


def test_they_are_made_once() -> None:
    sea, test = secured()
    sea.step(forging, test)
    assert not [intent for intent in sea.decide(forging, test) if intent.verb != "After"]


def test_the_certificate_is_good_for_the_service_and_for_each_node(tmp_path: Path) -> None:
    sea, test = secured()
    sea.step(forging, test)
    secret = sea.of(Secret, "es-test-certificates")
    (found,) = certificates_in(content(secret, "tls.crt"))
    assert set(found.names) == set(node_names(test))
    assert {"es-test.default.svc", "*.es-test-discovery.default.svc"} <= set(found.names)
    for key in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / key).write_bytes(content(secret, key))
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_pods_have_the_certificates_and_the_password_but_not_the_authority() -> None:
    sea, _ = formed()
    pod = sea.of(Pod, "es-test-data-0")
    volumes = {each["secret"]["secretName"] for each in pod.spec["volumes"] if "secret" in each}
    assert volumes == {"es-test-certificates", "es-test-users"}
    container = pod.spec["containers"][0]
    told = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert {told["ES_CERTIFICATES"], told["ES_USERS"]} <= mounts
    settings = sea.of(Pilot, "es-test-data-0").at("spec", "configuration", "settings")
    assert settings["xpack.security.enabled"] is True


def test_it_is_secured_when_all_nodes_say_so() -> None:
    sea, test = formed()
    assert sea.condition(test, "Secured") == ("True", "Enabled")


def test_a_distribution_that_has_no_security_is_told_with_what_to_do() -> None:
    sea, test = formed()
    enable(sea, "Absent")
    sea.sail(test)
    assert sea.condition(test, "Secured") == ("False", "DistributionHasNoSecurity")
    said = sea.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "spec.image" in said["message"]


def test_before_it_expires_the_certificate_is_made_anew_and_rolled_out_one_pod_at_a_time() -> None:
    sea, test = formed()
    before = sea.of(Pod, "es-test-data-0").annotations[CERTIFICATES]
    authority = content(sea.of(Secret, "es-test-certificates"), "ca.crt")
    sea.now += 200 * DAY
    assert reasons(sea.decide(forging, test)) == []
    assert [intent.verb for intent in sea.decide(forging, test)] == ["After"]
    sea.now += 120 * DAY
    assert [intent.verb for intent in sea.step(forging, test)] == ["Update"]
    assert content(sea.of(Secret, "es-test-certificates"), "ca.crt") == authority
    for _ in range(100):
        missing = [pilot.name for pilot in sea.all(Pilot) if not pilot.is_true("Ready")]
        assert len(missing) <= 1
        if not sea.round(test):
            break
    after = {pod.annotations[CERTIFICATES] for pod in sea.all(Pod)}
    assert len(after) == 1
    assert before not in after


def test_a_secret_of_ones_own_is_used_as_it_is() -> None:
    sea, test = secured(certificatesSecretName="mine", usersSecretName="people")
    assert sea.decide(forging, test) == []
    sea.add(_secret("mine", "ca.crt", "tls.crt", "tls.key"))
    sea.add(_secret("people", "somebody"))
    sea.sail(test)
    said = sea.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "Secret people has no elastic" in said["message"]
    assert sea.condition(test, "Degraded") == ("True", "SecretMissing"), "nobody else makes it"
    sea.change(sea.of(Secret, "people"), lambda tree: tree["data"].update(elastic="c2VjcmV0"))
    sea.sail(test)
    assert len(sea.all(Pod)) == 2


@pytest.mark.parametrize(
    ("gone", "reason"), [("es-test-users", "SecretGone"), ("es-test-authority", "AuthorityGone")]
)
def test_what_the_nodes_know_is_not_made_again_behind_their_back(gone: str, reason: str) -> None:
    sea, test = formed()
    sea.remove(sea.of(Secret, gone))
    intents = sea.decide(forging, test)
    assert not [intent for intent in intents if isinstance(intent, Create)]
    assert reason in reasons(intents)


@pytest.mark.parametrize(
    ("gone", "reason"), [("es-test-users", "SecretMissing"), ("es-test-authority", "AuthorityGone")]
)
def test_a_secret_that_is_gone_is_a_reason_to_be_degraded(gone: str, reason: str) -> None:
    sea, test = formed()
    lost = sea.of(Secret, gone)
    sea.remove(lost)
    assert list(clusters_using_secret(lost, sea.world())) == [("default", "test")], "it is looked at again"
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("True", reason)
    said = sea.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert gone in said["message"]
    tree = lost.thawed()
    tree["metadata"] = {"name": gone, "ownerReferences": tree["metadata"]["ownerReferences"]}
    sea.add(tree)
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


@pytest.mark.parametrize("part", ["tls.crt", "tls.key"])
def test_an_authority_that_can_not_be_read_is_a_reason_to_be_degraded(part: str) -> None:
    sea, test = formed()
    kept = sea.of(Secret, "es-test-authority")
    garbled = base64.b64encode(b"no certificate").decode()
    spoilt = sea.change(kept, lambda tree: tree["data"].update({part: garbled}))
    assert list(clusters_using_secret(spoilt, sea.world())) == [("default", "test")], "it is looked at again"
    sea.edit_pool(test, "data", replicas=3)
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("True", "AuthorityUnusable")
    said = sea.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert (
        "Secret es-test-authority can't sign the certificate of the nodes: not a certificate"
        in said["message"]
    )
    assert "restore it from a backup" in said["message"]
    assert "AuthorityUnusable" in reasons(sea.decide(forging, test))
    assert len(sea.all(Pod)) == 3, "nodes can be started until it expires"
    sea.change(spoilt, lambda tree: tree.update(data=dict(kept["data"])))
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_an_authority_that_could_never_be_read_is_told_too() -> None:
    sea, test = secured()
    sea.add(_secret("es-test-authority", "tls.crt", "tls.key"))
    sea.step(forging, test)
    sea.sail(test)
    assert sea.condition(test, "Degraded") == ("True", "AuthorityUnusable")
    said = sea.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert "delete it to have it created again" in said["message"]
    sea.remove(sea.of(Secret, "es-test-authority"))
    sea.step(forging, test)
    sea.sail(test)
    assert len(sea.all(Pod)) == 2


def test_a_cluster_without_its_authority_goes_on() -> None:
    sea, test = formed()
    sea.remove(sea.of(Secret, "es-test-authority"))
    sea.edit_pool(test, "data", replicas=3)
    sea.sail(test)
    assert len(sea.all(Pod)) == 3


def test_one_that_brings_its_own_certificates_needs_no_authority() -> None:
    sea, test = secured(certificatesSecretName="mine", usersSecretName="people")
    sea.add(_secret("mine", "ca.crt", "tls.crt", "tls.key"))
    sea.add(_secret("people", "elastic"))
    sea.sail(test)
    assert sea.of(test.noun, "test").status["clusterUUID"]
    assert sea.condition(test, "Degraded") == ("False", "AsAsked")


def test_the_nodes_certificate_can_be_made_again_by_the_authority_there_is() -> None:
    sea, test = formed()
    sea.remove(sea.of(Secret, "es-test-certificates"))
    sea.step(elasticsearch_clusters, test)
    assert sea.condition(test, "Secured") == ("False", "SecretMissing")
    assert len(sea.all(Pod)) == 2, "what is there goes on"
    sea.step(forging, test)
    sea.sail(test)
    assert sea.condition(test, "Secured") == ("True", "Enabled")


def test_secrets_of_an_earlier_cluster_of_the_name_are_not_taken_over() -> None:
    sea, test = secured()
    sea.step(forging, test)
    for secret in sea.all(Secret):
        sea.change(
            secret, lambda tree: tree["metadata"]["ownerReferences"][0].update(uid="of the earlier one")
        )
    sea.step(elasticsearch_clusters, test)
    assert sea.all(StatefulSet) == []
    said = sea.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "belongs to an earlier cluster test, and is about to be deleted" in said["message"]
    # The garbage collector takes them one after the other.
    for name in ("es-test-certificates", "es-test-users", "es-test-authority"):
        sea.remove(sea.of(Secret, name))
        sea.step(forging, test)
    assert len(sea.all(Secret)) == 3
    assert all(secret.owned_by(test) for secret in sea.all(Secret))


def elastic_kind() -> Kind:
    served = KindCatalog(own_resources()).of_kind("navigator.jetstack.io/v1beta1", "ElasticsearchCluster")
    assert served is not None
    return served.kind


ELASTIC = elastic_kind()


def asking(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "test"}, "spec": elastic("test", pools=[pool("data", 1)], **spec)["spec"]}


def test_security_stays_as_it_is_once_the_cluster_is_formed() -> None:
    old = admit(ELASTIC, asking()).obj
    assert admit(ELASTIC, asking(security={}), old).problems == []
    old["status"] = {"clusterUUID": "the-one"}
    changed = admit(ELASTIC, asking(security={}), old)
    assert changed.paths == ["spec.security"]
    assert "make another cluster" in str(changed.problems[0])
    assert admit(ELASTIC, asking(version="7.17.29"), old).problems == []


@pytest.mark.parametrize("asked", [{}, {"security": {}}], ids=["open", "secured"])
@pytest.mark.parametrize(
    "setting",
    [
        "xpack.security.enabled",
        "xpack.security.http.ssl.enabled",
        "xpack.security.transport.ssl.verification_mode",
    ],
)
def test_what_follows_from_it_can_not_be_set_by_hand(asked: dict[str, Any], setting: str) -> None:
    config = {setting: True, "xpack.security.audit.enabled": True}
    found = admit(ELASTIC, asking(config=config, **asked))
    assert [problem.path for problem in found.problems] == [f"spec.config[{setting}]"]
    assert "spec.security" in str(found.problems[0]), "it is said what would be right"
    spec = {**asking(**asked)["spec"], "nodePools": [pool("data", 1, config=config)]}
    found = admit(ELASTIC, {"metadata": {"name": "test"}, "spec": spec})
    assert [problem.path for problem in found.problems] == [f"spec.nodePools[0].config[{setting}]"]


def _secret(name: str, *keys: str) -> dict[str, Any]:
    data = {key: base64.b64encode(b"x").decode() for key in keys}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
