"""What the placement of other pods depends on, of a pod that has a node, besides amounts."""

from dataclasses import dataclass

from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.device_claims import DeviceClaims
from kubeshare_py.domain.needs.host_ports import HostPort
from kubeshare_py.domain.needs.inter_pod import InterPodTerms
from kubeshare_py.domain.needs.volumes import PodVolumes, VolumeChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """A pod on a node, as other pods see it.

    `terms` are its own, None if it has none. `volumes` are what it mounts. `choice` says which
    volumes its claims are to get, while that is not done. `device_claims` are its
    ResourceClaims, while it is not bound. `terminating`: it is being deleted.
    """

    namespace: str
    labels: Labels = ()
    terms: InterPodTerms | None = None
    host_ports: tuple[HostPort, ...] = ()
    volumes: PodVolumes | None = None
    choice: VolumeChoice | None = None
    device_claims: DeviceClaims | None = None
    terminating: bool = False
