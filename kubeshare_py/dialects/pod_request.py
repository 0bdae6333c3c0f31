"""What a pod asks for, in whatever dialect: read once, in one place.

Only here is a table of dialects asked what pods ask for. Keys `sharedgpu/*` that are not known,
standing, groups and the scheduler's own annotations are the same in all dialects.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec

from kubeshare_py.dialects.dialect import ContainerAmounts, PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.dialects.group_keys import LABEL, OLD_LABEL, membership
from kubeshare_py.dialects.pod_keys import unknown_key
from kubeshare_py.dialects.results import RESERVATION
from kubeshare_py.dialects.standing import ISOLATION, standing
from kubeshare_py.domain.group_objects import GroupReference
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

_NOTHING: Mapping[str, str] = {}
#: So many problems of a pod are found at once.
_MAX_PROBLEMS = 4
#: In pods with more keys than people write, other problems than the first are not looked for: a pod
#: of 6,000 keys would cost several readings of all of them.
_MAX_KEYS = 64


class PodRequest(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The keys of a pod, understood.

    `problem` is the first one in the order in which the scheduler reports them; `request` may be
    set beside it if the problem is about the pod's group. `group` is the group that labels
    describe, `reference` the PodGroup object that describes it; `in_group` is also True if the
    pod names a group and there is a problem with it. `isolation` is the back-end that the pod
    wishes, "" if none. `has_reservation`: the pod shows cards that are kept for it.
    `stale_results` are result annotations of a pod that is not bound, sorted.
    """

    request: GpuRequest | None
    problem: InvalidRequest | None
    priority: int
    group: PodGroup | None
    reference: GroupReference | None
    in_group: bool
    isolation: str
    has_reservation: bool
    stale_results: tuple[str, ...]


def read(
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    pod_group: str = "",
    table: DialectTable = SHAREDGPU_ALONE.every,
    containers: tuple[ContainerAmounts, ...] = (),
    *,
    bound: bool = False,
    namespace: str = "default",
) -> PodRequest:
    """Read what a pod asks for. Never raises.

    `pod_group` is the PodGroup that its spec names, "" if none; `containers` are what its
    containers ask of the table's resources, empty if it has none. Unknown keys and results matter
    only before the pod is `bound`, so not after its end either.
    """
    labels, annotations = labels or _NOTHING, annotations or _NOTHING
    unknown = None if bound else unknown_key(labels, annotations, table.annotations)
    found = standing(labels)
    grouped = found.group is not None
    asked: GpuRequest | InvalidRequest | None = found.problem or table.read(
        PodAsk(labels, annotations, containers, found.priority > 0, grouped, namespace)
    )
    problem = asked if isinstance(asked, InvalidRequest) else None
    group, reference = membership(labels, annotations, pod_group, found.group)
    of_group = reference if isinstance(reference, InvalidRequest) else None
    return PodRequest(
        request=asked if unknown is None and isinstance(asked, GpuRequest) else None,
        problem=unknown or of_group or problem,
        priority=found.priority,
        group=group,
        reference=reference if isinstance(reference, GroupReference) else None,
        in_group=group is not None or reference is not None,
        isolation=labels.get(ISOLATION, ""),
        has_reservation=bool(annotations.get(RESERVATION)),
        stale_results=() if bound else tuple(sorted(filter(table.is_result, annotations))),
    )


def first_problem(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    table: DialectTable = SHAREDGPU_ALONE.every,
    containers: tuple[ContainerAmounts, ...] = (),
) -> InvalidRequest | None:
    """The first problem of a pod that is not bound; None if there is none.

    References to PodGroup objects are not checked, nor whether the pod's profile allows its
    isolation back-end.
    """
    own = {key: text for key, text in labels.items() if key not in (LABEL, OLD_LABEL)}
    return read(own, annotations, "", table, containers).problem


def with_others(
    problem: InvalidRequest,
    labels: Mapping[str, str] | None,
    annotations: Mapping[str, str] | None,
    pod_group: str,
    table: DialectTable,
    containers: tuple[ContainerAmounts, ...],
) -> InvalidRequest:
    """The first problem of a pod with those that are left when its key is mended."""
    given = labels or _NOTHING, annotations or _NOTHING
    if sum(map(len, given)) > _MAX_KEYS:
        return problem
    others = _other_problems(problem, *given, pod_group, table, containers)
    return replace(problem, others=tuple(map(str, others)))


def _other_problems(
    problem: InvalidRequest,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    pod_group: str,
    table: DialectTable,
    containers: tuple[ContainerAmounts, ...],
) -> Iterator[InvalidRequest]:
    """The problems after this one: each is what is wrong without the keys of those before."""
    for _ in range(_MAX_PROBLEMS - 1):
        key = problem.field.rpartition(" ")[2]
        if key not in labels and key not in annotations:
            return
        labels = {name: text for name, text in labels.items() if name != key}
        annotations = {name: text for name, text in annotations.items() if name != key}
        found = read(labels, annotations, pod_group, table, containers).problem
        # That something is missing may be due to the keys that were left out.
        if found is None or not _is_about_a_key(found):
            return
        problem = found
        yield problem


def _is_about_a_key(problem: InvalidRequest) -> bool:
    """Whether it is about a value or a key as such, whatever else the pod says."""
    return problem.value is not None or problem.field.startswith(("label ", "annotation "))
