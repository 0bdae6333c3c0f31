"""Everything the scheduler can want done."""

from dataclasses import dataclass

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.diagnosis import Diagnosis
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid


@dataclass(frozen=True, slots=True)
class Bind:
    """Bind a pod and record what it holds, in one request.

    Sent again unchanged while the outcome is unknown. `stale_results` are result annotations to
    overwrite because the pod carries them already.
    """

    uid: PodUid
    key: PodKey
    node: NodeName
    allocation: Allocation
    stale_results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportWaiting:
    """Tell the pod's owner why it waits: condition PodScheduled=False and an event.

    `reasons_changed` is False when only the numbers in the text differ from the last report.
    """

    uid: PodUid
    key: PodKey
    diagnosis: Diagnosis
    reasons_changed: bool = True


@dataclass(frozen=True, slots=True)
class ReportScheduled:
    """Tell the pod's owner that it was bound: a Scheduled event."""

    uid: PodUid
    key: PodKey
    node: NodeName


Effect = Bind | ReportWaiting | ReportScheduled
