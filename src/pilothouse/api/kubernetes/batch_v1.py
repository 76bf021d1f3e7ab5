"""``batch/v1``: Jobs and CronJobs. No controller acts on them; a Job has a condition that says so."""

from __future__ import annotations

import zoneinfo
from typing import Any, Final

from pilothouse.api.k0s import cron
from pilothouse.api.kubernetes.kind_builders import native
from pilothouse.api.kubernetes.pods.defaults import default_spec
from pilothouse.api.kubernetes.pods.validation import check_template
from pilothouse.api.kubernetes.printer_cells import AGE, NAME, NONE, UNKNOWN, at, column, since
from pilothouse.api.kubernetes.shared_checks import Problems, label_selector, not_negative, unchanged
from pilothouse.api.kubernetes.workloads import default_template, template_of, wide_columns
from pilothouse.base.duration import human_age
from pilothouse.base.rfc3339 import TimeError, parse_time
from pilothouse.meta.fields import FieldError
from pilothouse.meta.kind import Object, Resource, single
from pilothouse.meta.selectors import LabelSelector

_LONGEST_CRON_NAME: Final = 52
_CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
_FIXED: Final = (
    "selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy",
)  # fmt: skip
_COUNTS: Final = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished",
    "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip
_LARGEST: Final = 2**31 - 1


def resources() -> tuple[Resource, ...]:
    jobs = native(
        "batch/v1",
        "Job",
        categories=("all",),
        status=True,
        generation=True,
        columns=_JOB_COLUMNS,
        selectable={"status.successful": ".status.succeeded"},
        default=default_job,
        prepare_create=_select_own_pods,
        validate=validate_job,
        unattended="no controller runs Jobs yet: it is stored, but no pod is created",
    )
    cron_jobs = native(
        "batch/v1",
        "CronJob",
        short_names=("cj",),
        categories=("all",),
        status=True,
        generation=True,
        columns=_CRON_COLUMNS,
        default=default_cron_job,
        validate=validate_cron_job,
        unattended="no controller runs CronJobs yet: it is stored, but no Job is created",
    )
    return single(jobs), single(cron_jobs)


def default_job(obj: Object) -> None:
    spec = obj["spec"]
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _LARGEST
    for field, value in (("completionMode", "NonIndexed"), ("suspend", False), ("manualSelector", False)):
        if spec.get(field) is None:
            spec[field] = value
    if not spec.get("podReplacementPolicy"):
        spec["podReplacementPolicy"] = "TerminatingOrFailed" if not spec.get("podFailurePolicy") else "Failed"
    default_template(obj)


def _select_own_pods(obj: Object) -> None:
    """By default a Job selects pods with its uid, and its own labels are the template's."""
    spec, metadata = obj["spec"], obj["metadata"]
    labels = (spec["template"].get("metadata") or {}).get("labels")
    if not spec.get("manualSelector"):
        labels = _labelled(obj)
    if labels and not metadata.get("labels"):
        metadata["labels"] = dict(labels)


def _labelled(obj: Object) -> dict[str, str]:
    """The labels of the template, with those that the selector uses."""
    spec, metadata = obj["spec"], obj["metadata"]
    uid = metadata.get("uid", "")
    labels: dict[str, str] = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels.setdefault(f"{prefix}job-name", metadata.get("name", ""))
        labels.setdefault(f"{prefix}controller-uid", uid)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {}).setdefault(_CONTROLLER_UID, uid)
    return labels


def validate_job(new: Object, old: Object | None) -> Problems:
    status = new.get("status") or {}
    if old is not None and status != old.get("status"):
        for field in ("active", "succeeded", "failed", "ready", "terminating"):
            yield from not_negative(f"status.{field}", status.get(field))
    if old is not None and new["spec"] == old["spec"]:
        return
    spec = new["spec"]
    yield from _check_job_spec(spec, "spec")
    yield from _check_own_selector(spec)
    if old is not None:
        before = old["spec"]
        for field in _FIXED:
            yield from unchanged(f"spec.{field}", spec.get(field), before.get(field))
        if spec.get("completionMode") != "Indexed":
            yield from unchanged("spec.completions", spec.get("completions"), before.get("completions"))
        yield from unchanged("spec.template", spec["template"], before["template"])


def _check_own_selector(spec: Object) -> Problems:
    selector = spec.get("selector")
    if selector is None:
        yield FieldError.required("spec.selector")
        return
    problems = list(label_selector(selector, "spec.selector"))
    yield from problems
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if not problems and not LabelSelector.from_object(selector).matches(labels):
        yield FieldError.invalid(
            "spec.template.metadata.labels", labels, "`selector` does not match template `labels`"
        )


