"""Problems of the labels and annotations of a pod that is not placed yet."""

from collections.abc import Mapping

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.group_within import within_problem
from kubeshare_py.dialects.pod_keys import unknown_key
from kubeshare_py.domain.request import InvalidRequest


def first_problem(
    labels: Mapping[str, str], annotations: Mapping[str, str]
) -> InvalidRequest | None:
    """The first problem, in the order in which the scheduler reports them; None if there is none.

    References to PodGroup objects are not checked, nor whether the pod's profile allows its
    isolation back-end.
    """
    unknown = unknown_key(labels, annotations)
    if unknown is not None:
        return unknown
    parsed = sharedgpu.read(labels, annotations)
    within = within_problem(annotations) if parsed.group is not None else None
    return within or parsed.problem
