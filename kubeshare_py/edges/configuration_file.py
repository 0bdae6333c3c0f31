"""Reads a configuration file into the typed configuration, and prints one."""

import yaml

from kubeshare_py.documents.problems import DocumentProblem
from kubeshare_py.documents.yaml_text import read_yaml
from kubeshare_py.edges.document_files import read_bytes
from kubeshare_py.framework.configuration import (
    ConfigurationError,
    SchedulerConfiguration,
    effective,
    read,
)


def load(path: str | None) -> SchedulerConfiguration:
    """The configuration in this file, or the defaults without one.

    Raises ConfigurationError naming the file and the path of what is wrong in it.
    """
    if path is None:
        return read(None)
    try:
        return read(read_yaml(read_bytes(path), path))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except DocumentProblem as problem:
        raise ConfigurationError(str(problem)) from problem
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def text(configuration: SchedulerConfiguration) -> str:
    """The configuration as YAML with every default filled in."""
    return yaml.safe_dump(effective(configuration), sort_keys=False)
