"""Why a pod waits, as data: the condition, the event, `why` and the metrics render it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from kubeshare_py.domain.printable import MAX_MESSAGE, beginning

#: The count of a reason that is about the pod, whatever the node: only the reason is shown.
UNCOUNTED = 0


class WaitingReason(StrEnum):
    """The reason of the condition PodScheduled.

    Cluster Autoscaler and Karpenter make nodes for pods whose reason is Unschedulable, and for no
    others. SchedulerError is Kubernetes' too (PodReasonSchedulerError in core/v1);
    NotReadyForScheduling is that of KEP-5501.
    """

    UNSCHEDULABLE = "Unschedulable"  # it was tried, and no node fits: a new node may help
    SCHEDULER_ERROR = "SchedulerError"  # an attempt failed for another reason
    NOT_READY = "NotReadyForScheduling"  # it is not tried now


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Either one sentence about the pod itself, or counts of reasons over the nodes.

    `counts` are (reason, nodes) pairs: the reasons of the first plugin that refuses each node, of
    which there may be several. UNCOUNTED is the number of a reason that is about the pod itself.
    `plugins` are the names of those that gave them. `in_reach`: how many nodes evictions could
    help against. `post_filter` is what is said of evictions, after the counts. `preface` says what
    the counts are about if not the pod alone; `remark` is additional. `reason` is that of the
    condition. `limit` is what no node could ever give, with the largest node, in front of the
    counts. `topic` is the constant part of a sentence whose numbers change.
    """

    nodes: int = 0
    counts: tuple[tuple[str, int], ...] = ()
    in_reach: int = 0
    post_filter: str = ""
    sentence: str = ""
    preface: str = ""
    remark: str = ""
    topic: str = ""
    limit: str = ""
    reason: WaitingReason = WaitingReason.UNSCHEDULABLE
    plugins: tuple[str, ...] = field(default=(), compare=False)

    @property
    def reasons(self) -> frozenset[str]:
        """The set of reasons, without their counts."""
        named = {reason for reason, _ in self.counts} or {self.topic or self.sentence}
        return frozenset({*named, self.remark} if self.remark else named)

    @property
    def message(self) -> str:
        """The text in kube-scheduler's form, which is that of FitError.Error.

        (pkg/scheduler/framework/types.go.) Entries are sorted as strings, so that events aggregate.
        It is cut to MAX_MESSAGE characters: a pod may ask for many resources of long names.
        """
        return beginning(self.sentence or self._histogram(), MAX_MESSAGE)

    def _histogram(self) -> str:
        preface = f"{self.preface} " if self.preface else ""
        if self.limit:
            preface = f"{preface}{self.limit}{'' if self.limit.endswith('?') else '.'} "
        remark = f" {self.remark}" if self.remark else ""
        if not self.nodes:
            return f"{preface}no nodes available to schedule pods{remark and f'.{remark}'}"
        evictions = f" {self.post_filter}" if self.post_filter else ""
        return f"{preface}{histogram(self.nodes, self.counts)}{evictions}{remark}"


def histogram(nodes: int, counts: Iterable[tuple[str, int]]) -> str:
    """How many of so many nodes give each reason, as kube-scheduler says it."""
    entries = (f"{count} {reason}" if count else reason for reason, count in counts)
    return f"0/{nodes} nodes are available: {', '.join(sorted(entries))}."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """One thing that a node lacks, in numbers.

    `subject` is a card's uuid, or empty for the node; `asked` and `free` are in `unit` (`milli`,
    `bytes`, `count`), or None if the reason has no amounts. `containers` are those whose claims
    lack it (`container-0`, `init-0`), empty if it is not about containers' own claims.
    """

    reason: str
    subject: str = ""
    resource: str = ""
    asked: int | None = None
    free: int | None = None
    unit: str = ""
    containers: tuple[str, ...] = ()
