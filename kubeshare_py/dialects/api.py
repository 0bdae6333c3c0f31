"""What the author of a dialect, and of its tests, imports; docs/dialects.md shows how.

The promise is that of `kubeshare_py.plugin`: what is exported here keeps its name, its arguments
and its meaning while the first number of its `API_VERSION` stays the same.
"""

from collections.abc import Mapping

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeCard,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    ResultKeys,
    Words,
    read_by,
)
from kubeshare_py.dialects.dialects import owned_part
from kubeshare_py.domain.allocation import Allocation, CardCharge, ClaimCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, card_at
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
    InvalidRequest,
)

__all__ = [
    "Allocation",
    "CardCharge",
    "CardRelation",
    "CardVisibility",
    "ClaimCharge",
    "ContainerAmounts",
    "ContainerClaim",
    "ContainerRef",
    "ContainerRule",
    "DecisionToken",
    "Dialect",
    "GpuClaim",
    "GpuRequest",
    "GpuUuid",
    "InvalidRequest",
    "NodeCard",
    "NodeKeys",
    "NodeRule",
    "OwnedKeys",
    "PlacedNode",
    "PodAsk",
    "ResultKeys",
    "Words",
    "card_at",
    "read",
]


def read(
    dialect: Dialect,
    *containers: Mapping[str, int],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    namespace: str = "default",
) -> GpuRequest | InvalidRequest | None:
    """For tests: what a pod asks for whose containers ask for these amounts of resources.

    The dialect sees what it owns and nothing else, as in a scheduler.
    """
    amounts = tuple(
        ContainerAmounts(
            f"container-{index}", ContainerRef(False, index), False, tuple(sorted(asked.items()))
        )
        for index, asked in enumerate(containers)
    )
    pod = PodAsk(labels or {}, annotations or {}, amounts, namespace=namespace)
    return read_by(dialect, owned_part(dialect, pod))
