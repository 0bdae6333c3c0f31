"""A v1 Pod in the few fields that the agent of its node needs.

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/
"""

import msgspec

from kubeshare_py.manifests.metadata import ObjectMeta

_ENDED = ("Succeeded", "Failed")


class BoundSpec(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Its node, "" before it is bound, and its scheduler."""

    node_name: str = ""
    scheduler_name: str = ""


class PhaseStatus(msgspec.Struct, frozen=True, gc=False):
    """Its phase."""

    phase: str = ""


class NodePod(msgspec.Struct, frozen=True, gc=False):
    """A pod of one node."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BoundSpec = BoundSpec()
    status: PhaseStatus = PhaseStatus()

    @property
    def may_hold(self) -> bool:
        """Whether it is bound and has not ended."""
        return bool(self.spec.node_name) and self.status.phase not in _ENDED
