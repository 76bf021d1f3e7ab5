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
from pilothouse.api.objects import Object, Tree
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
    harness = ElasticsearchHarness()
    pools = [pool("data", 2)]
    test = harness.add(elastic("test", version="8.17.0", pools=pools, security=security))
    harness.now = 1_800_000_000.0
    return harness, test


def enable(harness: ElasticsearchHarness, said: str = "Enabled") -> None:
    """What the pilots say of it."""
    for pilot in harness.all(Pilot):
        told = {**(pilot.at("status", "elasticsearch") or {}), "security": said}

        def say(tree: Tree, told: Tree = told) -> None:
            tree.setdefault("status", {}).update(elasticsearch=told)

        harness.change(pilot, say)


def formed() -> tuple[ElasticsearchHarness, Object]:
    harness, test = secured()
    harness.step(forging, test)
    harness.run_until_idle(test)
    enable(harness)
    harness.run_until_idle(test)
    return harness, test


def test_nothing_is_started_before_the_secrets_are_there() -> None:
    harness, test = secured()
    harness.run_until_idle(test)
    assert harness.all(StatefulSet) == []
    assert harness.condition(test, "Secured") == ("False", "SecretMissing")
    assert harness.condition(test, "Progressing") == ("True", "SecretMissing")
    harness.step(forging, test)
    harness.run_until_idle(test)
    assert len(harness.all(Pod)) == 2
    assert harness.condition(test, "Secured") == ("Unknown", "NodesStarting")


def test_the_secrets_are_the_clusters_and_pilots_are_given_no_right_to_them() -> None:
    harness, test = secured()
    harness.step(forging, test)
    assert harness.names(Secret) == ["es-test-authority", "es-test-certificates", "es-test-users"]
    for secret in harness.all(Secret):
        assert secret.owned_by(test)
        assert ELASTICSEARCH.cluster_label not in secret.labels
    assert len(content(harness.of(Secret, "es-test-users"), "elastic")) >= 24
    assert "ca.key" not in harness.of(Secret, "es-test-certificates")["data"]


def test_they_are_made_once() -> None:
    harness, test = secured()
    harness.step(forging, test)
    assert not [intent for intent in harness.decide(forging, test) if intent.verb != "After"]


def test_the_certificate_is_good_for_the_service_and_for_each_node(tmp_path: Path) -> None:
    harness, test = secured()
    harness.step(forging, test)
    secret = harness.of(Secret, "es-test-certificates")
    (found,) = certificates_in(content(secret, "tls.crt"))
    assert set(found.names) == set(node_names(test))
    assert {"es-test.default.svc", "*.es-test-discovery.default.svc"} <= set(found.names)
    for key in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / key).write_bytes(content(secret, key))
    ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")


def test_pods_have_the_certificates_and_the_password_but_not_the_authority() -> None:
    harness, _ = formed()
    pod = harness.of(Pod, "es-test-data-0")
    volumes = {each["secret"]["secretName"] for each in pod.spec["volumes"] if "secret" in each}
    assert volumes == {"es-test-certificates", "es-test-users"}
    container = pod.spec["containers"][0]
    told = {each["name"]: each.get("value") for each in container["env"]}
    mounts = {mount["mountPath"] for mount in container["volumeMounts"] if mount.get("readOnly")}
    assert {told["ES_CERTIFICATES"], told["ES_USERS"]} <= mounts
    settings = harness.of(Pilot, "es-test-data-0").at("spec", "configuration", "settings")
    assert settings["xpack.security.enabled"] is True


def test_it_is_secured_when_all_nodes_say_so() -> None:
    harness, test = formed()
    assert harness.condition(test, "Secured") == ("True", "Enabled")


def test_a_distribution_that_has_no_security_is_told_with_what_to_do() -> None:
    harness, test = formed()
    enable(harness, "Absent")
    harness.run_until_idle(test)
    assert harness.condition(test, "Secured") == ("False", "DistributionHasNoSecurity")
    said = harness.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "spec.image" in said["message"]


def test_before_it_expires_the_certificate_is_made_anew_and_rolled_out_one_pod_at_a_time() -> None:
    harness, test = formed()
    before = harness.of(Pod, "es-test-data-0").annotations[CERTIFICATES]
    authority = content(harness.of(Secret, "es-test-certificates"), "ca.crt")
    harness.now += 200 * DAY
    assert reasons(harness.decide(forging, test)) == []
    assert [intent.verb for intent in harness.decide(forging, test)] == ["After"]
    harness.now += 120 * DAY
    assert [intent.verb for intent in harness.step(forging, test)] == ["Update"]
    assert content(harness.of(Secret, "es-test-certificates"), "ca.crt") == authority
    for _ in range(100):
        missing = [pilot.name for pilot in harness.all(Pilot) if not pilot.is_true("Ready")]
        assert len(missing) <= 1
        if not harness.round(test):
            break
    after = {pod.annotations[CERTIFICATES] for pod in harness.all(Pod)}
    assert len(after) == 1
    assert before not in after


def test_a_secret_of_ones_own_is_used_as_it_is() -> None:
    harness, test = secured(certificatesSecretName="mine", usersSecretName="people")
    assert harness.decide(forging, test) == []
    harness.add(_secret("mine", "ca.crt", "tls.crt", "tls.key"))
    harness.add(_secret("people", "somebody"))
    harness.run_until_idle(test)
    said = harness.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "Secret people has no elastic" in said["message"]
    assert harness.condition(test, "Degraded") == ("True", "SecretMissing"), "nobody else makes it"
    harness.change(harness.of(Secret, "people"), lambda tree: tree["data"].update(elastic="c2VjcmV0"))
    harness.run_until_idle(test)
    assert len(harness.all(Pod)) == 2


