"""What a pod asks for in whatever dialect, and what no dialect of its profile reads."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches

import msgspec

from kubeshare_py.dialects import sharedgpu
from kubeshare_py.dialects.dialect import ContainerAmounts, Dialect, PodAsk
from kubeshare_py.dialects.dialects import IN_TREE, SHAREDGPU_ALONE, DialectTable
from kubeshare_py.dialects.nvidia_dialect import MIG, Nvidia
from kubeshare_py.dialects.pod_keys import (
    ISOLATION,
    OLD_POD_GROUP_LABEL,
    POD_GROUP_LABEL,
    group_advice,
    membership,
    priority_and_gang,
    unknown_key,
)
from kubeshare_py.dialects.results import RESERVATION
from kubeshare_py.domain.cluster_objects import GroupReference
from kubeshare_py.domain.dialect_switch import or_all
from kubeshare_py.domain.pod import PodGroup
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import GpuRequest, InvalidRequest

# What a pod asks for, in whatever dialect: read once, in one place.
#
# Only here is a table of dialects asked what pods ask for. Keys `sharedgpu/*` that are not known,
# priority, groups and the scheduler's own annotations are the same in all dialects.


_NOTHING: Mapping[str, str] = {}
#: So many problems of a pod are found at once.
_MAX_PROBLEMS = 4
#: In pods with more keys than people write, other problems than the first are not looked for: a pod
#: of 6,000 keys would cost several readings of all of them.
MAX_KEYS = 64


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
    found = priority_and_gang(labels)
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
    own = {
        key: text
        for key, text in labels.items()
        if key not in (POD_GROUP_LABEL, OLD_POD_GROUP_LABEL)
    }
    return read(own, annotations, "", table, containers).problem


def unlikely(labels: Mapping[str, str] | None) -> tuple[str, ...]:
    """Sentences about labels that can be read and are hardly meant so, as admission warns of."""
    if not labels:
        return ()
    return tuple(filter(None, (sharedgpu.advice(labels), group_advice(labels))))


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
    if sum(map(len, given)) > MAX_KEYS:
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


# Resources that ask for GPUs and that a pod's profile does not read: which dialects would.
#
# Known are the dialects of this project under their default names, whether a profile enables them
# or not.


#: What a dialect's pods get, if it is one of several that read the same name.
_GIVEN = {"nvidia": " (whole cards)", "hami": " (shares)"}
_ALIKE = 0.75
#: The schedulerName of pods that name none: such a profile stands in for kube-scheduler.
_NONE_NAMED = "default-scheduler"
_PAGE = "docs/dialects.md"


def _in_tree() -> Iterator[Dialect]:
    for name in sorted(IN_TREE, reverse=True):
        dialect = IN_TREE[name]()
        assert isinstance(dialect, Dialect)
        yield dialect


def _readers() -> Mapping[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for dialect in _DIALECTS:
        for resource in dialect.owns.resources | dialect.owns.contested:
            found[resource] = (*found.get(resource, ()), dialect.name)
    return found


_DIALECTS = tuple(_in_tree())
_READERS = _readers()


def key_of_dialect(keys: Collection[str], resources: Collection[str]) -> str:
    """The first key by which a pod asks for GPUs so that only a dialect understands it; "" if none.

    `keys` are those of its labels and annotations. Names that device plugins have too, such as
    `nvidia.com/gpu`, are understood without a dialect.
    """
    owned = {
        *(one for dialect in _DIALECTS for one in dialect.owns.resources & {*resources}),
        *(
            key
            for dialect in _DIALECTS
            for key in keys
            if key in dialect.owns.labels
            or key in dialect.owns.annotations
            or (dialect.owns.prefixes and key.startswith(dialect.owns.prefixes))
        ),
    }
    return min(owned, default="")


@remembered(1024)
def unread(resources: Sequence[str], scheduler: str, *, elsewhere: bool) -> InvalidRequest:
    """What is wrong, and what to do, for resources that the profile of this name does not read.

    `elsewhere`: another profile of the scheduler reads one of them.
    """
    first = resources[0]
    readers = [name for name in _of(first) if all(name in _of(one) for one in resources)]
    field = f"resources[{first}]"
    if readers:
        wanted = " or ".join(f"{name}{_GIVEN.get(name, '')}" for name in readers)
        instead = (
            ", or take schedulerName out so that kube-scheduler places the pod"
            if Nvidia.name in readers and scheduler != _NONE_NAMED
            else ""
        )
        # MIG instances are read by the profiles in the dialect's `args`, which `all` has none of.
        how = "" if first.startswith(MIG) else or_all(readers)
        rule = f"is not read by profile {scheduler}: add the dialect {wanted} to it{how}{instead}"
        return InvalidRequest(field=field, rule=f"{rule} ({_PAGE})", unread=_off(resources))
    if elsewhere:
        rule = f"is not read by profile {scheduler}, but by another one: name that as schedulerName"
        return InvalidRequest(field=field, rule=f"{rule} ({_PAGE})")
    alike = get_close_matches(first, _READERS, n=1, cutoff=_ALIKE)
    meant = f"; did you mean {alike[0]}?" if alike else ""
    return InvalidRequest(
        field=field, rule=f"is not supported yet: no dialect here knows it{meant}"
    )


def _off(resources: Sequence[str]) -> str:
    """Which dialect would read one of these that no device plugin has; "" if none would."""
    key = key_of_dialect((), resources)
    readers = _of(key)
    if not readers:
        return ""
    return f"{key} is of dialect {' or '.join(readers)}, which is off: enable it{or_all(readers)}"


def _of(resource: str) -> tuple[str, ...]:
    """The dialects that read a resource; instances of MIG have any profile's name."""
    return (Nvidia.name,) if resource.startswith(MIG) else _READERS.get(resource, ())
