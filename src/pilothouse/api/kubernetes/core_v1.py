"""The core group, ``v1``."""

from __future__ import annotations

from pilothouse.api.kubernetes import configuration, events, nodes, services, storage
from pilothouse.api.kubernetes.kind_builders import CREATE_ONLY, native
from pilothouse.api.kubernetes.pods import columns as pod_columns
from pilothouse.api.kubernetes.pods import defaults as pod_defaults
from pilothouse.api.kubernetes.pods.defaults import default_spec
from pilothouse.api.kubernetes.pods.validation import check_template, validate_pod
from pilothouse.api.kubernetes.printer_cells import (
    AGE,
    NAME,
    at,
    column,
    container_columns,
    count,
    labels_text,
)
from pilothouse.meta.kind import Kind, Object, Resource, Subresource, single
from pilothouse.meta.names import label, label_1035

_FINALIZE = Subresource(name="finalize", group="", version="v1", kind="Namespace", verbs=("update",))
_EVICTION = Subresource(name="eviction", group="policy", version="v1", kind="Eviction", verbs=("create",))
_BINDING = Subresource(name="binding", group="", version="v1", kind="Binding", verbs=("create",))
_LOG = Subresource(name="log", group="", version="v1", kind="Pod", verbs=("get",))
_EXEC = Subresource(name="exec", group="", version="v1", kind="PodExecOptions", verbs=("create", "get"))
_ATTACH = Subresource(name="attach", group="", version="v1", kind="PodAttachOptions", verbs=("create", "get"))
_PROXY = Subresource(name="proxy", group="", version="v1", kind="NodeProxyOptions", verbs=("get",))
_TOKEN = Subresource(
    name="token", group="authentication.k8s.io", version="v1", kind="TokenRequest", verbs=("create",)
)
_POD_SELECTABLE = (
    "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
    "spec.hostNetwork", "status.phase", "status.podIP", "status.nominatedNodeName",
)  # fmt: skip


def _data_count(obj: Object, now: float) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def event_kind() -> Kind:
    """The stored form of events of either group."""
    return native(
        "v1",
        "Event",
        short_names=("ev",),
        columns=events.CORE_COLUMNS,
        selectable=events.CORE_SELECTABLE,
        validate=events.validate_core,
        time_to_live=events.time_to_live,
        create_on_update=True,
    )


def binding() -> Kind:
    """The body of ``pods/binding``."""
    return native("v1", "Binding", virtual=True, verbs=CREATE_ONLY)


def _template_spec(obj: Object) -> Object:
    found: Object = (obj.get("template") or {}).get("spec") or {}
    return found


def _template_labels(obj: Object, now: float) -> str:
    return labels_text(((obj.get("template") or {}).get("metadata") or {}).get("labels"))


def _default_template(obj: Object) -> None:
    default_spec(obj.setdefault("template", {}).setdefault("spec", {}))


def resources() -> tuple[Resource, ...]:
    events_resource = Resource(kinds=(event_kind(),), storage="v1", key=events.KEY, convert=events.convert)
    return *map(single, _kinds()), events_resource


def _kinds() -> tuple[Kind, ...]:
    return (
        native(
            "v1",
            "Namespace",
            namespaced=False,
            short_names=("ns",),
            status=True,
            # Its labels decide what its pods may do, and are not for who may write its status alone.
            status_metadata=("annotations",),
            verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
            subresources=(_FINALIZE,),
            columns=nodes.NAMESPACE_COLUMNS,
            selectable={"status.phase": ".status.phase", "name": ".metadata.name"},
            validate_name=label,
            default=nodes.default_namespace,
            prepare_create=nodes.prepare_namespace,
            prepare_update=nodes.keep_namespace,
            prepare_delete=nodes.end_namespace,
            held=nodes.namespace_is_held,
            validate=nodes.validate_namespace,
        ),
        native(
            "v1",
            "Node",
            namespaced=False,
            short_names=("no",),
            status=True,
            born_with_status=True,
            subresources=(_PROXY,),
            columns=nodes.NODE_COLUMNS,
            selectable={"spec.unschedulable": ".spec.unschedulable"},
            default=nodes.default_node,
            validate=nodes.validate_node,
        ),
        native(
            "v1",
            "Pod",
            short_names=("po",),
            categories=("all",),
            status=True,
            generation=True,
            subresources=(_EVICTION, _BINDING, _LOG, _EXEC, _ATTACH),
            columns=pod_columns.COLUMNS,
            selectable={field: f".{field}" for field in _POD_SELECTABLE},
            default=pod_defaults.default_pod,
            prepare_create=pod_defaults.prepare_create,
            grace=pod_defaults.grace,
            validate=validate_pod,
        ),
        native(
            "v1",
            "Service",
            short_names=("svc",),
            categories=("all",),
            status=True,
            create_on_update=True,
            columns=services.SERVICE_COLUMNS,
            selectable={"spec.clusterIP": ".spec.clusterIP", "spec.type": ".spec.type"},
            validate_name=label_1035,
            default=services.default_service,
            prepare_create=services.prepare_create,
            prepare_update=services.prepare_update,
            validate=services.validate_service,
        ),
        native(
            "v1",
            "Endpoints",
            plural="endpoints",
            short_names=("ep",),
            create_on_update=True,
            columns=services.ENDPOINTS_COLUMNS,
            validate=services.validate_endpoints,
        ),
        native(
            "v1",
            "ConfigMap",
            short_names=("cm",),
            columns=(NAME, column("Data", "How many keys it has.", _data_count), AGE),
            default=configuration.drop_empty_data,
            validate=configuration.validate_config_map,
        ),
        native(
            "v1",
            "Secret",
            confidential=True,
            columns=(
                NAME,
                column("Type", "What it is for.", at("type")),
                column("Data", "How many keys it has.", count("data")),
                AGE,
            ),
            selectable={"type": ".type"},
            default=configuration.fold_string_data,
            validate=configuration.validate_secret,
        ),
        native(
            "v1",
            "PodTemplate",
            generation=True,
            columns=(
                NAME,
                *container_columns(_template_spec),
                column("Pod Labels", "Labels of the pods.", _template_labels),
            ),
            default=_default_template,
            validate=lambda new, old: check_template(new.get("template") or {}, "template"),
        ),
        native(
            "v1",
            "ServiceAccount",
            short_names=("sa",),
            subresources=(_TOKEN,),
            columns=(NAME, column("Secrets", "How many secrets it has.", count("secrets")), AGE),
        ),
        native(
            "v1",
            "PersistentVolumeClaim",
            short_names=("pvc",),
            status=True,
            columns=storage.CLAIM_COLUMNS,
            prepare_create=storage.prepare_claim,
            validate=storage.validate_claim,
        ),
        native(
            "v1",
            "PersistentVolume",
            namespaced=False,
            short_names=("pv",),
            status=True,
            columns=storage.VOLUME_COLUMNS,
            prepare_create=storage.prepare_volume,
            validate=storage.validate_volume,
        ),
    )
