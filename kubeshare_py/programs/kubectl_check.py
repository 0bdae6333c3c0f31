"""`kubectl kubeshare check`: which scheduler takes the pods of manifests, and what they ask for.

Without a cluster, or with what its API server would make of each pod, and what its scheduler would
do with it now.
"""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
from rich.console import Console
from rich.text import Text

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    EnabledDialect,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from kubeshare_py.domain.printable import listed, printable
from kubeshare_py.edges.cli.https_client import StateError, StateUnreachable
from kubeshare_py.edges.cli.state_client import (
    ApiAccess,
    DryRuns,
    StateClient,
    UnreadableManifest,
    read_manifests,
)
from kubeshare_py.edges.process.plugin_entry_points import configured, known
from kubeshare_py.edges.scheduler.configuration_file import load, naming
from kubeshare_py.manifests.pod_check import KnownSchedulers, check
from kubeshare_py.manifests.workloads import (
    ONE_POD,
    AdmissionAnswer,
    NoTemplate,
    PodTemplate,
    pod_templates,
    pod_to_ask_about,
)
from kubeshare_py.terminal.documents import complain, written
from kubeshare_py.terminal.pod_table import checked_lines
from kubeshare_py.terminal.why_report import prospect_lines
from kubeshare_py.views.view import CheckedPod, CheckedProspect, ProspectView

# `kubectl kubeshare check --now`: what would become of each pod if it were created now.


_NO_PRIORITY = (
    "its PriorityClass is not known here, so it is asked about with priority 0: the API server did "
    "not say what it would make of it"
)


@dataclass(slots=True)
class NowQuestions:
    """Asks the scheduler about pods, one after the other. `known` are the schedulers' names.

    `namespace` is that of pods that name none. After a failure that is not about one pod, `problem`
    says why the scheduler cannot be asked, and it is asked no more. `is_refused`: some pod could
    not be asked about.
    """

    client: StateClient
    known: KnownSchedulers
    namespace: str
    problem: str = ""
    is_refused: bool = False

    def about(
        self, checked: CheckedPod, template: PodTemplate, admission: AdmissionAnswer
    ) -> CheckedPod:
        """The checked pod with its prospect. Never raises."""
        if checked.refused:
            return checked
        return msgspec.structs.replace(checked, now=self._now(checked, template, admission))

    def _now(
        self, checked: CheckedPod, template: PodTemplate, admission: AdmissionAnswer
    ) -> CheckedProspect:
        if self.problem:
            return CheckedProspect(None, "the scheduler is not asked")
        if checked.scheduler not in self.known.names:
            return CheckedProspect(None, f"{checked.scheduler} decides, and is not asked")
        pod = pod_to_ask_about(template, admission, checked.scheduler)
        if pod is None:
            return CheckedProspect(None, "it has no spec")
        try:
            found = self.client.prospect(template.namespace or self.namespace, pod)
        except StateUnreachable as error:
            self.problem = str(error)
            return CheckedProspect(None, "the scheduler is not asked")
        except StateError as error:
            self.is_refused = True
            return CheckedProspect(None, str(error))
        notes = [ONE_POD] if template.path else []
        if admission.pod is None and pod["spec"].get("priorityClassName"):
            notes.append(_NO_PRIORITY)
        return _prospect(found, notes)


def _prospect(found: ProspectView, notes: list[str]) -> CheckedProspect:
    pod = found.why.pod
    return CheckedProspect(
        found.fits,
        found.why.message,
        pod.node,
        pod.cards,
        (*notes, *found.notes),
        found.why,
    )


OK, REFUSED, UNREADABLE, UNASKED, WAITS = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    """Files with manifests, "-" for standard input, and the form of the answer.

    `config` is the scheduler's configuration file; "" stands for default values. The API server of
    `access` is asked too, unless `offline` or if there is no kubeconfig. `now`: its scheduler is
    asked what would become of each pod if it were created now.
    """

    files: tuple[str, ...]
    output: str = "table"
    config: str = ""
    offline: bool = False
    now: bool = False
    access: ApiAccess = field(default_factory=ApiAccess)


def run(question: CheckQuestion) -> int:
    """Answer on stdout, failures on stderr; the exit code."""
    return answer(question, Console(), Console(stderr=True))


