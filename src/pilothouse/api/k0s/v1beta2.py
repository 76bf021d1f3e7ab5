"""``autopilot.k0sproject.io/v1beta2``: plans, the controllers they update, and update configs."""

from __future__ import annotations

from typing import Annotated, Literal

from pilothouse.api.status_fields import Conditions, ObservedGeneration
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, Time, doc, field

GROUP = "autopilot.k0sproject.io"
VERSION = "v1beta2"
PACKAGE = "io.k0sproject.autopilot.v1beta2"

Weekday = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
PlanState = Literal[
    "", "SchedulableWait", "Schedulable", "Completed", "IncompleteTargets", "InconsistentTargets",
    "MissingSignalNode", "Restricted", "Warning", "ApplyFailed",
]  # fmt: skip
SignalState = Literal[
    "SignalPending", "SignalSent", "SignalCompleted", "SignalMissingNode", "SignalMissingPlatform",
    "SignalApplyFailed", "MissingPlatform", "MissingSignalNode",
]  # fmt: skip


class PlatformResource(Fields):
    """What a machine of one platform downloads."""

    url: Annotated[str, doc("Where it is downloaded from, by http or https.")]
    sha256: Annotated[str | None, doc("The hash it must have: 64 hexadecimal digits.")] = None


class StaticDiscovery(Fields):
    """Targets by name."""

    nodes: Annotated[tuple[str, ...], doc("The names of the machines.")] = ()


class SelectorDiscovery(Fields):
    """Targets by label and field, both of which have to match; an empty selector matches every machine."""

    labels: Annotated[str, doc("A label selector, such as environment=staging.")] = ""
    fields: Annotated[str, doc("A field selector; metadata.name is the field there is.")] = ""


class Discovery(Fields):
    """How targets are found, once, when the plan starts. Names win over selectors; neither finds none."""

    static: Annotated[StaticDiscovery | None, doc("By name.")] = None
    selector: Annotated[SelectorDiscovery | None, doc("By label and field.")] = None


class TargetLimits(Fields):
    """How much happens at once."""

    concurrent: Annotated[
        Int32, doc("How many workers are updated at a time; controllers always go one by one.", ge=1)
    ] = 1


class Target(Fields):
    """Machines of one kind."""

    discovery: Annotated[Discovery, doc("How they are found.")]
    limits: Annotated[TargetLimits, doc("How many at once.", default={})] = TargetLimits()


class Targets(Fields):
    """The machines to update. All controllers are updated before any worker."""

    controllers: Annotated[Target | None, doc("Controllers, each a ControlNode.")] = None
    workers: Annotated[Target | None, doc("Workers, each a Node.")] = None


class K0sUpdate(Fields):
    """Replace the program and restart it."""

    version: Annotated[str, doc("The version that the machines should report afterwards.")]
    platforms: Annotated[
        dict[str, PlatformResource], doc("The program, by operating system and architecture: linux-amd64.")
    ]
    targets: Annotated[Targets, doc("The machines to update.")]
    forceupdate: Annotated[bool, doc("Update machines that report the version already, too.")] = False


class AirgapUpdate(Fields):
    """Bring a bundle of images to workers."""

    version: Annotated[str, doc("The version of the bundle.")]
    platforms: Annotated[
        dict[str, PlatformResource], doc("The bundle, by operating system and architecture: linux-amd64.")
    ]
    workers: Annotated[Target, doc("The workers that get it.")]


class PlanCommand(Fields):
    """One step of a plan. With both commands in it, the bundle comes first."""

    k0supdate: Annotated[K0sUpdate | None, doc("Machines whose program is replaced, and by what.")] = None
    airgapupdate: Annotated[AirgapUpdate | None, doc("Workers that get a bundle of images, and which.")] = (
        None
    )


class PlanSpec(Fields):
    """What is updated, and in what order."""

    commands: Annotated[tuple[PlanCommand, ...], doc("The steps, one after the other.", list_type="atomic")]
    id: Annotated[str, doc("The creator's name for this plan.")] = ""
    timestamp: Annotated[str, doc("The creator's time for this plan; not looked at.")] = ""


class TargetStatus(Fields):
    """How far one machine is."""

    name: Annotated[str, doc("Its name.")]
    state: Annotated[SignalState, doc("How far it is.")]
    last_updated_timestamp: Annotated[Time | None, doc("When the state last changed.")] = None
    description: Annotated[str, doc("What went wrong, or what it waits for.")] = ""


class K0sUpdateStatus(Fields):
    """How far the machines of a step are."""

    controllers: Annotated[tuple[TargetStatus, ...], doc("The controllers.", map_keys=("name",))] = ()
    workers: Annotated[tuple[TargetStatus, ...], doc("The workers.", map_keys=("name",))] = ()


class AirgapUpdateStatus(Fields):
    """How far the workers of a step are."""

    workers: Annotated[tuple[TargetStatus, ...], doc("The workers.", map_keys=("name",))] = ()


