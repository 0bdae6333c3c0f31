"""`kubectl kubeshare what-if`, `capacity` and `when`: what would happen, by the scheduler itself.

The scheduler's own machine runs here, in this process, with what the cluster's scheduler knows:
from a snapshot that it gives to users who may read one, or from an event log. So the cluster and
its scheduler are asked once, and nothing in them changes.
"""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from kubeshare_py.configuration.scheduler import ConfigurationError, SchedulerConfiguration
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.events import Event
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.printable import listed
from kubeshare_py.edges.cli.https_client import StateError
from kubeshare_py.edges.cli.state_client import (
    ApiAccess,
    DryRuns,
    StateClient,
    UnreadableManifest,
    known_ends,
)
from kubeshare_py.edges.event_log.log_folder import LoggedSession, ReplaySettings, UnusableLog
from kubeshare_py.edges.process.own_names import own_version
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler.configuration_file import load, naming
from kubeshare_py.event_log.blocks import DamagedLog
from kubeshare_py.event_log.records import BadRecord, LogClock, LoggedEvent, LogHeader
from kubeshare_py.event_log.replay import Replay
from kubeshare_py.event_log.snapshot import read_snapshot
from kubeshare_py.framework.profile_making import PluginFactory, profiles
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.manifests.client_pods import PodTooLarge
from kubeshare_py.manifests.created_objects import (
    UnreadableObject,
    created_objects,
    names_of_set,
    new_pods,
    pod_names,
)
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.pod_check import KnownSchedulers, check
from kubeshare_py.manifests.workloads import (
    NoTemplate,
    PodTemplate,
    pod_to_ask_about,
)
from kubeshare_py.programs.kubectl_check import known_schedulers, manifests, templates_of
from kubeshare_py.scheduling.machine import Machine, configured_machine, known_events
from kubeshare_py.simulation.cluster import SimulatedCluster
from kubeshare_py.simulation.foresight import (
    Deadline,
    ImpossibleSupposition,
    KnownEnds,
    NewPod,
    Supposition,
    capacity,
    what_if,
    when,
)
from kubeshare_py.terminal.documents import complain, written
from kubeshare_py.terminal.foresight_report import capacity_lines, what_if_lines, when_lines
from kubeshare_py.views.foresight import (
    CapacityView,
    ForeseenOutcome,
    ForeseenPod,
    WhatIfView,
    WhenView,
)

OK, REFUSED, UNUSABLE, UNASKED, WAITS = 0, 1, 2, 3, 4
#: The most pods that are made of the manifests.
MOST_NEW = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ForesightQuestion:
    """`command` is what-if, capacity or when; `pod` is the one that `when` is about.

    `files` are manifests. `without` are pods as NAME or NAMESPACE/NAME, `cordon` nodes; `add_nodes`
    nodes `like` one would be added, and the `profile` file's profiles would be in effect. What the
    scheduler knows comes from the event log in the folder `log`, as of `until`; without one it is
    what it knows now. With `offline`, or from a log, the API server is not asked what it would make
    of the pods.
    """

    command: str
    files: tuple[str, ...] = ()
    pod: str = ""
    output: str = "table"
    without: tuple[str, ...] = ()
    cordon: tuple[str, ...] = ()
    add_nodes: int = 0
    like: str = ""
    profile: str = ""
    log: str = ""
    until: str = ""
    offline: bool = False
    access: ApiAccess = field(default_factory=ApiAccess)


def run(question: ForesightQuestion, in_tree: Mapping[str, PluginFactory]) -> int:
    """Answer on stdout, failures on stderr; the exit code."""
    return answer(question, in_tree, Console(), Console(stderr=True))


