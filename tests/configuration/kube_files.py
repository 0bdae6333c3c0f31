"""KubeSchedulerConfigurations for tests, and what reading them says."""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.kube_scheduler import read_kube_scheduler
from kubeshare_py.configuration.scheduler import ConfigurationError, SchedulerConfiguration
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.framework.scheduler_profile import Profile

#: A profile's name that is not that of pods without one, of which a warning would speak.
MINE = "mine"


def kube(**fields: Any) -> dict[str, Any]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return {**head, "profiles": [{"schedulerName": MINE}], **fields}


def with_plugins(**points: Any) -> dict[str, Any]:
    return kube(profiles=[{"schedulerName": MINE, "plugins": points}])


def on(*names: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names]}


def off(*names: str) -> dict[str, Any]:
    return {"disabled": [{"name": name} for name in names]}


def of_missing(warning: str) -> bool:
    """Whether a warning is about a default of kube-scheduler that no plugin here implements."""
    return "a default of kube-scheduler, does not exist here" in warning


def warned(document: object) -> tuple[SchedulerConfiguration, list[str]]:
    warnings: list[str] = []
    found = read_kube_scheduler(document, IN_TREE, warnings.append)
    return found, [one for one in warnings if not of_missing(one)]


def warnings_of(document: object) -> list[str]:
    return warned(document)[1]


def made(document: object) -> Profile:
    (profile,) = profiles(warned(document)[0], IN_TREE)
    return profile


def problem(document: object) -> str:
    with pytest.raises(ConfigurationError) as caught:
        profiles(warned(document)[0], IN_TREE)
    return str(caught.value)
