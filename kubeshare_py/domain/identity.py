"""Identities: a node name is not a pod name, and mypy knows it."""

from dataclasses import dataclass
from typing import NewType

PodUid = NewType("PodUid", str)
NodeName = NewType("NodeName", str)
GpuUuid = NewType("GpuUuid", str)
#: Names one decision of one scheduler process; the API server stores it with the placement.
DecisionToken = NewType("DecisionToken", str)


@dataclass(frozen=True, slots=True, order=True)
class PodKey:
    """A pod's namespace and name, which later pods may reuse: only the uid identifies a pod."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
