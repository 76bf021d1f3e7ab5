"""``autopilot.k0sproject.io/v1beta2``: plans, the controllers they update, and update configs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pilothouse.api.k0s.rollout import Rollout, SelectorDiscovery, Window
from pilothouse.api.status_fields import Conditions, ObservedGeneration
from pilothouse.meta.object_meta import ApiObject
from pilothouse.meta.schema.struct_schemas import Fields, Int32, Int64, IntOrString, Time, doc, field

GROUP = "autopilot.k0sproject.io"
VERSION = "v1beta2"
PACKAGE = "io.k0sproject.autopilot.v1beta2"
RUNNING_VERSION = "autopilot.k0sproject.io/version"
"""The annotation of a Node with the version of the program that its update agent manages."""
RUNNING_PLAN = "autopilot"
"""The name of the Plan that is carried out."""

PlanState = Literal[
    "", "SchedulableWait", "Schedulable", "Completed", "IncompleteTargets", "InconsistentTargets",
    "MissingSignalNode", "Restricted", "Warning", "ApplyFailed",
]  # fmt: skip
SignalState = Literal[
    "SignalPending", "SignalSent", "SignalCompleted", "SignalMissingNode", "SignalMissingPlatform",
    "SignalApplyFailed", "SignalRolledBack", "MissingPlatform", "MissingSignalNode",
]  # fmt: skip


class PlatformResource(Fields):
    """What a machine of one platform downloads."""

    url: Annotated[str, doc("Where it is downloaded from, by http or https.")]
    sha256: Annotated[str | None, doc("The hash it must have: 64 hexadecimal digits.")] = None


class StaticDiscovery(Fields):
    """Targets by name."""

    nodes: Annotated[tuple[str, ...], doc("The names of the machines.")] = ()


class Discovery(Fields):
    """How targets are found, once, when the plan starts. Names win over selectors; neither finds none."""

    static: Annotated[StaticDiscovery | None, doc("By name.")] = None
    selector: Annotated[SelectorDiscovery | None, doc("By label and field.")] = None


class TargetLimits(Fields):
    """How much happens at once."""

    concurrent: Annotated[
        IntOrString,
        doc("How many workers, or which percentage, at a time; controllers always go one by one."),
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
    workers: Annotated[Target | None, doc("The workers that get it; absent means none.")] = None


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
    rollout: Annotated[
        Rollout | None, doc("When it may go on, when it stops, and what it does about a failure.")
    ] = None


class TargetStatus(Fields):
    """How far one machine is."""

    name: Annotated[str, doc("Its name.")]
    state: Annotated[SignalState, doc("How far it is.")]
    last_updated_timestamp: Annotated[Time | None, doc("When state or step last changed.")] = None
    step: Annotated[str, doc("The last step that it reported, such as Downloading.")] = ""
    description: Annotated[str, doc("What went wrong, or what it waits for.")] = ""
    started_time: Annotated[Time | None, doc("When it was signalled.")] = None
    completed_time: Annotated[Time | None, doc("When it was done or had failed.")] = None
    previous_version: Annotated[str, doc("The version that it ran when it was signalled.")] = ""
    wave: Annotated[
        Int32, doc("Its wave, counted from 1, by its labels when the run started; absent if it has none.")
    ] = 0


TargetStatuses = Annotated[tuple[TargetStatus, ...], doc("The machines, by name.", list_type="atomic")]


class K0sUpdateStatus(Fields):
    """How far the machines of a step are."""

    controllers: TargetStatuses = ()
    workers: TargetStatuses = ()


class AirgapUpdateStatus(Fields):
    """How far the workers of a step are."""

    workers: TargetStatuses = ()


class PlanCommandStatus(Fields):
    """How far a step is."""

    id: Annotated[Int32, doc("Which step it is, counted from 0.")] = 0
    state: Annotated[PlanState, doc("How far it is.")] = ""
    description: Annotated[str, doc("Why it stopped or waits.")] = ""
    k0supdate: Annotated[K0sUpdateStatus | None, doc("The machines of a k0supdate.")] = None
    airgapupdate: Annotated[AirgapUpdateStatus | None, doc("The workers of an airgapupdate.")] = None


class PlanQuestions(Fields):
    """What the plan has to know from outside the API. The observer answers in ``answers``."""

    number: Annotated[Int64, doc("Counts the questions; answers carry the same number.")]
    readiness: Annotated[bool, doc("Whether every ControlNode is ready.")] = False
    removed_apis: Annotated[
        tuple[str, ...], doc("Which objects become unreadable in these versions.", list_type="atomic")
    ] = ()
    gates: Annotated[bool, doc("Which gates of the plan are open.")] = False


class ReadinessAnswer(Fields):
    """Whether a ControlNode answered that it is ready."""

    name: Annotated[str, doc("The ControlNode.")]
    ready: Annotated[bool, doc("Whether it is ready.", default=False)]
    message: Annotated[str, doc("The HTTP status, or why there was no answer.")] = ""


class RemovedApisAnswer(Fields):
    """Objects that would become unreadable."""

    version: Annotated[str, doc("The version that was asked about.")]
    message: Annotated[str, doc("What would be lost, or why that is not known; empty if nothing.")] = ""


class GateAnswer(Fields):
    """Whether a gate is open."""

    name: Annotated[str, doc("The gate.")]
    open: Annotated[bool, doc("Whether it is open.", default=False)]
    message: Annotated[str, doc("The object that keeps it shut, and why.")] = ""


class PlanAnswers(Fields):
    """What the observer found."""

    number: Annotated[Int64, doc("The question that this answers.")]
    time: Annotated[Time | None, doc("When.")] = None
    readiness: Annotated[tuple[ReadinessAnswer, ...], doc("By ControlNode.", list_type="atomic")] = ()
    removed_apis: Annotated[tuple[RemovedApisAnswer, ...], doc("By version.", list_type="atomic")] = ()
    gates: Annotated[tuple[GateAnswer, ...], doc("By gate.", list_type="atomic")] = ()


class PlanRun(Fields):
    """A run that has ended."""

    id: Annotated[str, doc("The creator's name for the plan.")] = ""
    generation: Annotated[Int64, doc("The generation that ran.")] = 0
    versions: Annotated[tuple[str, ...], doc("The versions of its steps.", list_type="atomic")] = ()
    state: Annotated[PlanState, doc("How it ended.")] = ""
    description: Annotated[str, doc("Why it ended so.")] = ""
    progress: Annotated[str, doc("How many machines were done, of how many.")] = ""
    started_time: Annotated[Time | None, doc("When it started.")] = None
    completed_time: Annotated[Time | None, doc("When it ended.")] = None


class PlanStatus(Fields):
    """How far the plan is."""

    state: Annotated[PlanState, doc("How far the plan is as a whole.")] = ""
    commands: Annotated[
        tuple[PlanCommandStatus, ...], doc("The steps, in their order.", list_type="atomic")
    ] = ()
    observed_generation: Annotated[
        Int64 | None, doc("The generation of the spec that was last looked at.")
    ] = None
    run_generation: Annotated[
        Int64 | None, doc("The generation of the spec that runs; later changes wait for the next run.")
    ] = None
    spec: Annotated[
        PlanSpec | None, doc("The spec that runs, as it was when the run started. Machines follow this one.")
    ] = None
    progress: Annotated[str, doc("How many machines are done, of how many: 3/7.")] = ""
    started_time: Annotated[Time | None, doc("When the run started.")] = None
    completed_time: Annotated[Time | None, doc("When the run ended.")] = None
    questions: Annotated[PlanQuestions | None, doc("What has to be found out outside the API.")] = None
    answers: Annotated[PlanAnswers | None, doc("What was found out.")] = None
    rolling_back: Annotated[bool, doc("The updated workers of the wave return to their earlier version.")] = (
        False
    )
    history: Annotated[
        tuple[PlanRun, ...], doc("Runs that have ended, the last first; ten are kept.", list_type="atomic")
    ] = ()
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
    api_port: Annotated[Int32 | None, doc("The port of its API server; 6443 if absent.")] = None
    conditions: Conditions = ()


class ControlNode(ApiObject, kw_only=True):
    """A controller of the control plane, as a target of plans. \
