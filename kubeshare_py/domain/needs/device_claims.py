"""What a pod says of ResourceClaims: which ones it uses.

https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
"""

from dataclasses import dataclass

from kubeshare_py.domain.needs.cluster_objects import ObjectKey


@dataclass(frozen=True, slots=True)
class DeviceClaimName:
    """An entry of spec.resourceClaims, and the name of its ResourceClaim.

    `generated`: the claim is made from a template, for this pod; its name is "" until it is there.
    """

    entry: str
    claim: str
    generated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaims:
    """The claims of a pod, which is part of the value: they are reserved for it."""

    namespace: str
    pod: str
    uid: str
    names: tuple[DeviceClaimName, ...]

    def objects(self) -> tuple[ObjectKey, ...]:
        """The claims that are there, as far as the pod knows."""
        return tuple(ObjectKey(self.namespace, one.claim) for one in self.names if one.claim)
