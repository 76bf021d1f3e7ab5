"""Pods: bound to a node, evicted as disruption budgets allow, with streams that their node serves."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from pilothouse.api.disruption_target import EVICTED, EVICTED_BECAUSE, EVICTED_BY, disruption_condition
from pilothouse.apiserver.discovery.catalog import KindCatalog, ServedVersion
from pilothouse.apiserver.endpoints import decoding, object_metadata, write_options
from pilothouse.apiserver.endpoints.call import ResourceRequest
from pilothouse.apiserver.registry.strategy import Handler, Strategy
from pilothouse.apiserver.server.messages import Response
from pilothouse.apiserver.storage import codec
from pilothouse.apiserver.storage.large_writes import LargeWrites
from pilothouse.apiserver.storage.objects import Change, ObjectRemoval, ObjectStorage
from pilothouse.apiserver.storage.watch_cache import WatchCache
from pilothouse.base.clock import Clock
from pilothouse.base.rfc3339 import format_time
from pilothouse.meta import conditions, errors, names
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object
from pilothouse.meta.selectors import LabelSelector
from pilothouse.pki.keyring import MANAGER

_ATTEMPTS: Final = 5
"""How often an eviction is tried if a pod changes that costs nothing while it is not ready."""
_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


class PodStrategy(Strategy):
    def __init__(
        self,
        catalog: KindCatalog,
        cache: WatchCache,
        objects: ObjectStorage,
        clock: Clock,
        large: LargeWrites,
        stream: Handler,
    ) -> None:
        self._catalog = catalog
        self._cache = cache
        self._objects = objects
        self._clock = clock
        self._large = large
        self.subresources = {
            "binding": self._bind,
            "eviction": self._evict,
            "log": stream,
            "exec": stream,
            "attach": stream,
        }

    async def _bind(self, call: ResourceRequest) -> Response:
        """POST of a Binding: assigns the pod to a node."""
        options = write_options.write_options(call.request, call.params, "CreateOptions")
        binding = await self._large.run(call.request, lambda: _body(call, "Binding", "v1"))
        target = binding.get("target") or {}
        node = target.get("name") if isinstance(target, dict) else None
        if not isinstance(node, str) or not node or target.get("kind", "Node") not in ("Node", "Minion", ""):
            raise errors.bad_request("target of a Binding must be a Node with a name")
        added = (binding.get("metadata") or {}).get("annotations") or {}
        problems = [*names.validate_annotations(added, "metadata.annotations")]
        if wrong := names.subdomain(node):
            problems.append(FieldError.invalid("target.name", node, wrong))
        if problems:
            raise errors.invalid("Binding", "", call.name, problems)
        now = format_time(self._clock.now())

        def change(pod: Object) -> Object:
            _check_uid(call, binding, pod)
            metadata, spec = pod["metadata"], pod.get("spec") or {}
            if "deletionTimestamp" in metadata:
                detail = f"pod {call.name} is being deleted, cannot be assigned to a host"
                raise errors.conflict("pods/binding", "", call.name, detail)
            if spec.get("nodeName"):
                detail = f"pod {call.name} is already assigned to node {spec['nodeName']!r}"
                raise errors.conflict("pods/binding", "", call.name, detail)
            if spec.get("schedulingGates"):
                detail = f"pod {call.name} has non-empty .spec.schedulingGates"
                raise errors.conflict("pods/binding", "", call.name, detail)
            status = dict(pod.get("status") or {})
            scheduled = {"type": "PodScheduled", "status": "True"}
            # The condition may still say why the pod had no node.
            others = conditions.without_condition(status.get("conditions"), "PodScheduled")
            status["conditions"] = conditions.with_condition(others, scheduled, now=now)
            if added:
                metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), **added}}
            return {**pod, "metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}

        await self._objects.amend(
            call.served, call.namespace, call.name, change, fence=call.fence, dry_run=options.dry_run
        )
        return Response(201, codec.dump(_SUCCESS))

    async def _evict(self, call: ResourceRequest) -> Response:
        """POST of an Eviction: a delete, if the pod's disruption budget allows it."""
        options = write_options.write_options(call.request, call.params, "CreateOptions")
        eviction = await self._large.run(call.request, lambda: _body(call, "Eviction", "policy/v1"))
        given = eviction.get("deleteOptions") or {}
        if not isinstance(given, dict):
            raise errors.bad_request("deleteOptions of an Eviction must be an object")
        how = write_options.delete_options_of(given, {"dryRun": "All"} if options.dry_run else {})
        given_revision = how.revision
        for attempt in range(_ATTEMPTS):
            pod = await self._pod(call)
            # Before the budget is touched: an eviction that is refused must not have spent anything.
            object_metadata.check_preconditions(call.served.kind, pod, uid=how.uid, revision=given_revision)
            spares = _needs_budget(pod) and await self._spend(call, pod, how.dry_run)
            # The budget was spent for this pod; one of the same name that came since is another. One that
            # costs nothing because it is not ready must not have become ready since.
            revision = pod["metadata"]["resourceVersion"] if spares else given_revision
            how = msgspec.structs.replace(how, uid=pod["metadata"]["uid"], revision=revision)
            try:
                await self._objects.amend(
                    call.served,
                    call.namespace,
                    call.name,
                    self._eviction(call, eviction, how),
                    fence=call.fence,
                    dry_run=how.dry_run,
                )
            except errors.StatusError as refusal:
                if refusal.code != 409 or not spares or given_revision or attempt == _ATTEMPTS - 1:
                    raise
                continue
            break
        return Response(201, codec.dump(_SUCCESS))

    async def _pod(self, call: ResourceRequest) -> Object:
        found = await self._objects.find(call.key)
        if found is None:
            raise errors.not_found("pods", "", call.name)
        return codec.decode(found.value, found.revision)

    def _eviction(
        self, call: ResourceRequest, eviction: dict[str, Any], how: write_options.ParsedDeleteOptions
    ) -> Change:
        """A deletion that says in the pod's condition ``DisruptionTarget`` who asked for it, and why."""
        now = self._clock.now()
        delete = object_metadata.deletion(call.served.kind, how, now)
        by, because = _asked_by(eviction, call.request.user.name)
        condition = disruption_condition(by, because, reason=EVICTED)

        def change(pod: Object) -> Object | ObjectRemoval:
            if "deletionTimestamp" not in pod["metadata"]:
                status = dict(pod.get("status") or {})
                # One from before may say something else.
                others = conditions.without_condition(status.get("conditions"), condition["type"])
                status["conditions"] = conditions.with_condition(others, condition, now=format_time(now))
                pod = {**pod, "status": status}
            return delete(pod)

        return change

    async def _spend(self, call: ResourceRequest, pod: Object, dry_run: bool) -> bool:
        """Take one disruption from the pod's budget, or 429. True if it costs nothing, not being ready."""
        served = self._catalog.find("policy", "v1", "poddisruptionbudgets")
        if served is None:
            return False
        await self._cache.fresh()
        budgets = self._budgets(served, call.namespace, pod["metadata"].get("labels") or {})
        if not budgets:
            return False
        if len(budgets) > 1:
            detail = (
                "more than one disruption budget covers it, "
                f"and an eviction can spend from one only: {budgets}"
            )
            raise errors.conflict("pods", "", call.name, detail)
        now = format_time(self._clock.now())
        spares = False

        def change(budget: Object) -> Object:
            nonlocal spares
            spares = _spares(budget, pod)
            if spares:
                return budget
            status = dict(budget.get("status") or {})
            name = budget["metadata"]["name"]
            if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
                raise _refused(f"The disruption budget {name} is still being processed by the server.", 10)
            allowed = status.get("disruptionsAllowed", 0)
            if allowed < 1:
                needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
                raise _refused(
                    f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently", 0
                )
            status["disruptionsAllowed"] = allowed - 1
            status["disruptedPods"] = {**(status.get("disruptedPods") or {}), call.name: now}
            return {**budget, "status": status}

        await self._objects.amend(
            served, call.namespace, budgets[0], change, fence=call.fence, dry_run=dry_run
        )
        return spares

    def _budgets(self, served: ServedVersion, namespace: str, labels: dict[str, str]) -> list[str]:
        found = []
        for item in self._cache.collection(served.resource.path).below(served.prefix(namespace)):
            selector = (codec.decode(item.value).get("spec") or {}).get("selector")
            if selector is not None and LabelSelector.from_object(selector).matches(labels):
                found.append(item.name)
        return found


