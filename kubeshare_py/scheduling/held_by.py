"""What holds a pod to its share of a card, or will hold it when it is placed."""

from collections.abc import Mapping

from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.pod_records import Record


def backend_of(record: Record, profiles: Mapping[str, Profile]) -> IsolationBackend | None:
    """Its back-end; None for a pod without a share. The pod must be one of ours."""
    pod = record.pod
    if record.node is not None:
        return record.allocation.backend if record.allocation else None
    if pod.request is None or pod.request.claim.exclusive:
        return None
    return profiles[pod.scheduler_name].isolation.chosen(pod.isolation)