@pytest.mark.parametrize(
    ("gone", "reason"), [("es-test-users", "SecretGone"), ("es-test-authority", "AuthorityGone")]
)
def test_what_the_nodes_know_is_not_made_again_behind_their_back(gone: str, reason: str) -> None:
    harness, test = formed()
    harness.remove(harness.of(Secret, gone))
    intents = harness.decide(forging, test)
    assert not [intent for intent in intents if isinstance(intent, Create)]
    assert reason in reasons(intents)


@pytest.mark.parametrize(
    ("gone", "reason"), [("es-test-users", "SecretMissing"), ("es-test-authority", "AuthorityGone")]
)
def test_a_secret_that_is_gone_is_a_reason_to_be_degraded(gone: str, reason: str) -> None:
    harness, test = formed()
    lost = harness.of(Secret, gone)
    harness.remove(lost)
    assert list(clusters_using_secret(lost, harness.world())) == [("default", "test")], (
        "it is looked at again"
    )
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("True", reason)
    said = harness.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert gone in said["message"]
    tree = lost.thawed()
    tree["metadata"] = {"name": gone, "ownerReferences": tree["metadata"]["ownerReferences"]}
    harness.add(tree)
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


@pytest.mark.parametrize("part", ["tls.crt", "tls.key"])
def test_an_authority_that_can_not_be_read_is_a_reason_to_be_degraded(part: str) -> None:
    harness, test = formed()
    kept = harness.of(Secret, "es-test-authority")
    garbled = base64.b64encode(b"no certificate").decode()
    spoilt = harness.change(kept, lambda tree: tree["data"].update({part: garbled}))
    assert list(clusters_using_secret(spoilt, harness.world())) == [("default", "test")], (
        "it is looked at again"
    )
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("True", "AuthorityUnusable")
    said = harness.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert (
        "Secret es-test-authority can't sign the certificate of the nodes: not a certificate"
        in said["message"]
    )
    assert "restore it from a backup" in said["message"]
    assert "AuthorityUnusable" in reasons(harness.decide(forging, test))
    assert len(harness.all(Pod)) == 3, "nodes can be started until it expires"
    harness.change(spoilt, lambda tree: tree.update(data=dict(kept["data"])))
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_an_authority_that_could_never_be_read_is_told_too() -> None:
    harness, test = secured()
    harness.add(_secret("es-test-authority", "tls.crt", "tls.key"))
    harness.step(forging, test)
    harness.run_until_idle(test)
    assert harness.condition(test, "Degraded") == ("True", "AuthorityUnusable")
    said = harness.of(test.noun, "test").condition("Degraded")
    assert said is not None
    assert "delete it to have it created again" in said["message"]
    harness.remove(harness.of(Secret, "es-test-authority"))
    harness.step(forging, test)
    harness.run_until_idle(test)
    assert len(harness.all(Pod)) == 2


def test_a_cluster_without_its_authority_goes_on() -> None:
    harness, test = formed()
    harness.remove(harness.of(Secret, "es-test-authority"))
    harness.edit_pool(test, "data", replicas=3)
    harness.run_until_idle(test)
    assert len(harness.all(Pod)) == 3


def test_one_that_brings_its_own_certificates_needs_no_authority() -> None:
    harness, test = secured(certificatesSecretName="mine", usersSecretName="people")
    harness.add(_secret("mine", "ca.crt", "tls.crt", "tls.key"))
    harness.add(_secret("people", "elastic"))
    harness.run_until_idle(test)
    assert harness.of(test.noun, "test").status["clusterUUID"]
    assert harness.condition(test, "Degraded") == ("False", "AsAsked")


def test_the_nodes_certificate_can_be_made_again_by_the_authority_there_is() -> None:
    harness, test = formed()
    harness.remove(harness.of(Secret, "es-test-certificates"))
    harness.step(elasticsearch_clusters, test)
    assert harness.condition(test, "Secured") == ("False", "SecretMissing")
    assert len(harness.all(Pod)) == 2, "what is there goes on"
    harness.step(forging, test)
    harness.run_until_idle(test)
    assert harness.condition(test, "Secured") == ("True", "Enabled")


def test_secrets_of_an_earlier_cluster_of_the_name_are_not_taken_over() -> None:
    harness, test = secured()
    harness.step(forging, test)
    for secret in harness.all(Secret):
        harness.change(
            secret, lambda tree: tree["metadata"]["ownerReferences"][0].update(uid="of the earlier one")
        )
    harness.step(elasticsearch_clusters, test)
    assert harness.all(StatefulSet) == []
    said = harness.of(test.noun, "test").condition("Secured")
    assert said is not None
    assert "belongs to an earlier cluster test, and is about to be deleted" in said["message"]
    # The garbage collector takes them one after the other.
    for name in ("es-test-certificates", "es-test-users", "es-test-authority"):
        harness.remove(harness.of(Secret, name))
        harness.step(forging, test)
    assert len(harness.all(Secret)) == 3
    assert all(secret.owned_by(test) for secret in harness.all(Secret))


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
    assert "create another cluster" in str(changed.problems[0])
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