def answer(
    question: ForesightQuestion, in_tree: Mapping[str, PluginFactory], out: Console, err: Console
) -> int:
    """0 if all new pods are placed, 4 if one would wait, 1 if one is refused or not found.

    2 for files that cannot be used, 3 if the scheduler could not be asked.
    """
    ask = {"what-if": _what_if, "capacity": _capacity, "when": _when}[question.command]
    try:
        with contextlib.closing(StateClient(question.access)) as client:
            documents = list(manifests(question.files))
            known = _known(question, client, with_entry_points(in_tree))
            return ask(_Asked(question, client, known, documents), out)
    except (UnreadableManifest, UnusableLog, ConfigurationError) as error:
        complain(err, str(error))
        return UNUSABLE
    except (ImpossibleSupposition, DamagedLog, BadRecord) as error:
        complain(err, str(error))
        return REFUSED
    except StateError as error:
        complain(err, str(error))
        return UNASKED


# What the scheduler knows.


@dataclass(slots=True, kw_only=True)
class _Known:
    """A machine that knows it at `now` (s), which was `wall` (s since 1970); what to know of it."""

    machine: Machine
    now: float
    wall: float
    configuration: SchedulerConfiguration
    factories: Mapping[str, PluginFactory]
    notes: list[str]

    def time(self, in_s: float) -> str:
        """The time in so many seconds, as RFC 3339 to the second."""
        return f"{LogClock(0.0, self.wall).text(in_s).partition('.')[0]}Z"


def _known(
    question: ForesightQuestion, client: StateClient, factories: Mapping[str, PluginFactory]
) -> _Known:
    """Raises StateError, UnusableLog, DamagedLog, BadRecord, ConfigurationError."""
    if question.log:
        return _logged(question, factories)
    header, events = read_snapshot([client.snapshot()])
    replay = _replayed(header, events, factories)
    is_same = header.version == own_version()
    said = f"the scheduler is of version {header.version}, and this of {own_version()}"
    return _Known(
        machine=replay.machine,
        now=header.now,
        wall=header.wall,
        configuration=replay.configuration,
        factories=factories,
        notes=[] if is_same else [said],
    )


def _logged(question: ForesightQuestion, factories: Mapping[str, PluginFactory]) -> _Known:
    try:
        session = LoggedSession(ReplaySettings(folder=Path(question.log), until=question.until))
    except ValueError as error:
        raise UnusableLog(f"--until: {error}") from error
    first, last = session.header, [session.header.now]

    def events() -> Iterator[LoggedEvent]:
        for one in session.events():
            last[0] = one.now
            yield one

    replay, (now,) = _replayed(first, events(), factories), last
    # A machine that begins with this: answers that were under way will not come here.
    machine = configured_machine(replay.configuration, factories, first.name)
    for event in known_events(replay.machine, now):
        machine.handle(event, now)
    notes = [f"this is as of {session.report.ended}, from an event log", session.report.damage]
    return _Known(
        machine=machine,
        now=now,
        wall=first.wall + now - first.now,
        configuration=replay.configuration,
        factories=factories,
        notes=[one for one in notes if one],
    )


def _replayed(
    header: LogHeader, events: Iterable[LoggedEvent], factories: Mapping[str, PluginFactory]
) -> Replay:
    replay = Replay(header, factories)
    for logged in events:
        replay.machine.handle(replay.made(logged), logged.now)
    return replay


