"""The constant defaults of Kubernetes' kinds, by message and field.

They are part of the schemas, and so apply wherever the message occurs, in pods and in templates. Defaults
that depend on other fields are in each kind's module.
"""

from __future__ import annotations

from typing import Any, Final

_CONTAINER: Final = {"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}
_FILE_MODE: Final = {"defaultMode": 0o644}
_RBAC: Final = "rbac.authorization.k8s.io"

DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "api.core.v1.PodSpec": {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    },
    "api.core.v1.Container": _CONTAINER,
    "api.core.v1.EphemeralContainerCommon": _CONTAINER,
    "api.core.v1.Probe": {
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    },
    "api.core.v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "api.core.v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "api.core.v1.SecretVolumeSource": _FILE_MODE,
    "api.core.v1.ConfigMapVolumeSource": _FILE_MODE,
    "api.core.v1.DownwardAPIVolumeSource": _FILE_MODE,
    "api.core.v1.ProjectedVolumeSource": _FILE_MODE,
    "api.core.v1.HostPathVolumeSource": {"type": ""},
    "api.core.v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "api.core.v1.ServiceSpec": {"type": "ClusterIP", "sessionAffinity": "None"},
    "api.core.v1.ServicePort": {"protocol": "TCP"},
    "api.core.v1.EndpointPort": {"protocol": "TCP"},
    "api.core.v1.Secret": {"type": "Opaque"},
    "api.core.v1.PersistentVolumeSpec": {
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Filesystem",
    },
    "api.core.v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "api.core.v1.NamespaceStatus": {"phase": "Active"},
    "api.core.v1.PersistentVolumeStatus": {"phase": "Pending"},
    "api.core.v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "api.apps.v1.StatefulSetSpec": {
        "replicas": 1,
        "podManagementPolicy": "OrderedReady",
        "revisionHistoryLimit": 10,
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "api.apps.v1.DeploymentSpec": {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
    "api.apps.v1.ReplicaSetSpec": {"replicas": 1},
    "api.apps.v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "api.batch.v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    "api.storage.v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "api.discovery.v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "api.rbac.v1.RoleRef": {"apiGroup": _RBAC},
    "api.authentication.v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": {
        "conversion": {"strategy": "None"}
    },
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference": {"port": 443},
}
