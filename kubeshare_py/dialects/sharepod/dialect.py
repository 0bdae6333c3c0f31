"""KubeShare 1.0, as a dialect."""

from collections.abc import Mapping

from kubeshare_py.dialects.dialect import (
    Dialect,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
)
from kubeshare_py.dialects.sharepod.keys import AMOUNTS, KEYS, VIRTUAL_GPU
from kubeshare_py.dialects.sharepod.request import read
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.request import GpuRequest, InvalidRequest


class SharePods(Dialect):
    """Annotations `kubeshare/*` of SharePods, and of the pods that are made of them.

    `kubeshare/GPUID` names the card: users may choose the name, and the Binding says it.
    """

    name = "sharepod"
    owns = OwnedKeys(annotations=frozenset(KEYS))
    result_keys = ResultKeys(answered=frozenset({VIRTUAL_GPU}))
    words = Words(
        title="KubeShare 1.0",
        documentation="https://github.com/NTHU-LSALab/KubeShare/tree/release-1.0",
    )
    by_namespace = True
    shared_by = AMOUNTS

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """See `request.read`."""
        return read(pod, self.name)

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """The name of the pod's card."""
        name = allocation.cards[0].name
        return {VIRTUAL_GPU: name} if name else {}