# What is asked about: pods and other objects of manifests.


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question, the way to the cluster, what the scheduler knows, and the manifests."""

    question: ForesightQuestion
    client: StateClient
    known: _Known
    documents: Sequence[tuple[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Template:
    """The pods of one template in a namespace, or why there will be none.

    `pod` is one of them in JSON, as the API server would make it if it said.
    """

    template: PodTemplate
    namespace: str
    pod: Mapping[str, Any] | None = None
    outcome: ForeseenOutcome | None = None
    message: str = ""


def _templates(
    asked: _Asked, schedulers: KnownSchedulers
) -> tuple[list[_Template], str, Sequence[str]]:
    """The templates of the manifests, the namespace of what names none, and notes.

    Raises UnreadableManifest, and StateError for a kubeconfig that cannot be used.
    """
    question, found, skipped = asked.question, [], []
    is_offline = question.offline or bool(question.log)
    with DryRuns(question.access, is_offline=is_offline) as dry_runs:
        for one in templates_of(asked.documents):
            if isinstance(one, NoTemplate):
                if not one.is_known and not one.owner.startswith("podgroup/"):
                    skipped.append(one.owner)
                continue
            found.append(_template(one, dry_runs, schedulers))
        notes = [f"the API server is not asked: {dry_runs.problem}"] if dry_runs.problem else []
    if skipped:
        notes.append(f"no template of pods was found in {listed(skipped)}")
    return found, dry_runs.namespace, notes


def _template(template: PodTemplate, dry_runs: DryRuns, schedulers: KnownSchedulers) -> _Template:
    admission = dry_runs.admission(template)
    checked = check(template, schedulers, dry_runs.namespace, admission)
    namespace = template.namespace or dry_runs.namespace
    made = partial(_Template, template=template, namespace=namespace)
    if checked.refused:
        return made(outcome=ForeseenOutcome.REFUSED, message="; ".join(checked.refused))
    if checked.scheduler not in schedulers.names:
        said = f"{checked.scheduler} decides, and is not asked"
        return made(outcome=ForeseenOutcome.ELSEWHERE, message=said)
    return made(pod=pod_to_ask_about(template, admission, checked.scheduler))


def _made(
    one: _Template, names: Iterable[str], known: _Known, dialects: Dialects
) -> Iterator[NewPod]:
    """Pods of a template. Raises ImpossibleSupposition."""
    if one.pod is None:
        return
    template, created = one.template, known.time(0.0)
    try:
        for pod in new_pods(template, one.pod, names, one.namespace, created, dialects):
            yield NewPod(pod, template.owner)
    except (*UNDECODABLE, PodTooLarge) as error:
        raise ImpossibleSupposition(f"{template.owner}: {error}") from error


def _objects(documents: Iterable[tuple[str, object]], namespace: str) -> Iterator[Event]:
    """What else is created of the documents. Raises UnreadableManifest."""
    for place, document in documents:
        try:
            yield from created_objects(document, namespace)
        except UnreadableObject as error:
            raise UnreadableManifest(f"{place}: {error}") from error


# The questions.


def _what_if(asked: _Asked, out: Console) -> int:
    question, known = asked.question, asked.known
    replaced, used = None, known.configuration
    if question.profile:
        replaced, used = _other_profiles(question.profile, known)
    schedulers = known_schedulers(used, are_configured=True)
    templates, namespace, notes = _templates(asked, schedulers)
    _check_number(templates)
    planned = list(_planned(templates, known, schedulers.dialects))
    new = tuple(one for one in planned if isinstance(one, NewPod))
    given = Supposition(
        profiles=replaced,
        added=question.add_nodes,
        like=NodeName(question.like) if question.like else None,
        cordoned=tuple(map(NodeName, question.cordon)),
        without=tuple(_key(one, namespace) for one in question.without),
        objects=tuple(_objects(asked.documents, namespace)),
        pods=new,
    )
    view = what_if(SimulatedCluster(known.machine, known.now), given, (*known.notes, *notes))
    pods = iter(view.pods)
    view = msgspec.structs.replace(
        view, pods=tuple(next(pods) if isinstance(one, NewPod) else one for one in planned)
    )
    _print(question, view, what_if_lines(view, _width(out)), out)
    outcomes = {one.outcome for one in view.pods}
    if ForeseenOutcome.REFUSED in outcomes:
        return REFUSED
    return WAITS if ForeseenOutcome.WAITS in outcomes else OK


def _planned(
    templates: Iterable[_Template], known: _Known, dialects: Dialects
) -> Iterator[NewPod | ForeseenPod]:
    """The new pods in order, and what is said of those that will not be there."""
    taken = known.machine.pod_keys
    for one in templates:
        owner, namespace = one.template.owner, one.namespace
        name = owner.partition("/")[2]
        if one.outcome:
            yield ForeseenPod(namespace, name, owner, one.outcome, message=one.message)
            continue
        names = pod_names(one.template, namespace, taken)
        if not one.template.path and PodKey(namespace, name) in taken:
            said = f'pods "{name}" already exists'
            yield ForeseenPod(namespace, name, owner, ForeseenOutcome.REFUSED, message=said)
            continue
        taken.update(PodKey(namespace, name) for name in names)
        yield from _made(one, names, known, dialects)


def _other_profiles(path: str, known: _Known) -> tuple[ProfilesReplaced, SchedulerConfiguration]:
    """Raises ConfigurationError."""
    other = load(path, known.notes.append, known.factories)
    used = msgspec.structs.replace(known.configuration, profiles=other.profiles)
    with naming(path):
        return ProfilesReplaced(profiles(used, known.factories), other.profiles), used


def _key(text: str, namespace: str) -> PodKey:
    own, slash, name = text.partition("/")
    return PodKey(own, name) if slash else PodKey(namespace, text)


def _capacity(asked: _Asked, out: Console) -> int:
    question, known = asked.question, asked.known
    schedulers = known_schedulers(known.configuration, are_configured=True)
    templates, namespace, notes = _templates(asked, schedulers)
    for one in templates:
        if one.outcome:
            raise ImpossibleSupposition(f"{one.template.owner}: {one.message}")
    is_single = _is_single(templates, known, schedulers.dialects)
    if not is_single:
        _check_number(templates)

    def make(number: int) -> list[NewPod]:
        pods: list[NewPod] = []
        for one in templates:
            copies = 1 if is_single else one.template.copies
            names = names_of_set(one.template, number, copies)
            pods += _made(one, names, known, schedulers.dialects)
        return pods

    if not make(0):
        raise ImpossibleSupposition("no pods are made of these manifests")
    cluster = SimulatedCluster(known.machine, known.now)
    notes = (*known.notes, *notes)
    view = capacity(cluster, make, tuple(_objects(asked.documents, namespace)), notes)
    _print(question, view, capacity_lines(view, _width(out)), out)
    return OK if view.more else WAITS


def _check_number(templates: Iterable[_Template]) -> None:
    """Raises ImpossibleSupposition for too many pods, before any is made."""
    number = sum(one.template.copies for one in templates if not one.outcome)
    if number > MOST_NEW:
        raise ImpossibleSupposition(f"these are {number} pods, and {MOST_NEW} are the most")


def _is_single(templates: Sequence[_Template], known: _Known, dialects: Dialects) -> bool:
    """Whether the pods are all alike and independent, so that single ones are counted."""
    if len(templates) != 1:
        return False
    pods = _made(templates[0], names_of_set(templates[0].template, 0, 1), known, dialects)
    return all(one.pod.group is None and one.pod.group_reference is None for one in pods)


def _when(asked: _Asked, out: Console) -> int:
    question, known = asked.question, asked.known
    api = asked.client.api
    latest, problem = known_ends(api)
    deadlines = {uid: Deadline(in_s=end.at - known.wall, by=end.by) for uid, end in latest.items()}
    ends = KnownEnds(at=known.time, deadlines=deadlines)
    notes = [*known.notes, *([problem] if problem else [])]
    cluster = SimulatedCluster(known.machine, known.now)
    view = when(cluster, _key(question.pod, api.namespace()), ends, notes)
    _print(question, view, when_lines(view, _width(out)), out)
    return WAITS if view.state == "unknown" else OK


def _width(out: Console) -> int | None:
    return out.width if out.is_terminal else None


def _print(
    question: ForesightQuestion,
    view: WhatIfView | CapacityView | WhenView,
    lines: Iterable[Text],
    out: Console,
) -> None:
    if question.output in ("json", "yaml"):
        out.file.write(written(view, question.output))
        return
    for line in lines:
        out.print(line, soft_wrap=True)
