"""``namespaces/finalize``: how the controller that has emptied a namespace lets it go."""

from __future__ import annotations

from typing import Any

from pilothouse.apiserver import decoding, ingest, lifecycle, options
from pilothouse.apiserver.call import Call
from pilothouse.apiserver.exchange import Response
from pilothouse.apiserver.objects import Removal
from pilothouse.apiserver.writing import Writer
from pilothouse.meta import names
from pilothouse.meta.fields import FieldError, element
from pilothouse.meta.kind import Object


async def finalize(call: Call, writer: Writer) -> Response:
    """PUT of a namespace whose ``spec.finalizers`` alone are taken over; without any left it is gone."""
    kind = call.served.kind
    chosen = options.write_options(call.request, call.params, "UpdateOptions")
    sent = ingest.take(
        kind, decoding.read(call.request, native=True), chosen.validation, call.request.warnings
    )
    lifecycle.check_name(sent["metadata"], call.name)
    uid = str(sent["metadata"].get("uid") or "")
    revision = str(sent["metadata"].get("resourceVersion") or "")
    finalizers = (sent.get("spec") or {}).get("finalizers") or []
    problems = [
        FieldError.invalid(element("spec.finalizers", index), each, wrong)
        for index, each in enumerate(finalizers)
        if (wrong := names.qualified_name(each))
    ]
    if problems:
        raise ingest.invalid(kind, sent, problems)

    def change(live: Object) -> Any:
        lifecycle.check_preconditions(kind, live, uid=uid, revision=revision)
        spec = {**(live.get("spec") or {}), "finalizers": finalizers}
        if not finalizers:
            del spec["finalizers"]
        new = {**live, "spec": spec}
        return Removal(new) if lifecycle.ends(kind, new, live) else new

    return writer.respond(call, await writer.amend(call, change, chosen), 200)