def _check_job_spec(spec: Object, path: str) -> Problems:
    for field in _COUNTS:
        yield from not_negative(f"{path}.{field}", spec.get(field))
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            yield FieldError.required(f"{path}.completions", "when completion mode is Indexed")
    else:
        for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
            if spec.get(field) is not None:
                yield FieldError.invalid(f"{path}.{field}", spec[field], "requires indexed completion mode")
    template = spec.get("template") or {}
    yield from check_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy")
    at_policy = f"{path}.template.spec.restartPolicy"
    if policy in (None, "", "Always"):
        yield FieldError.required(at_policy, 'valid values: "OnFailure", "Never"')
    elif spec.get("podFailurePolicy") and policy != "Never":
        yield FieldError.invalid(
            at_policy, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


def default_cron_job(obj: Object) -> None:
    template = obj["spec"].setdefault("jobTemplate", {}).setdefault("spec", {}).setdefault("template", {})
    default_spec(template.setdefault("spec", {}))


def validate_cron_job(new: Object, old: Object | None) -> Problems:
    spec = new["spec"]
    if old is None and len(new["metadata"].get("name", "")) > _LONGEST_CRON_NAME:
        yield FieldError.invalid(
            "metadata.name", new["metadata"]["name"], f"must be no more than {_LONGEST_CRON_NAME} characters"
        )
    if old is not None and spec == old["spec"]:
        return
    schedule = spec.get("schedule", "")
    if not schedule:
        yield FieldError.required("spec.schedule")
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield FieldError.invalid("spec.schedule", schedule, detail)
    elif problem := _schedule_problem(schedule):
        yield FieldError.invalid("spec.schedule", schedule, problem)
    zone = spec.get("timeZone")
    if zone is not None:
        yield from _check_zone(zone)
    for field in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        yield from not_negative(f"spec.{field}", spec.get(field))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    yield from _check_job_spec(job, "spec.jobTemplate.spec")
    if job.get("manualSelector"):
        yield FieldError.not_supported("spec.jobTemplate.spec.manualSelector", True, ["nil", "false"])


def _schedule_problem(schedule: str) -> str:
    if schedule.startswith("@every "):
        return ""
    if not schedule.startswith("@") and len(schedule.split()) != 5:
        return f"expected exactly 5 fields, found {len(schedule.split())}"
    return cron.problem_with(schedule)


def _check_zone(zone: str) -> Problems:
    if not zone:
        yield FieldError.invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
    elif zone.lower() == "local" or not _is_zone(zone):
        yield FieldError.invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _is_zone(name: str) -> bool:
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def _state(obj: Object, now: float) -> str:
    holding = {
        each.get("type")
        for each in (obj.get("status") or {}).get("conditions") or ()
        if each.get("status") == "True"
    }
    if "Complete" in holding:
        return "Complete"
    if "Failed" in holding:
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    if "Suspended" in holding:
        return "Suspended"
    return "FailureTarget" if "FailureTarget" in holding else "Running"


def _completions(obj: Object, now: float) -> str:
    spec, done = obj.get("spec") or {}, (obj.get("status") or {}).get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    together = spec.get("parallelism") or 0
    return f"{done}/1 of {together}" if together > 1 else f"{done}/1"


def _duration(obj: Object, now: float) -> str:
    status = obj.get("status") or {}
    if not status.get("startTime"):
        return ""
    try:
        ended = parse_time(status["completionTime"]) if status.get("completionTime") else now
        return human_age(ended - parse_time(status["startTime"]))
    except TimeError:
        return UNKNOWN


def _last_schedule(obj: Object, now: float) -> str:
    last = (obj.get("status") or {}).get("lastScheduleTime")
    return since(last, now) if last else NONE


def _job_template(obj: Object) -> Any:
    return template_of((obj.get("spec") or {}).get("jobTemplate") or {})


_JOB_COLUMNS: Final = (
    NAME,
    column("Status", "The state of the job.", _state),
    column("Completions", "Pods that succeeded, of those wanted.", _completions),
    column("Duration", "How long it took, or has taken so far.", _duration),
    AGE,
    *wide_columns(),
)
_CRON_COLUMNS: Final = (
    NAME,
    column("Schedule", "When jobs are due.", at("spec", "schedule")),
    column("Timezone", "The time zone of the schedule.", at("spec", "timeZone", missing=NONE)),
    column(
        "Suspend",
        "Whether no more jobs are made.",
        lambda obj, now: str(bool((obj.get("spec") or {}).get("suspend"))),
        type="boolean",
    ),
    column(
        "Active",
        "Jobs that run now.",
        lambda obj, now: len((obj.get("status") or {}).get("active") or ()),
        type="integer",
    ),
    column("Last Schedule", "How long ago a job was last made.", _last_schedule),
    AGE,
    *wide_columns(_job_template, at("spec", "jobTemplate", "spec", "selector", missing=None)),
)
