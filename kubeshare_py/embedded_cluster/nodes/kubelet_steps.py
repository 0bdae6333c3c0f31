"""What a simulated kubelet writes about one pod."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.embedded_cluster.controllers.unstructured import Json


@dataclass(frozen=True, slots=True)
class WriteAnnotations:
    """Merge-patch these annotations into the pod."""

    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ReportStatus:
    """Strategic-merge-patch the pod's status with this body."""

    body: Json


@dataclass(frozen=True, slots=True)
class FinishDeletion:
    """Delete the pod with grace period 0, because its containers have ended."""


KubeletStep = WriteAnnotations | ReportStatus | FinishDeletion


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSteps:
    """What to write about one pod, in order."""

    pod: PodKey
    uid: str
    steps: tuple[KubeletStep, ...]
