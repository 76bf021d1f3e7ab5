"""``certificates.k8s.io/v1``: requests for certificates."""

from __future__ import annotations

from base64 import b64decode
from typing import Final

from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, at, column
from pilothouse.api.kubernetes.shared_checks import Problems
from pilothouse.base.duration import human_age
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object, Resource, Subresource, single
from pilothouse.meta.names import label, subdomain

GROUP: Final = "certificates.k8s.io"
_APPROVAL: Final = Subresource(
    name="approval",
    group=GROUP,
    version="v1",
    kind="CertificateSigningRequest",
    verbs=("get", "patch", "update"),
)
_USAGES: Final = (
    "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign",
    "data encipherment", "decipher only", "digital signature", "email protection", "encipher only",
    "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc",
    "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping",
)  # fmt: skip
_SHORTEST: Final = 600
_LEGACY: Final = "kubernetes.io/legacy-unknown"
_VERDICTS: Final = ("Approved", "Denied", "Failed")


def resources() -> tuple[Resource, ...]:
    requests = native(
        f"{GROUP}/v1",
        "CertificateSigningRequest",
        status_metadata=(),
        namespaced=False,
        short_names=("csr",),
        status=True,
        subresources=(_APPROVAL,),
        columns=_COLUMNS,
        selectable={"spec.signerName": ".spec.signerName"},
        validate_name=lambda name: "",
        prepare_create=_prepare,
        prepare_update=_keep,
        validate=_validate,
    )
    return (single(requests),)


def _prepare(obj: Object) -> None:
    obj["status"] = {}


def _keep(new: Object, old: Object) -> None:
    """The request itself never changes."""
    new["spec"] = dict(old["spec"])


def _validate(new: Object, old: Object | None) -> Problems:
    if old is None:
        yield from _check_request(new["spec"])
    yield from _check_verdicts(new, old)


def _check_request(spec: Object) -> Problems:
    request = spec.get("request", "")
    if not _is_pem(request, b"CERTIFICATE REQUEST"):
        yield FieldError.invalid("spec.request", request, "PEM block type must be CERTIFICATE REQUEST")
    usages = spec.get("usages") or ()
    if not usages:
        yield FieldError.required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES:
            yield FieldError.not_supported(element("spec.usages", index), usage, _USAGES)
        elif usage in usages[:index]:
            yield FieldError.duplicate(element("spec.usages", index), usage)
    yield from _check_signer(spec.get("signerName", ""))
    seconds = spec.get("expirationSeconds")
    if seconds is not None and seconds < _SHORTEST:
        yield FieldError.invalid(
            "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
        )


def _is_pem(encoded: str, what: bytes) -> bool:
    """True for PEM of the right kind, whatever its content."""
    try:
        return b"-----BEGIN %b-----" % what in b64decode(encoded)
    except ValueError:
        return False


def _check_signer(name: str) -> Problems:
    path = "spec.signerName"
    if not name:
        yield FieldError.required(path)
        return
    if name == _LEGACY:
        yield FieldError.invalid(path, name, "the legacy signerName is not allowed via this API version")
    domain, slash, rest = name.partition("/")
    if not slash:
        yield FieldError.invalid(
            path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'"
        )
        return
    if subdomain(domain) or "." not in domain:
        yield FieldError.invalid(path, name, "should be a domain with at least one dot before the slash")
    if any(label(part) for part in rest.split(".")):
        yield FieldError.invalid(
            path, name, "the part after the slash must consist of DNS labels joined by dots"
        )


def _check_verdicts(new: Object, old: Object | None) -> Problems:
    conditions = (new.get("status") or {}).get("conditions") or ()
    path = "status.conditions"
    kinds = [each.get("type", "") for each in conditions]
    for index, condition in enumerate(conditions):
        at_condition = element(path, index)
        kind, status = condition.get("type", ""), condition.get("status", "")
        if not kind:
            yield FieldError.required(f"{at_condition}.type")
        elif kind in kinds[:index]:
            yield FieldError.duplicate(f"{at_condition}.type", kind)
        if kind in _VERDICTS and status != "True":
            yield FieldError.not_supported(f"{at_condition}.status", status, ["True"])
    if {"Approved", "Denied"} <= set(kinds):
        yield FieldError.invalid(
            f"{element(path, len(kinds) - 1)}.type",
            kinds[-1],
            "Approved and Denied conditions are mutually exclusive",
        )
    if old is None:
        return
    before = old.get("status") or {}
    for kind in ("Approved", "Denied", "Failed"):
        if any(each.get("type") == kind for each in before.get("conditions") or ()) and kind not in kinds:
            yield FieldError.forbidden(path, f'updates may not remove a condition of type "{kind}"')
    path = "status.certificate"
    issued, sent = before.get("certificate"), (new.get("status") or {}).get("certificate")
    if issued and issued != sent:
        yield FieldError.forbidden(path, "updates may not modify existing certificate content")
    elif sent and not _is_pem(sent, b"CERTIFICATE"):
        detail = "must contain at least one CERTIFICATE PEM block"
        yield FieldError.invalid(path, "<certificate data>", detail)


def _state(obj: Object, now: float) -> str:
    status = obj.get("status") or {}
    kinds = {each.get("type") for each in status.get("conditions") or ()}
    words = ["Denied" if "Denied" in kinds else "Approved" if "Approved" in kinds else "Pending"]
    if "Failed" in kinds:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def _requested(obj: Object, now: float) -> str:
    seconds = (obj.get("spec") or {}).get("expirationSeconds")
    return NONE if seconds is None else human_age(seconds)


_COLUMNS: Final = (
    NAME,
    AGE,
    column("SignerName", "The requested signer.", at("spec", "signerName", missing=NONE)),
    column("Requestor", "The requester.", at("spec", "username")),
    column("RequestedDuration", "How long the certificate is to last.", _requested),
    column("Condition", "Pending, approved, denied, failed or issued.", _state),
)