It creates its own object, which is never removed automatically."""

    status: Annotated[ControlNodeStatus | None, doc("What it says about itself.")] = None


class UpgradeStrategy(Fields):
    """When to look for updates and to start them."""

    type: Annotated[Literal["periodic", "cron"], doc("Which of the two below counts.")]
    cron: Annotated[
        Any,
        doc(
            "Deprecated: a crontab schedule of five or six fields, in UTC; @hourly if empty. "
            "An object is read as a window, as in periodic."
        ),
    ] = ""
    periodic: Annotated[Window | None, doc("The window in which updates may start.")] = None


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
    rollout: Annotated[Rollout | None, doc("The rollout of the plan; its windows get the periodic one.")] = (
        None
    )


class UpdateConfigSpec(Fields):
    """Where updates come from and when they may start."""

    upgrade_strategy: Annotated[UpgradeStrategy, doc("When to look for updates and to start them.")]
    channel: Annotated[str, doc("The channel to follow, such as stable or stable/v1.32.")] = "stable"
    update_server: Annotated[str, doc("The server that has the channel.")] = "https://updates.k0sproject.io"
    plan_spec: Annotated[PlannedSpec | None, doc("The plan to make; absent means every machine.")] = None
    trusted_root: Annotated[
        str,
        doc("The root metadata of a TUF repository, as JSON. The channel is then read as such a repository."),
    ] = ""


class OfferedDownload(Fields):
    """What a channel offers for one platform."""

    platform: Annotated[str, doc("Operating system and architecture: linux-amd64.")]
    k0s: Annotated[PlatformResource | None, doc("The program.")] = None
    airgap: Annotated[PlatformResource | None, doc("The bundle of images.")] = None


class ChannelAnswer(Fields):
    """What a check of the channel gave."""

    number: Annotated[Int64, doc("The check that this answers.")]
    time: Annotated[Time | None, doc("When.")] = None
    version: Annotated[str, doc("The version that was offered; empty if none.")] = ""
    downloads: Annotated[tuple[OfferedDownload, ...], doc("By platform.", list_type="atomic")] = ()
    message: Annotated[str, doc("Why there is no offer; empty if there is one.")] = ""


class UpdateConfigStatus(Fields):
    """What the last look at the channel gave."""

    observed_generation: ObservedGeneration = None
    last_check_time: Annotated[Time | None, doc("When the channel was last checked.")] = None
    available_version: Annotated[str | None, doc("The version that it offered.")] = None
    next_window: Annotated[Time | None, doc("When updates may start next; absent while they may.")] = None
    check: Annotated[Int64, doc("Counts the checks that were asked for.")] = 0
    answer: Annotated[ChannelAnswer | None, doc("What the last check gave.")] = None
    conditions: Conditions = ()


class UpdateConfig(ApiObject, kw_only=True):
    """Follows a channel and makes a Plan when it has something newer."""

    spec: Annotated[UpdateConfigSpec, doc("Where updates come from and when they may start.")]
    status: Annotated[UpdateConfigStatus | None, doc("What the last look at the channel gave.")] = None
