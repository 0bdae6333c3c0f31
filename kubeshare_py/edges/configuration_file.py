"""Reads a configuration file into the typed configuration, and prints one."""

from pathlib import Path
from typing import Any

import yaml

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
        document: Any = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return read(document)
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeError, ConfigurationError) as error:
        raise ConfigurationError(f"{path}: {error}") from error


def text(configuration: SchedulerConfiguration) -> str:
    """The configuration as YAML with every default filled in."""
    return yaml.safe_dump(effective(configuration), sort_keys=False)
