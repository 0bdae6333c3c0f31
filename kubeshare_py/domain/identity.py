"""Identities: a node name is not a pod name, and mypy knows it."""

from dataclasses import dataclass
from typing import NewType

PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
#: Names one decision of one scheduler process; the API server keeps it with the placement.
DecisionToken = NewType("DecisionToken", str)


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """Where a pod is found in the API; reused by later pods, so only the uid identifies one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
