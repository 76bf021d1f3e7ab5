"""Claims, volumes and their classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pilothouse.api.kubernetes.node_selectors import check_node_selector
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, UNSET, access_modes, at, column
from pilothouse.api.kubernetes.shared_checks import Problems, amount, label_selector, named, unchanged
from pilothouse.api.kubernetes.table import schema
from pilothouse.base.quantity import Quantity
from pilothouse.meta.fields import FieldError, entry
from pilothouse.meta.kind import Object
from pilothouse.meta.names import qualified_name

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_CLAIM_FIXED: Final = (
    "spec is immutable after creation except resources.requests and "
    "volumeAttributesClassName for bound claims"
)


def prepare_claim(claim: Object) -> None:
    """A new claim is pending. A source given in one of its two fields is copied to the other."""
    claim["status"] = {"phase": "Pending"}
    spec = claim["spec"]
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {key: value for key, value in reference.items() if key != "namespace"}


def check_claim_spec(spec: Mapping[str, Any], path: str) -> Problems:
    yield from _check_modes(spec, path)
    if spec.get("selector") is not None:
        yield from label_selector(spec["selector"], f"{path}.selector")
    requests = (spec.get("resources") or {}).get("requests") or {}
    size_path = entry(f"{path}.resources", "storage")
    if "storage" not in requests:
        yield FieldError.required(size_path)
    else:
        size = amount(requests["storage"])
        if size is not None and size.to_float() <= 0:
            yield FieldError.invalid(size_path, requests["storage"], "must be greater than zero")
    for field in ("storageClassName", "volumeAttributesClassName"):
        if spec.get(field):
            yield from named(f"{path}.{field}", spec[field])


def _check_modes(spec: Mapping[str, Any], path: str) -> Problems:
    modes = spec.get("accessModes") or ()
    if not modes:
        yield FieldError.required(f"{path}.accessModes", "at least 1 access mode is required")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield FieldError.not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        yield FieldError.forbidden(
            f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes"
        )


def validate_claim(new: Object, old: Object | None) -> Problems:
    if old is not None and new["spec"] == old["spec"]:
        return
    yield from check_claim_spec(new["spec"], "spec")
    if old is not None:
        yield from _check_claim_update(new, old)


def _check_claim_update(new: Object, old: Object) -> Problems:
    mine, theirs = dict(new["spec"]), dict(old["spec"])
    if not theirs.get("volumeName"):
        theirs.pop("volumeName", None)
        mine.pop("volumeName", None)
    if not theirs.get("storageClassName") and "storageClassName" not in theirs:
        # A claim without a class may be given one later.
        mine.pop("storageClassName", None)
    bound = (new.get("status") or {}).get("phase") == "Bound"
    if bound:
        mine["resources"] = _with_storage(mine.get("resources"), _storage(theirs))
        if mine.get("volumeAttributesClassName"):
            mine["volumeAttributesClassName"] = theirs.get("volumeAttributesClassName")
            if mine["volumeAttributesClassName"] is None:
                del mine["volumeAttributesClassName"]
    if mine != theirs:
        changed = sorted(field for field in {*mine, *theirs} if mine.get(field) != theirs.get(field))
        yield FieldError.forbidden("spec", f"{_CLAIM_FIXED}; changed: {', '.join(changed)}")
    before, after = _amount(_storage(old["spec"])), _amount(_storage(new["spec"]))
    capacity = _amount(((old.get("status") or {}).get("capacity") or {}).get("storage"))
    if (
        before is not None
        and after is not None
        and after < before
        and (capacity is None or not capacity < after)
    ):
        yield FieldError.forbidden(
            "spec.resources.requests.storage", "field can not be less than status.capacity"
        )
    if old["spec"].get("volumeAttributesClassName") and not new["spec"].get("volumeAttributesClassName"):
        yield FieldError.forbidden(
            "spec.volumeAttributesClassName", "update from non-nil value to nil is forbidden"
        )


def _storage(spec: Mapping[str, Any]) -> Any:
    return ((spec.get("resources") or {}).get("requests") or {}).get("storage")


def _with_storage(resources: Mapping[str, Any] | None, storage: Any) -> dict[str, Any]:
    found = dict(resources or {})
    if storage is not None:
        found["requests"] = {**(found.get("requests") or {}), "storage": storage}
    return found


def _amount(value: Any) -> Quantity | None:
    return None if value is None else amount(value)


def prepare_volume(volume: Object) -> None:
    volume["status"] = {"phase": "Pending"}


def validate_volume(new: Object, old: Object | None) -> Problems:
    spec = new["spec"]
    if old is not None and spec == old["spec"]:
        return
    yield from _check_modes(spec, "spec")
    if "storage" not in (spec.get("capacity") or {}):
        yield FieldError.required("spec.capacity")
    sources = [
        field
        for field in schema("api.core.v1.PersistentVolumeSource").properties
        if spec.get(field) is not None
    ]
    if not sources:
        yield FieldError.required("spec", "must specify a volume type")
    for extra in sources[1:]:
        yield FieldError.forbidden(f"spec.{extra}", "may not specify more than 1 volume type")
    for field, needed in (("hostPath", "path"), ("local", "path"), ("nfs", "server"), ("csi", "driver")):
        if field in sources and not spec[field].get(needed):
            yield FieldError.required(f"spec.{field}.{needed}")
    if "local" in sources and not spec.get("nodeAffinity"):
        yield FieldError.required("spec.nodeAffinity", "Local volume requires node affinity")
    affinity = spec.get("nodeAffinity")
    if affinity is not None:
        if affinity.get("required") is None:
            yield FieldError.required("spec.nodeAffinity.required", "must specify required node constraints")
        else:
            yield from check_node_selector(affinity["required"], "spec.nodeAffinity.required")
    if spec.get("storageClassName"):
        yield from named("spec.storageClassName", spec["storageClassName"])
    if old is not None:
        fields = schema("api.core.v1.PersistentVolumeSource").properties
        if any(spec.get(field) != old["spec"].get(field) for field in fields):
            yield FieldError.forbidden(
                "spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation"
            )
        yield from unchanged("volumeMode", spec.get("volumeMode"), old["spec"].get("volumeMode"))
        if old["spec"].get("nodeAffinity") is not None and affinity != old["spec"]["nodeAffinity"]:
            detail = "field is immutable, except for updating from beta label to GA"
            yield FieldError.invalid("nodeAffinity", affinity, detail)


def validate_class(new: Object, old: Object | None) -> Problems:
    """A StorageClass."""
    yield from _check_driver("provisioner", new.get("provisioner", ""))
    yield from _check_parameters(new, needed=False)
    if old is not None:
        for field in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
            if (new.get(field) or None) != (old.get(field) or None):
                yield FieldError.forbidden(field, f"updates to {field} are forbidden.")


def validate_attributes_class(new: Object, old: Object | None) -> Problems:
    """A VolumeAttributesClass."""
    yield from _check_driver("driverName", new.get("driverName", ""))
    yield from _check_parameters(new, needed=True)
    if old is not None:
        for field in ("parameters", "driverName"):
            if new.get(field) != old.get(field):
                yield FieldError.forbidden(field, f"updates to {field} are forbidden.")


def _check_driver(path: str, value: str) -> Problems:
    yield from named(path, value, lambda name: qualified_name(name.lower()))


def _check_parameters(obj: Object, *, needed: bool) -> Problems:
    parameters = obj.get("parameters") or {}
    if needed and not parameters:
        yield FieldError.required("parameters", "must contain at least one key/value pair")
    if "" in parameters:
        yield FieldError.invalid("parameters", "", "field can not be empty.")
    if len(parameters) > 512:
        yield FieldError.too_many("parameters", len(parameters), 512)


def _claim_status(claim: Object, now: float) -> str:
    if claim["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return str((claim.get("status") or {}).get("phase", ""))


def _bound(claim: Object, now: float) -> bool:
    return bool((claim.get("spec") or {}).get("volumeName"))


def _claim_capacity(claim: Object, now: float) -> str:
    if not _bound(claim, now):
        return ""
    return str(((claim.get("status") or {}).get("capacity") or {}).get("storage", "0"))


def _claim_modes(claim: Object, now: float) -> str:
    return access_modes((claim.get("status") or {}).get("accessModes")) if _bound(claim, now) else ""


def _class(obj: Object, now: float) -> str:
    old = (obj["metadata"].get("annotations") or {}).get(_OLD_CLASS)
    return str(old or (obj.get("spec") or {}).get("storageClassName") or "")


def _volume_claim(volume: Object, now: float) -> str:
    claim = (volume.get("spec") or {}).get("claimRef")
    return f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else ""


def _class_name(obj: Object, now: float) -> str:
    annotations = obj["metadata"].get("annotations") or {}
    marked = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return f"{obj['metadata']['name']} (default)" if marked else str(obj["metadata"]["name"])


_ATTRIBUTES: Final = column(
    "VolumeAttributesClass", "Its attributes.", at("spec", "volumeAttributesClassName", missing=UNSET)
)
_VOLUME_MODE: Final = column(
    "VolumeMode", "Filesystem or Block.", at("spec", "volumeMode", missing=UNSET), wide=True
)

CLAIM_COLUMNS: Final = (
    NAME,
    column("Status", "Whether the claim has a volume.", _claim_status),
    column("Volume", "The volume.", at("spec", "volumeName")),
    column("Capacity", "How much it holds.", _claim_capacity),
    column("Access Modes", "How it can be mounted.", _claim_modes),
    column("StorageClass", "The kind of storage.", _class),
    _ATTRIBUTES,
    AGE,
    _VOLUME_MODE,
)
VOLUME_COLUMNS: Final = (
    NAME,
    column("Capacity", "How much it holds.", at("spec", "capacity", "storage", missing="0")),
    column(
        "Access Modes",
        "How it can be mounted.",
        lambda obj, now: access_modes((obj.get("spec") or {}).get("accessModes")),
    ),
    column(
        "Reclaim Policy",
        "What happens to it when its claim is deleted.",
        at("spec", "persistentVolumeReclaimPolicy"),
    ),
    column("Status", "Whether it is in use.", _claim_status),
    column("Claim", "The claim that has it.", _volume_claim),
    column("StorageClass", "The kind of storage.", _class),
    _ATTRIBUTES,
    column("Reason", "Why it is in this state.", at("status", "reason")),
    AGE,
    _VOLUME_MODE,
)
CLASS_COLUMNS: Final = (
    column("Name", "The object's name.", _class_name, format="name"),
    column("Provisioner", "The provisioner that creates the volumes.", at("provisioner")),
    column("ReclaimPolicy", "What happens to a volume whose claim is deleted.", at("reclaimPolicy")),
    column("VolumeBindingMode", "When a claim gets its volume.", at("volumeBindingMode")),
    column("AllowVolumeExpansion", "Whether claims may grow.", at("allowVolumeExpansion", missing=False)),
    AGE,
)
ATTRIBUTES_CLASS_COLUMNS: Final = (NAME, column("DriverName", "Whose volumes.", at("driverName")), AGE)