class PlanCommandStatus(Fields):
    """How far a step is."""

    id: Annotated[Int32, doc("Which step it is, counted from 0.")] = 0
    state: Annotated[PlanState, doc("How far it is.")] = ""
    description: Annotated[str, doc("Why it stopped or waits.")] = ""
    k0supdate: Annotated[K0sUpdateStatus | None, doc("The machines of a k0supdate.")] = None
    airgapupdate: Annotated[AirgapUpdateStatus | None, doc("The workers of an airgapupdate.")] = None


class PlanStatus(Fields):
    """How far the plan is."""

    state: Annotated[PlanState, doc("How far the plan is as a whole.")] = ""
    commands: Annotated[tuple[PlanCommandStatus, ...], doc("The steps, in their order.")] = ()
    observed_generation: Annotated[
        Int64 | None, doc("The generation of the spec that runs; later changes wait for the next run.")
    ] = None
    conditions: Conditions = ()


class Plan(ApiObject, kw_only=True):
    """Updates machines, controllers first. The plan that is carried out is the one named autopilot."""

    spec: Annotated[PlanSpec, doc("What is updated, and in what order.")]
    status: Annotated[PlanStatus | None, doc("How far it is.")] = None


class ControlNodeAddress(Fields):
    """Where a controller can be reached."""

    type: Annotated[str, doc("InternalIP or Hostname.")]
    address: Annotated[str, doc("The address.")]


class ControlNodeStatus(Fields):
    """What a controller says about itself."""

    addresses: Annotated[
        tuple[ControlNodeAddress, ...], doc("Where it can be reached.", list_type="atomic")
    ] = ()
    k0s_version: Annotated[str, doc("The version it runs.")] = field(name="k0sVersion", default="")


class ControlNode(ApiObject, kw_only=True):
    """A controller of the control plane, as a target of plans. \
It makes its own object and nobody removes it."""

    status: Annotated[ControlNodeStatus | None, doc("What it says about itself.")] = None


class PeriodicStrategy(Fields):
    """A window in the week."""

    start_time: Annotated[str, doc('When the window opens, as "HH:MM" in quotes.')]
    length: Annotated[str, doc("How long it stays open, such as 2h or 1h30m.")]
    days: Annotated[
        tuple[Weekday, ...], doc("The days on which it opens; none means every day.", list_type="set")
    ] = ()


class UpgradeStrategy(Fields):
    """When to look for updates and to start them."""

    type: Annotated[Literal["periodic", "cron"], doc("Which of the two below counts.")]
    cron: Annotated[str, doc("Deprecated: a crontab schedule of five or six fields; @hourly if empty.")] = ""
    periodic: Annotated[PeriodicStrategy | None, doc("The window in which updates may start.")] = None


class PlannedK0sUpdate(Fields):
    """Replace the program and restart it; version and downloads come from the channel."""

    forceupdate: Annotated[bool, doc("Update machines that report the version already, too.")] = False
    targets: Annotated[Targets | None, doc("The machines to update; absent means all.")] = None


class PlannedAirgapUpdate(Fields):
    """Bring a bundle of images to workers; version and downloads come from the channel."""

    workers: Annotated[Target | None, doc("The workers that get it; absent means all.")] = None


class PlannedCommand(Fields):
    """One step of the plan to be made. With both commands in it, the bundle comes first."""

    k0supdate: Annotated[PlannedK0sUpdate | None, doc("Replace the program and restart it.")] = None
    airgapupdate: Annotated[PlannedAirgapUpdate | None, doc("Bring a bundle of images to workers.")] = None


class PlannedSpec(Fields):
    """The plan that is made when there is an update."""

    commands: Annotated[
        tuple[PlannedCommand, ...], doc("The steps; none means every machine, controllers first.")
    ] = ()


class UpdateConfigSpec(Fields):
    """Where updates come from and when they may start."""

    upgrade_strategy: Annotated[UpgradeStrategy, doc("When to look for updates and to start them.")]
    channel: Annotated[str, doc("The channel to follow, such as stable or stable/v1.32.")] = "stable"
    update_server: Annotated[str, doc("The server that has the channel.")] = "https://updates.k0sproject.io"
    plan_spec: Annotated[PlannedSpec | None, doc("The plan to make; absent means every machine.")] = None


class UpdateConfigStatus(Fields):
    """What the last look at the channel gave."""

    observed_generation: ObservedGeneration = None
    last_check_time: Annotated[Time | None, doc("When the channel was last checked.")] = None
    available_version: Annotated[str | None, doc("The version that it offered.")] = None
    conditions: Conditions = ()


class UpdateConfig(ApiObject, kw_only=True):
    """Follows a channel and makes a Plan when it has something newer."""

    spec: Annotated[UpdateConfigSpec, doc("Where updates come from and when they may start.")]
    status: Annotated[UpdateConfigStatus | None, doc("What the last look at the channel gave.")] = None
