"""PostFilter: pods of lower priority may be evicted, opportunistic ones within a namespace."""

from collections.abc import Callable
from typing import Annotated

from msgspec import Meta

from kubeshare_py.plugin import ArgumentError, Pod, Preemptor, checked, lower_priority

_PartOfNodes = Annotated[int, Meta(ge=0, le=100)]
_NodeCount = Annotated[int, Meta(ge=0)]
NAMESPACE, NEVER, EVERYWHERE = "Namespace", "Never", "Everywhere"


class DefaultPreemption:
    """By spec.priority, which the cluster's administrator controls.

    Among pods of equal spec.priority, `sharedgpu/priority` counts, which every user may set:
    opportunistic pods (0 or less) may be evicted for guarantee pods (above 0) of the same
    namespace. `opportunistic` may also be `Never`, or `Everywhere` if all namespaces trust each
    other.
    """

    name = "DefaultPreemption"

    def __init__(
        self,
        opportunistic: str = NAMESPACE,
        minCandidateNodesPercentage: int = 10,
        minCandidateNodesAbsolute: int = 100,
    ) -> None:
        """Raises ValueError for another word, and ArgumentError for numbers out of range.

        The numbers are kube-scheduler's and have no effect: a search looks at up to 512 nodes.
        """
        if opportunistic not in (NAMESPACE, NEVER, EVERYWHERE):
            raise ValueError(f"opportunistic: must be {NAMESPACE}, {NEVER} or {EVERYWHERE}")
        part = checked(minCandidateNodesPercentage, _PartOfNodes, "minCandidateNodesPercentage")
        least = checked(minCandidateNodesAbsolute, _NodeCount, "minCandidateNodesAbsolute")
        if not part and not least:
            raise ArgumentError("minCandidateNodesPercentage: and minCandidateNodesAbsolute are 0")
        self._opportunistic = opportunistic

    def post_filter(self, preemptor: Preemptor) -> Callable[[Pod], bool]:
        """Whether a pod may be evicted for this preemptor."""
        lower = lower_priority(preemptor)
        if not preemptor.guarantee or self._opportunistic == NEVER:
            return lower
        anywhere = self._opportunistic == EVERYWHERE

        def gives_way(pod: Pod) -> bool:
            if pod.priority != preemptor.priority or pod.label_priority > 0:
                return lower(pod)
            return anywhere or pod.key.namespace == preemptor.namespace

        return gives_way
