"""Labels `sharedgpu/*` read as a pod's are, without a check for unknown keys."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.pod_keys import priority_and_gang
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.request import GpuRequest, InvalidRequest


@dataclass(frozen=True, kw_only=True)
class ParsedRequest:
    request: GpuRequest | None = None
    problem: InvalidRequest | None = None
    priority: int = 0
    group: PodGroup | None = None


def read(labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> ParsedRequest:
    found = priority_and_gang(labels)
    asked: GpuRequest | InvalidRequest | None = found.problem
    if asked is None:
        grouped = found.group is not None
        asked = sharedgpu.read(labels, annotations, found.priority > 0, grouped)
    return ParsedRequest(
        request=None if isinstance(asked, InvalidRequest) else asked,
        problem=asked if isinstance(asked, InvalidRequest) else None,
        priority=found.priority,
        group=found.group,
    )
