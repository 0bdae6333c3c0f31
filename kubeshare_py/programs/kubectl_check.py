"""`kubectl kubeshare check`: which scheduler takes the pods of manifests, and what they ask for.

Without a cluster, or with what its API server would make of each pod.
"""

from collections.abc import Iterator
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
from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.edges.cli.dry_run import DryRuns
from kubeshare_py.edges.cli.manifest_files import UnreadableManifest, read_manifests
from kubeshare_py.edges.cli.state_errors import StateError
from kubeshare_py.edges.process.configured_dialects import configured, known
from kubeshare_py.edges.scheduler.configuration_file import load, naming
from kubeshare_py.manifests.pod_check import KnownSchedulers, check
from kubeshare_py.manifests.pod_templates import NoTemplate, PodTemplate, pod_templates
from kubeshare_py.terminal.checked_pods import checked_lines
from kubeshare_py.terminal.documents import as_json, as_yaml

OK, REFUSED, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    """Files with manifests, "-" for standard input, and the form of the answer.

    `config` is the scheduler's configuration file; "" stands for default values. The API server of
    `access` is asked too, unless `offline` or if there is no kubeconfig.
    """

    files: tuple[str, ...]
    output: str = "table"
    config: str = ""
    offline: bool = False
    access: ApiAccess = field(default_factory=ApiAccess)


def run(question: CheckQuestion) -> int:
    """Answer on stdout, failures on stderr; the exit code."""
    return answer(question, Console(), Console(stderr=True))


def answer(question: CheckQuestion, out: Console, err: Console) -> int:
    """0 if all pods are fine, 1 if one is refused, 2 for a file that cannot be read."""
    try:
        with naming(question.config or None):
            schedulers = _known_schedulers(question.config)
            found = list(_found(question.files))
        dry_runs = _dry_runs(question)
    except (ConfigurationError, UnreadableManifest, StateError) as error:
        err.print(Text(f"Error: {printable(str(error))}", style="red"), soft_wrap=True)
        return UNREADABLE
    templates = [one for one in found if isinstance(one, PodTemplate)]
    with dry_runs:
        pods = [
            check(one, schedulers, dry_runs.namespace, dry_runs.admission(one)) for one in templates
        ]
    without = [one for one in found if isinstance(one, NoTemplate)]
    skipped = [one.owner for one in without if not one.is_known]
    podless = [one.owner for one in without if one.is_known]
    if question.output in ("json", "yaml"):
        document = {"pods": msgspec.to_builtins(pods), "skipped": skipped}
        write = as_json if question.output == "json" else as_yaml
        out.file.write(write(document) + "\n")
    else:
        for line in checked_lines(pods):
            out.print(line, soft_wrap=True)
    _say_about(err, dry_runs.problem, skipped, podless, has_pods=bool(pods))
    return REFUSED if any(one.refused for one in pods) else OK


def _say_about(
    err: Console, problem: str, skipped: list[str], podless: list[str], *, has_pods: bool
) -> None:
    if problem:
        text = f"Warning: the API server is not asked: {printable(problem)}"
        err.print(Text(text, style="yellow"), soft_wrap=True)
    if skipped:
        names = printable(listed(skipped))
        text = f"Not checked, because no template of pods was found in it: {names}"
        err.print(Text(text, style="yellow"), soft_wrap=True)
    if podless:
        err.print(Text(f"No pods come of: {printable(listed(podless))}"), soft_wrap=True)
    if not has_pods:
        err.print("No pods found, and no templates of pods.")


def _dry_runs(question: CheckQuestion) -> DryRuns:
    """Raises StateError for a kubeconfig that was named and cannot be used."""
    return DryRuns(question.access, is_offline=question.offline)


def _known_schedulers(path: str) -> KnownSchedulers:
    """Raises ConfigurationError."""
    every = tuple(EnabledDialect(name) for name in sorted(known()))
    installed = SchedulerConfiguration(profiles=(ProfileConfiguration(dialects=every),))
    settings = load(path) if path else SchedulerConfiguration()
    return KnownSchedulers(
        names=tuple(one.scheduler_name for one in settings.profiles),
        dialects=configured(settings),
        installed=configured(installed),
        are_configured=bool(path),
    )


def _found(files: tuple[str, ...]) -> Iterator[PodTemplate | NoTemplate]:
    """Raises UnreadableManifest."""
    for path in files:
        for number, document in enumerate(read_manifests(path), 1):
            try:
                yield from pod_templates(document)
            except ValueError as error:
                text = f"{path}: document {number}: {error}"
                raise UnreadableManifest(text) from error