def _needs_budget(pod: Object) -> bool:
    """Whether an eviction needs a budget: not of a pod that has ended, is pending or is terminating."""
    phase = (pod.get("status") or {}).get("phase")
    return phase not in ("Succeeded", "Failed", "Pending") and "deletionTimestamp" not in pod["metadata"]


def _spares(budget: Object, pod: Object) -> bool:
    """Whether a budget lets a pod that is not ready go for nothing: by its ``unhealthyPodEvictionPolicy``."""
    status, spec = budget.get("status") or {}, budget.get("spec") or {}
    if conditions.condition_is((pod.get("status") or {}).get("conditions"), "Ready"):
        return False
    if spec.get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))


def _asked_by(eviction: dict[str, Any], user: str) -> tuple[str, str]:
    """Who asked for an eviction, and why, as its annotations say; else which user. Besides what others say
    they are, their user is named."""
    annotations = (eviction.get("metadata") or {}).get("annotations")
    said = annotations if isinstance(annotations, dict) else {}
    by, because = (str(said.get(name) or "") for name in (EVICTED_BY, EVICTED_BECAUSE))
    if by and user != MANAGER:
        by = f"{user} ({by})"
    return by or user, because or "evicted through the API"


def _refused(detail: str, retry_after: int) -> errors.StatusError:
    problem = errors.too_many_requests(
        "Cannot evict pod as it would violate the pod's disruption budget.", retry_after
    )
    problem.causes = (errors.StatusCauseDetail("DisruptionBudget", detail),)
    return problem


def _check_uid(call: ResourceRequest, sent: Object, pod: Object) -> None:
    uid = (sent.get("metadata") or {}).get("uid") or ""
    object_metadata.check_preconditions(call.served.kind, pod, uid=uid, revision="")


def _body(call: ResourceRequest, kind: str, api_version: str) -> dict[str, Any]:
    value = decoding.read(call.request, native=True).value
    if not isinstance(value, dict) or value.get("kind", kind) != kind:
        raise errors.bad_request(f"the body must be a {kind} of {api_version}")
    metadata = value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise errors.bad_request("metadata must be an object")
    if metadata.get("name"):
        object_metadata.check_name(metadata, call.name)
    return value
