"""What a person is likely to get wrong in a pod, with Kubernetes' own path and words."""

from __future__ import annotations

from typing import Any

import pytest


def test_a_pod_in_order_is_taken(kinds: Any, pod: dict[str, Any]) -> None:
    assert kinds.problems(pod) == []


CONTAINER_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "spec.containers[0].name: Required value"),
    ({"name": "A_b"}, 'spec.containers[0].name: Invalid value: "A_b": a lowercase RFC 1123 label'),
    ({"image": ""}, "spec.containers[0].image: Required value"),
    ({"imagePullPolicy": "Sometimes"}, 'spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes"'),
    ({"ports": [{"containerPort": 0}]}, "spec.containers[0].ports[0].containerPort: Required value"),
    (
        {"ports": [{"containerPort": 70000}]},
        "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
    ),
    (
        {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
        'spec.containers[0].ports[1].name: Duplicate value: "a"',
    ),
    (
        {"ports": [{"containerPort": 1, "name": "1234"}]},
        'spec.containers[0].ports[0].name: Invalid value: "1234": must contain at least one letter (a-z)',
    ),
    (
        {"ports": [{"containerPort": 1, "protocol": "ICMP"}]},
        'spec.containers[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ),
    (
        {"volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
        'spec.containers[0].volumeMounts[0].name: Not found: "nope"',
    ),
    ({"volumeMounts": [{"name": "v"}]}, "spec.containers[0].volumeMounts[0].mountPath: Required value"),
    (
        {"volumeMounts": [{"name": "v", "mountPath": "/x", "subPath": "../y"}]},
        "spec.containers[0].volumeMounts[0].subPath: Invalid value: \"../y\": must not contain '..'",
    ),
    ({"env": [{"name": ""}]}, "spec.containers[0].env[0].name: Required value"),
    (
        {"env": [{"name": "A", "value": "x", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        'spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.tea"}}}]},
        'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "spec.tea"',
    ),
    (
        {"env": [{"name": "A", "valueFrom": {}}]},
        'spec.containers[0].env[0].valueFrom: Invalid value: "": must specify one of',
    ),
    (
        {"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}},
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
    ),
    (
        {"resources": {"limits": {"memory": "lots"}}},
        'spec.containers[0].resources.limits[memory]: Invalid value: "lots": quantities must match',
    ),
    (
        {"resources": {"limits": {"cpu": "-1"}}},
        'spec.containers[0].resources.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0',
    ),
    ({"livenessProbe": {}}, "spec.containers[0].livenessProbe: Required value: must specify a handler type"),
    (
        {"livenessProbe": {"exec": {"command": ["x"]}, "successThreshold": 2}},
        "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
    ),
    (
        {"readinessProbe": {"tcpSocket": {"port": 0}}},
        "spec.containers[0].readinessProbe.tcpSocket.port: Invalid value: 0: must be between 1 and 65535",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "periodSeconds": -1}},
        "spec.containers[0].readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
    ),
    (
        {"readinessProbe": {"exec": {"command": ["x"]}, "tcpSocket": {"port": 1}}},
        "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
    ),
    (
        {"lifecycle": {"preStop": {"exec": {}}}},
        "spec.containers[0].lifecycle.preStop.exec.command: Required value",
    ),
    (
        {"securityContext": {"runAsUser": -1}},
        "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647",
    ),
    ({"restartPolicy": "Always"}, "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init"),
]


@pytest.mark.parametrize(("fault", "expected"), CONTAINER_FAULTS, ids=[text for _, text in CONTAINER_FAULTS])
def test_a_faulty_container_is_named(
    kinds: Any, pod: dict[str, Any], fault: dict[str, Any], expected: str
) -> None:
    pod["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    pod["spec"]["containers"][0].update(fault)

    assert any(problem.startswith(expected) for problem in kinds.problems(pod)), kinds.problems(pod)


SPEC_FAULTS: list[tuple[dict[str, Any], str]] = [
    ({"containers": []}, "spec.containers: Required value"),
    (
        {"restartPolicy": "Maybe"},
        'spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "Never"',
    ),
    (
        {"activeDeadlineSeconds": 0},
        "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647",
    ),
    ({"hostname": "A.b"}, 'spec.hostname: Invalid value: "A.b": a lowercase RFC 1123 label'),
    ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
    ({"volumes": [{"name": "a"}, {"name": "a"}]}, 'spec.volumes[1].name: Duplicate value: "a"'),
    (
        {"volumes": [{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]},
        "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type",
    ),
    ({"volumes": [{"name": "a", "secret": {}}]}, "spec.volumes[0].secret.secretName: Required value"),
    ({"volumes": [{"name": "a", "hostPath": {"path": ""}}]}, "spec.volumes[0].hostPath.path: Required value"),
    (
        {"volumes": [{"name": "a", "configMap": {"name": "c", "defaultMode": 4096}}]},
        "spec.volumes[0].configMap.defaultMode: Invalid value: 4096: must be a number between 0 and 0777",
    ),
    (
        {
            "volumes": [
                {
                    "name": "a",
                    "projected": {
                        "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 5}}]
                    },
                }
            ]
        },
        "spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 5",
    ),
    (
        {"tolerations": [{"operator": "Equal"}]},
        'spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty',
    ),
    (
        {"tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute'",
    ),
    (
        {
            "affinity": {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}
            }
        },
        "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value",
    ),
    (
        {"hostAliases": [{"ip": "nine"}]},
        'spec.hostAliases[0].ip: Invalid value: "nine": must be a valid IP address',
    ),
    ({"dnsPolicy": "None"}, "spec.dnsConfig: Required value: must provide `dnsConfig`"),
    ({"dnsPolicy": "None", "dnsConfig": {}}, "spec.dnsConfig.nameservers: Required value"),
    (
        {"initContainers": [{"name": "db", "image": "x"}]},
        'spec.initContainers[0].name: Duplicate value: "db"',
    ),
    (
        {"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}]},
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
    ),
    (
        {
            "topologySpreadConstraints": [
                {"maxSkew": 0, "topologyKey": "k", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        },
        "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
    ),
]


@pytest.mark.parametrize(("fault", "expected"), SPEC_FAULTS, ids=[text for _, text in SPEC_FAULTS])
def test_a_faulty_pod_says_where(
    kinds: Any, pod: dict[str, Any], fault: dict[str, Any], expected: str
) -> None:
    pod["spec"].update(fault)

    assert any(problem.startswith(expected) for problem in kinds.problems(pod)), kinds.problems(pod)


def test_a_sidecar_may_have_probes(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["initContainers"] = [
        {
            "name": "side",
            "image": "x",
            "restartPolicy": "Always",
            "livenessProbe": {"exec": {"command": ["x"]}},
        }
    ]

    assert kinds.problems(pod) == []


def test_every_fault_is_told_at_once(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["containers"] = [
        {"name": "", "image": ""},
        {"name": "b", "image": "x", "ports": [{"containerPort": -1}]},
    ]

    assert len(kinds.problems(pod)) == 3


def test_a_variable_may_be_set_twice(kinds: Any, pod: dict[str, Any]) -> None:
    pod["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}, {"containerPort": 80}]

    assert kinds.problems(pod) == []
