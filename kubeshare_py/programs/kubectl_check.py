"""`kubectl kubeshare check`: what the pods of manifests ask for, without a cluster."""

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
from rich.console import Console
from rich.text import Text

from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    EnabledDialect,
    ProfileConfiguration,
    SchedulerConfiguration,
)
from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.cli.manifest_files import UnreadableManifest, read_manifests
from kubeshare_py.edges.process.configured_dialects import configured, known
from kubeshare_py.edges.scheduler.configuration_file import load, naming
from kubeshare_py.manifests.pod_check import check
from kubeshare_py.manifests.pod_templates import pod_templates
from kubeshare_py.terminal.checked_pods import checked_lines
from kubeshare_py.terminal.documents import as_json, as_yaml
from kubeshare_py.views.checked_pod import CheckedPod

OK, REFUSED, UNREADABLE = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckQuestion:
    """Files with manifests, "-" for standard input, and the form of the answer.

    `config` is the scheduler's configuration file; "" stands for every installed dialect.
    """

    files: tuple[str, ...]
    output: str = "table"
    config: str = ""


def run(question: CheckQuestion) -> int:
    """Answer on stdout, failures on stderr; the exit code."""
    return answer(question, Console(), Console(stderr=True))


def answer(question: CheckQuestion, out: Console, err: Console) -> int:
    """0 if all pods are fine, 1 if one is refused, 2 for a file that cannot be read."""
    try:
        configuration = _configuration(question.config)
        with naming(question.config or None):
            pods = list(_checked(question.files, configuration))
    except (ConfigurationError, UnreadableManifest) as error:
        err.print(Text(f"Error: {printable(str(error))}", style="red"), soft_wrap=True)
        return UNREADABLE
    if question.output in ("json", "yaml"):
        document = {"pods": msgspec.to_builtins(pods)}
        write = as_json if question.output == "json" else as_yaml
        out.file.write(write(document) + "\n")
    else:
        for line in checked_lines(pods):
            out.print(line, soft_wrap=True)
    if not pods:
        err.print("No pods found, and no templates of pods.")
    return REFUSED if any(one.refused for one in pods) else OK


def _configuration(path: str) -> SchedulerConfiguration:
    if path:
        return load(path)
    every = tuple(EnabledDialect(name) for name in sorted(known()))
    return SchedulerConfiguration(profiles=(ProfileConfiguration(dialects=every),))


def _checked(files: tuple[str, ...], configuration: SchedulerConfiguration) -> Iterator[CheckedPod]:
    """Raises UnreadableManifest, and ConfigurationError for unusable dialects."""
    dialects = configured(configuration)
    first = configuration.profiles[0].scheduler_name
    for path in files:
        for number, document in enumerate(read_manifests(path), 1):
            try:
                templates = list(pod_templates(document))
            except ValueError as error:
                text = f"{path}: document {number}: {error}"
                raise UnreadableManifest(text) from error
            yield from (check(one, dialects, first) for one in templates)