def answer(question: CheckQuestion, out: Console, err: Console) -> int:
    """0 if all pods are fine, 1 if one is refused, 2 for a file that cannot be read.

    With `now` also 3 if the scheduler could not be asked, and 4 if a pod would wait.
    """
    try:
        with naming(question.config or None):
            configured_here = _in_file(question.config)
            found = list(templates_of(manifests(question.files)))
        dry_runs = _dry_runs(question)
    except (ConfigurationError, UnreadableManifest, StateError) as error:
        complain(err, str(error))
        return UNREADABLE
    templates = [one for one in found if isinstance(one, PodTemplate)]
    client = StateClient(question.access)
    with dry_runs, contextlib.closing(client):
        admissions = [dry_runs.admission(one) for one in templates]
        is_there = bool(question.access.scheduler) or dry_runs.answers
        ask = is_there and bool(templates)
        known = configured_here or _of_cluster(client, dry_runs.namespace, err, ask=ask)
        pods = [
            check(one, known, dry_runs.namespace, admission)
            for one, admission in zip(templates, admissions, strict=True)
        ]
        asked = NowQuestions(client, known, dry_runs.namespace)
        if question.now:
            asked.problem = "" if is_there else _no_server(dry_runs)
            given = zip(pods, templates, admissions, strict=True)
            pods = [asked.about(*one) for one in given]
    _show(question, pods, [one for one in found if isinstance(one, NoTemplate)], out, err)
    if dry_runs.problem:
        complain(err, f"the API server is not asked: {dry_runs.problem}", "Warning")
    if not pods:
        err.print("No pods found, and no templates of pods.")
    if question.now and len(pods) > 1:
        err.print("Each pod is asked about alone, as if the others were not created.")
    if asked.problem:
        complain(err, f"the scheduler cannot be asked: {asked.problem}")
    return _code(pods, asked)


def _code(pods: list[CheckedPod], asked: NowQuestions) -> int:
    if any(one.refused for one in pods):
        return REFUSED
    if asked.problem or asked.is_refused:
        return UNASKED
    waits = (one.now is not msgspec.UNSET and one.now.fits is False for one in pods)
    return WAITS if any(waits) else OK


def _no_server(dry_runs: DryRuns) -> str:
    return dry_runs.problem or "there is no kubeconfig: name one with --kubeconfig"


def _show(
    question: CheckQuestion,
    pods: list[CheckedPod],
    without: list[NoTemplate],
    out: Console,
    err: Console,
) -> None:
    skipped = [one.owner for one in without if not one.is_known]
    podless = [one.owner for one in without if one.is_known]
    if question.output in ("json", "yaml"):
        out.file.write(written({"pods": pods, "skipped": skipped}, question.output))
    else:
        width = out.width if out.is_terminal else None
        for line in prospect_lines(pods, width) if question.now else checked_lines(pods):
            out.print(line, soft_wrap=True)
    names = listed(skipped)
    if skipped:
        text = f"Not checked, because no template of pods was found in it: {printable(names)}"
        err.print(Text(text, style="yellow"), soft_wrap=True)
    if podless:
        err.print(Text(f"No pods come of: {printable(listed(podless))}"), soft_wrap=True)


def _dry_runs(question: CheckQuestion) -> DryRuns:
    """Raises StateError for a kubeconfig that was named and cannot be used."""
    return DryRuns(question.access, is_offline=question.offline)


def _in_file(path: str) -> KnownSchedulers | None:
    """The schedulers of a configuration file, None for "". Raises ConfigurationError."""
    return known_schedulers(load(path), are_configured=True) if path else None


def _of_cluster(client: StateClient, namespace: str, err: Console, *, ask: bool) -> KnownSchedulers:
    """The cluster's scheduler; one with default values if it does not say, which is said."""
    if not ask:
        return known_schedulers(SchedulerConfiguration(), are_configured=False)
    try:
        found, here = client.schedulers(namespace), known()
        profiles = (
            ProfileConfiguration(
                scheduler_name=one.name,
                dialects=tuple(EnabledDialect(name) for name in one.dialects if name in here),
            )
            for one in found
        )
        return known_schedulers(
            SchedulerConfiguration(profiles=tuple(profiles)), are_configured=True
        )
    except (StateError, ConfigurationError) as error:
        text = f"the scheduler's profiles are not known, so default ones count: {error}"
        complain(err, text, "Warning")
        return known_schedulers(SchedulerConfiguration(), are_configured=False)


def known_schedulers(settings: SchedulerConfiguration, *, are_configured: bool) -> KnownSchedulers:
    """The schedulers of a configuration. Raises ConfigurationError."""
    every = tuple(EnabledDialect(name) for name in sorted(known()))
    installed = SchedulerConfiguration(profiles=(ProfileConfiguration(dialects=every),))
    return KnownSchedulers(
        names=tuple(one.scheduler_name for one in settings.profiles),
        dialects=configured(settings),
        installed=configured(installed),
        are_configured=are_configured,
    )


def manifests(files: Iterable[str]) -> Iterator[tuple[str, object]]:
    """The documents of files, each behind its place in words. Raises UnreadableManifest."""
    for path in files:
        for number, document in enumerate(read_manifests(path), 1):
            yield f"{path}: document {number}", document


def templates_of(documents: Iterable[tuple[str, object]]) -> Iterator[PodTemplate | NoTemplate]:
    """What pods are made of these documents. Raises UnreadableManifest."""
    for place, document in documents:
        try:
            yield from pod_templates(document)
        except ValueError as error:
            raise UnreadableManifest(f"{place}: {error}") from error
