"""The enumerations of Kubernetes' kinds, by message and field, in the order in which an error lists them.

Only closed sets: where the empty string is a value, or others may add values, the kind's validation decides.
"""

from __future__ import annotations

from typing import Final

_PULL_POLICY: Final = ("Always", "IfNotPresent", "Never")
_PROTOCOL: Final = ("SCTP", "TCP", "UDP")
_ACCESS: Final = ("Block", "Filesystem")
_RECLAIM: Final = ("Delete", "Recycle", "Retain")
_RETENTION: Final = ("Delete", "Retain")
_CONDITION: Final[dict[str, tuple[str, ...]]] = {"status": ("False", "True", "Unknown")}
_CONTAINER: Final[dict[str, tuple[str, ...]]] = {
    "imagePullPolicy": _PULL_POLICY,
    "terminationMessagePolicy": ("FallbackToLogsOnError", "File"),
}

ENUMS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "api.core.v1.PodSpec": {
        "restartPolicy": ("Always", "Never", "OnFailure"),
        "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
        "preemptionPolicy": ("Never", "PreemptLowerPriority"),
    },
    "api.core.v1.PodOS": {"name": ("linux", "windows")},
    "api.core.v1.Container": _CONTAINER,
    "api.core.v1.EphemeralContainerCommon": _CONTAINER,
    "api.core.v1.ContainerPort": {"protocol": _PROTOCOL},
    "api.core.v1.HTTPGetAction": {"scheme": ("HTTP", "HTTPS")},
    "api.core.v1.VolumeMount": {"mountPropagation": ("Bidirectional", "HostToContainer", "None")},
    "api.core.v1.SeccompProfile": {"type": ("Localhost", "RuntimeDefault", "Unconfined")},
    "api.core.v1.AppArmorProfile": {"type": ("Localhost", "RuntimeDefault", "Unconfined")},
    "api.core.v1.TopologySpreadConstraint": {"whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway")},
    "api.core.v1.PodCondition": _CONDITION,
    "api.core.v1.NodeCondition": _CONDITION,
    "api.core.v1.NamespaceCondition": _CONDITION,
    "api.core.v1.ServiceSpec": {
        "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
        "sessionAffinity": ("ClientIP", "None"),
        "externalTrafficPolicy": ("Cluster", "Local"),
        "internalTrafficPolicy": ("Cluster", "Local"),
        "ipFamilyPolicy": ("PreferDualStack", "RequireDualStack", "SingleStack"),
    },
    "api.core.v1.ServicePort": {"protocol": _PROTOCOL},
    "api.core.v1.EndpointPort": {"protocol": _PROTOCOL},
    "api.core.v1.Taint": {"effect": ("NoExecute", "NoSchedule", "PreferNoSchedule")},
    "api.core.v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": _RECLAIM, "volumeMode": _ACCESS},
    "api.core.v1.PersistentVolumeClaimSpec": {"volumeMode": _ACCESS},
    "api.apps.v1.StatefulSetSpec": {"podManagementPolicy": ("OrderedReady", "Parallel")},
    "api.apps.v1.StatefulSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "api.apps.v1.DeploymentStrategy": {"type": ("Recreate", "RollingUpdate")},
    "api.apps.v1.DaemonSetUpdateStrategy": {"type": ("OnDelete", "RollingUpdate")},
    "api.batch.v1.JobSpec": {
        "completionMode": ("Indexed", "NonIndexed"),
        "podReplacementPolicy": ("Failed", "TerminatingOrFailed"),
    },
    "api.batch.v1.CronJobSpec": {"concurrencyPolicy": ("Allow", "Forbid", "Replace")},
    "api.apps.v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": _RETENTION,
        "whenScaled": _RETENTION,
    },
    "api.policy.v1.PodDisruptionBudgetSpec": {
        "unhealthyPodEvictionPolicy": ("AlwaysAllow", "IfHealthyBudget")
    },
    "api.storage.v1.StorageClass": {
        "reclaimPolicy": _RETENTION,
        "volumeBindingMode": ("Immediate", "WaitForFirstConsumer"),
    },
    "api.discovery.v1.EndpointSlice": {"addressType": ("FQDN", "IPv4", "IPv6")},
    "api.discovery.v1.EndpointPort": {"protocol": _PROTOCOL},
    "apimachinery.pkg.apis.meta.v1.Condition": _CONDITION,
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinitionSpec": {
        "scope": ("Cluster", "Namespaced")
    },
    "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceConversion": {
        "strategy": ("None", "Webhook")
    },
}
