"""Reads a configuration file into the typed configuration, and prints one."""

from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager

import yaml

from kubeshare_py.configuration.kube_scheduler import is_kube_scheduler, read_kube_scheduler
from kubeshare_py.configuration.scheduler import (
    ConfigurationError,
    SchedulerConfiguration,
    effective,
    former_keys,
    read,
)
from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.inventory.series_selectors import SelectorProblem, parse_matchers


def load(
    path: str | None,
    warn: Callable[[str], object] = lambda warning: None,
    known: Container[str] | None = None,
) -> SchedulerConfiguration:
    """The configuration in this file, or the defaults without one.

    The file may be a KubeSchedulerConfiguration; `known` then says which plugins there are, if
    profiles are to be made. `warn` is called with a sentence for each key of an earlier version,
    and for each field of kube-scheduler that has no counterpart.

    Raises ConfigurationError, which names the file and the path of the error in it.
    """
    if path is None:
        return read(None)
    try:
        document = read_yaml(read_bytes(path), path)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except DocumentProblem as problem:
        raise ConfigurationError(str(problem)) from problem
    with naming(path):
        if is_kube_scheduler(document):
            return read_kube_scheduler(document, known, lambda text: warn(f"{path}: {text}"))
        configuration = read(document)
        _check_selector(configuration.inventory.selector)
    for warning in former_keys(document):
        warn(f"{path}: {warning}")
    return configuration


@contextmanager
def naming(path: str | None) -> Iterator[None]:
    """Begin each ConfigurationError of the block with the file's path, if there is a file.

    For what is made of a configuration once it is read: profiles, dialects, files that it names.
    """
    try:
        yield
    except ConfigurationError as error:
        if path is None:
            raise
        raise ConfigurationError(f"{path}: {error}") from error


def _check_selector(text: str) -> None:
    try:
        parse_matchers(text)
    except SelectorProblem as problem:
        example = 'such as job="kubeshare-collector"'
        said = f"inventory.selector: {problem.rule} at character {problem.position}, {example},"
        raise ConfigurationError(f"{said} not {text!r}") from problem


def text(configuration: SchedulerConfiguration) -> str:
    """The configuration as YAML with every default filled in."""
    return yaml.safe_dump(effective(configuration), sort_keys=False)
