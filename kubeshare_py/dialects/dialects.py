"""The enabled dialects: those of one profile as a table, and those of all profiles together."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from kubeshare_py.dialects import results
from kubeshare_py.dialects.cambricon import Cambricon
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.counting_keys import CountingKeys
from kubeshare_py.dialects.dialect import (
    ContainerAmounts,
    Dialect,
    NodeCard,
    NodeKeys,
    OwnedKeys,
    PlacedNode,
    PodAsk,
    failure,
    has_mark_by,
    owns_by,
    read_by,
    results_by,
    visibility_by,
)
from kubeshare_py.dialects.gpushare import Gpushare
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.nano_gpu import NanoGpu
from kubeshare_py.dialects.nvidia_dialect import Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.dialect_switch import or_all
from kubeshare_py.domain.node import CONTESTED_OF, NodeAtDecision
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.quota import NVIDIAS, NativeResources, QuotaNames
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest

# The dialects of one profile, and which of them a pod uses.
#
# A pod uses the dialect that owns some of its keys. Keys of two dialects are a problem of the pod,
# and so are labels of `sharedgpu` where the profile does not enable it: what a pod asks for is
# never ignored. With `sharedgpu` alone, which is nearly always so, nothing is searched.


# Each distinct request is read once; a cluster has few distinct requests and many pods.
_REMEMBERED = 4096
#: That of pods of dialects to which it does not matter.
_ANY_NAMESPACE = "default"
_KeyTexts = tuple[tuple[str, str], ...]
Reader = Callable[[PodAsk], GpuRequest | InvalidRequest | None]


def mark(resource: str, dialect: str) -> str:
    """The resource that marks nodes on which a contested resource name is this dialect's."""
    return f"{resource}{CONTESTED_OF}{dialect}"


def mark_of_any(resource: str, dialects: Collection[str]) -> str:
    """The same for nodes on which the name is that of any of these dialects."""
    return mark(resource, " or ".join(sorted(dialects)))


class DialectConflict(ValueError):
    """Two dialects own the same key, or one owns what it must not."""


class DialectTable:
    """Some dialects that own different keys, in the order of the profile.

    `resources` are the names of extended resources that they own, on some nodes at least.
    """

    def __init__(
        self, dialects: Sequence[Dialect] = (SHAREDGPU,), demanding: Collection[str] = ()
    ) -> None:
        """Raises DialectConflict for dialects that cannot be used together.

        `demanding` are names of dialects whose nodes must have the labels of their rules.
        """
        self.dialects = tuple(dialects)
        for one in self.dialects:
            _check_keys(one)
        for one, other in combinations(self.dialects, 2):
            _check_pair(one, other)
        owned = [one.owns.resources | one.owns.contested for one in self.dialects]
        self.resources: frozenset[str] = frozenset().union(*owned)
        #: Annotations by which pods ask in one of them.
        self.annotations: frozenset[str] = frozenset().union(
            *(one.owns.annotations for one in self.dialects)
        )
        #: The dialects that own a name on some nodes only, by that name.
        self.contesting: Mapping[str, tuple[str, ...]] = {
            name: tuple(one.name for one in self.dialects if name in one.owns.contested)
            for name in sorted({name for one in self.dialects for name in one.owns.contested})
        }
        self._results = tuple(
            one.result_keys
            for one in self.dialects
            if one.result_keys.every or one.result_keys.prefixes
        )
        self._is_plain = self.dialects == (SHAREDGPU,)
        #: What a pod asks for in its dialect; None if it has no key of any. Never raises.
        self.read: Reader = SHAREDGPU.read if self._is_plain else self._read
        #: Whether users must not write an annotation.
        self.is_result: Callable[[str], bool] = (
            self._is_result if self._results else results.is_result
        )
        self.container_rules = tuple(rule for one in self.dialects for rule in one.container_rules)
        self._node_rules = {
            one.name: tuple(
                replace(rule, required=rule.required or one.name in demanding)
                for rule in one.node_rules
            )
            for one in self.dialects
        }
        self._readings = {
            one.name: remembered(_REMEMBERED)(_RememberedRead(one)) for one in self.dialects
        }
        others = [one.owns for one in self.dialects if one is not SHAREDGPU]
        self._others = _OthersKeys(others) if SHAREDGPU in self.dialects else None
        self._searched = (*self.dialects, *(() if SHAREDGPU in self.dialects else (SHAREDGPU,)))

    def _read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        if self._others is not None and self._others.has_none_of(pod):
            return SHAREDGPU.read(pod)  # nearly always
        found = self._chosen(pod)
        if found is None or isinstance(found, InvalidRequest):
            return found
        dialect, own = found
        return self._readings[dialect.name](
            tuple(sorted(own.labels.items())),
            tuple(sorted(own.annotations.items())),
            own.containers,
            own.guarantee,
            own.grouped,
            own.namespace,
        )

    def of_others(
        self,
        labels: Mapping[str, str] | None,
        annotations: Mapping[str, str] | None,
        containers: tuple[ContainerAmounts, ...],
    ) -> PodAsk | None:
        """A bound pod for dialects whose annotations other schedulers write; None without any."""
        annotations = annotations or {}
        if self._is_plain and results.GPU_UUID not in annotations:
            return None  # nearly always
        return PodAsk(labels or {}, annotations, containers)

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """Which cards the pod's containers may see; none for a pod without keys of a dialect."""
        if self._is_plain:
            return SHAREDGPU.visibility(pod)
        found = self._chosen(pod)
        if isinstance(found, InvalidRequest):
            return CardVisibility.SHARE  # until it is mended no container can start
        return CardVisibility.VOID if found is None else visibility_by(*found)

    def dialect_of(self, pod: PodAsk) -> Dialect | None:
        """The dialect that the pod uses; None if it uses none or several."""
        found = self._chosen(pod)
        return found[0] if isinstance(found, tuple) else None

    def node_rules(self, request: GpuRequest) -> tuple[NodeRule, ...]:
        """Which nodes the request's dialect may use, by their labels."""
        return self._node_rules.get(request.dialect, ())

    def marks(self, request: GpuRequest, containers: Sequence[ContainerAmounts]) -> tuple[str, ...]:
        """The marks of nodes that the request's dialect may use for these containers.

        Those of its own, and those of nodes on which it owns a contested name that they ask for;
        for whole cards also nodes on which another dialect of the profile owns the name.
        """
        owner = next((one for one in self.dialects if one.name == request.dialect), None)
        if owner is None or not owner.owns.contested:
            return () if owner is None else owner.marks
        asked = {name for one in containers for name, amount in one.amounts if amount}
        contested = sorted(asked & owner.owns.contested)
        if not all(one.claim.exclusive for one in request.claims):
            return (*owner.marks, *(mark(name, owner.name) for name in contested))
        # Whole cards mean the same to all who contest the name: the pod may go to nodes of each.
        return (
            *owner.marks,
            *(mark_of_any(name, self.contesting[name]) for name in contested),
        )

    def _is_result(self, key: str) -> bool:
        return results.is_result(key) or any(keys.has(key) for keys in self._results)

    def _chosen(self, pod: PodAsk) -> tuple[Dialect, PodAsk] | InvalidRequest | None:
        """The pod's dialect, and what that owns of the pod."""
        found = [
            (dialect, keys) for dialect in self._searched if (keys := asking_keys(dialect, pod))
        ]
        if len(found) > 1:
            found = [one for one in found if not one[0].gives_way] or found
        if not found:
            return None
        dialect, keys = found[0]
        if len(found) > 1:
            other, others = found[1]
            rule = (
                f"asks in dialect {dialect.name}, and {others[0]} in dialect {other.name}: "
                "a pod can only use one dialect"
            )
            return InvalidRequest(field=keys[0], rule=rule)
        if dialect not in self.dialects:
            rule = (
                f"asks in dialect {dialect.name}, which this pod's profile does not enable: "
                f"add it to the profile{or_all([dialect.name])}"
            )
            return InvalidRequest(field=keys[0], rule=rule)
        return dialect, owned_part(dialect, pod)


class _OthersKeys:
    """The keys of all dialects but `sharedgpu`, put together."""

    __slots__ = ("_annotations", "_labels", "_prefixes")

    def __init__(self, owned: Sequence[OwnedKeys]) -> None:
        nothing: frozenset[str] = frozenset()
        self._labels = nothing.union(*(one.labels for one in owned))
        self._annotations = nothing.union(*(one.annotations for one in owned))
        self._prefixes = tuple(prefix for one in owned for prefix in one.prefixes)

    def has_none_of(self, pod: PodAsk) -> bool:
        """Whether the pod asks in `sharedgpu` or not at all."""
        if any(one.amounts for one in pod.containers):
            return False
        if not (
            self._labels.isdisjoint(pod.labels) and self._annotations.isdisjoint(pod.annotations)
        ):
            return False
        begins = self._prefixes
        return not begins or not any(
            key.startswith(begins) for keys in (pod.labels, pod.annotations) for key in keys
        )


class _RememberedRead:
    """A dialect's `read` as a function of hashable parts."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.__name__ = dialect.name

    def __call__(
        self,
        labels: _KeyTexts,
        annotations: _KeyTexts,
        containers: tuple[ContainerAmounts, ...],
        guarantee: bool,
        grouped: bool,
        namespace: str,
    ) -> GpuRequest | InvalidRequest | None:
        pod = PodAsk(dict(labels), dict(annotations), containers, guarantee, grouped, namespace)
        answer = read_by(self._dialect, pod)
        if not isinstance(answer, GpuRequest):
            return answer
        known = {one.container for one in containers}
        for claim in answer.claims:
            if claim.container is not None and claim.container not in known:
                return failure(self._dialect, f"the pod has no {claim.container}")
        return answer


def asking_keys(dialect: Dialect, pod: PodAsk) -> list[str]:
    """The pod's keys by which it asks in this dialect: labels, annotations, resources; sorted."""
    owns = dialect.owns
    resources = {name for one in pod.containers for name, amount in one.amounts if amount}
    return [
        *_owned(pod.labels, owns.labels, dialect),
        *_owned(pod.annotations, owns.annotations, dialect),
        *(f"resources[{name}]" for name in sorted(resources & (owns.resources | owns.contested))),
    ]


def owned_part(dialect: Dialect, pod: PodAsk, *, results_too: bool = False) -> PodAsk:
    """The pod with only those keys that the dialect owns; its result keys only if `results_too`."""
    owns = dialect.owns
    resources = owns.resources | owns.contested
    annotations = {
        key: pod.annotations[key] for key in _owned(pod.annotations, owns.annotations, dialect)
    }
    if results_too:
        own = results.is_result if dialect is SHAREDGPU else dialect.result_keys.has
        annotations |= {key: text for key, text in pod.annotations.items() if own(key)}
    return PodAsk(
        {key: pod.labels[key] for key in _owned(pod.labels, owns.labels, dialect)},
        annotations,
        tuple(_only(one, resources) for one in pod.containers),
        pod.guarantee,
        pod.grouped,
        pod.namespace if dialect.by_namespace else _ANY_NAMESPACE,
    )


def _only(container: ContainerAmounts, resources: frozenset[str]) -> ContainerAmounts:
    amounts = tuple(pair for pair in container.amounts if pair[0] in resources)
    return ContainerAmounts(container.name, container.container, container.sidecar, amounts)


def _owned(keys: Mapping[str, str], owned: frozenset[str], dialect: Dialect) -> list[str]:
    """Those of the keys that are owned by name or prefix and are no results, sorted."""
    prefixes, own_results = dialect.owns.prefixes, dialect.result_keys
    return sorted(
        key
        for key in keys
        if key in owned or (prefixes and key.startswith(prefixes) and not own_results.has(key))
    )


def _check_keys(dialect: Dialect) -> None:
    own = dialect.result_keys
    wrong = sorted(
        {*filter(results.is_result, own.every)}
        | {prefix for prefix in own.prefixes if prefix.startswith(results.PREFIX)}
    )
    if wrong:
        raise DialectConflict(f"{dialect.name}: {wrong[0]} is a result of every dialect")
    asks = dialect.owns.labels | dialect.owns.annotations
    twice = sorted(filter(own.has, asks))
    if twice:
        raise DialectConflict(f"{dialect.name}: {twice[0]} asks and is a result")
    unasked = own.answered - dialect.owns.annotations
    if unasked:
        raise DialectConflict(f"{dialect.name}: {min(unasked)} is answered, but no pod asks by it")


def _check_pair(one: Dialect, other: Dialect) -> None:
    if one.name == other.name:
        raise DialectConflict(f"{one.name} is there twice")
    first, second = one.owns, other.owns
    common = one.result_keys.common & other.result_keys.common
    both = (
        (first.labels & second.labels)
        | (first.annotations & second.annotations)
        | (one.result_keys.every & other.result_keys.every) - common
        | (first.resources & (second.resources | second.contested))
        | (second.resources & first.contested)
        | _below(_prefixes(one), second.labels | second.annotations | other.result_keys.every)
        | _below(_prefixes(other), first.labels | first.annotations | one.result_keys.every)
        | _below(_prefixes(one), frozenset(_prefixes(other)))
        | _below(_prefixes(other), frozenset(_prefixes(one)))
    )
    if both:
        raise DialectConflict(f"{one.name} and {other.name} both own {min(both)}")


def _prefixes(dialect: Dialect) -> tuple[str, ...]:
    return (*dialect.owns.prefixes, *dialect.result_keys.prefixes)


def _below(prefixes: tuple[str, ...], keys: frozenset[str]) -> set[str]:
    return {key for key in keys if key.startswith(prefixes)}


# All enabled dialects: those of each profile, and what concerns the whole cluster.
#
# Which annotations are results, the owner of a resource name on a node, and what pods of other
# schedulers hold do not depend on a profile: for them the dialects of all profiles count.


#: The owners of contested resource names on a node, as sorted (resource, dialect) pairs; names
#: that are not in it are native there.
Owners = tuple[tuple[str, str], ...]
_NONE: Mapping[str, Collection[str]] = {}
#: The API server does not check a Binding's labels, and a pod with a bad one cannot be updated.
_LABEL = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


class Dialects:
    """The tables of the profiles by schedulerName. A dialect is one object in all of them."""

    def __init__(
        self,
        profiles: Mapping[str, Sequence[Dialect]],
        demanding: Mapping[str, Collection[str]] = _NONE,
        native: NativeResources = NVIDIAS,
    ) -> None:
        """Raises DialectConflict for dialects that cannot be used in one cluster.

        `native` are the resources of device plugins, whose cards the kubelet chooses.
        `demanding` are those whose nodes must have the labels of their rules, by profile.
        """
        self.native = native
        found: dict[str, Dialect] = {}
        for dialects in profiles.values():
            found |= {one.name: one for one in dialects}
        self.every = DialectTable(tuple(found.values()) or (SHAREDGPU,))
        self._tables = {
            name: DialectTable(dialects, demanding.get(name, ()))
            for name, dialects in profiles.items()
        }
        self._by_name = {one.name: one for one in self.every.dialects}
        #: The keys of labels and annotations that count in any profile.
        self.counting_keys = CountingKeys((*self.every.dialects, SHAREDGPU))
        #: The names by which ResourceQuotas of namespaces limit pods of some dialect.
        self.quota_names: tuple[QuotaNames, ...] = tuple(
            one.quota_names for one in self.every.dialects if one.quota_names is not None
        )
        self._contesting = [one for one in self.every.dialects if one.owns.contested]
        #: Resource names that have different owners on different nodes.
        self.contested: frozenset[str] = frozenset().union(
            *(one.owns.contested for one in self._contesting)
        )

    def of(self, scheduler_name: str) -> DialectTable:
        """The table for pods with this schedulerName; of other schedulers' pods, all dialects."""
        return self._tables.get(scheduler_name, self.every)

    def owners(self, node: NodeKeys) -> Owners:
        """The owners of contested resource names on this node: the first dialect that says so."""
        owners: dict[str, str] = {}
        for dialect in self._contesting:
            for resource in sorted(dialect.owns.contested - owners.keys()):
                if owns_by(dialect, resource, node):
                    owners[resource] = dialect.name
        return tuple(sorted(owners.items()))

    def owner_marks(self, owners: Owners) -> tuple[str, ...]:
        """The marks of a node whose contested names have these owners."""
        found = {mark(resource, dialect) for resource, dialect in owners}
        for table in self._tables.values():
            for resource, dialect in owners:
                contesting = table.contesting.get(resource, ())
                if dialect in contesting:
                    found.add(mark_of_any(resource, contesting))
        return tuple(sorted(found))

    def marks(self, node: NodeKeys) -> tuple[str, ...]:
        """The marks of dialects that this node has."""
        return tuple(
            mark
            for dialect in self.every.dialects
            for mark in dialect.marks
            if has_mark_by(dialect, mark, node)
        )

    def results(
        self, allocation: Allocation, decided: NodeAtDecision, unix_offset_s: float
    ) -> Mapping[str, str] | str:
        """The annotations of the allocation's dialect; a sentence if the dialect failed.

        `unix_offset_s` is Unix time less the machine's time (s).
        """
        dialect = self._by_name.get(allocation.dialect)
        if dialect is None or dialect is SHAREDGPU:
            return {}
        return results_by(dialect, allocation, _placed_node(dialect, decided, unix_offset_s))

    def labels(self, allocation: Allocation, results: Mapping[str, str]) -> dict[str, str]:
        """Those of the allocation's `results` that are labels too, if a label can say them."""
        dialect = self._by_name.get(allocation.dialect)
        named = dialect.result_keys.labels if dialect is not None else frozenset()
        return {
            key: text for key, text in results.items() if key in named and _LABEL.fullmatch(text)
        }


def _placed_node(dialect: Dialect, decided: NodeAtDecision, unix_offset_s: float) -> PlacedNode:
    owned = dialect.owns.resources | dialect.owns.contested
    return PlacedNode(
        cards={
            gpu.uuid: NodeCard(gpu.index, gpu.capacity_bytes, gpu.model) for gpu in decided.cards
        },
        offered={name: amount for name, amount in decided.allocatable if name in owned},
        decided_at_ns=round((decided.at + unix_offset_s) * 1e9),
        notes=decided.notes,
        name=decided.name,
        served=frozenset(name for name in owned if decided.agent.serves(name)),
    )


#: The dialects of this project, by name; others come by entry points.
IN_TREE: Mapping[str, Callable[..., object]] = {
    SHAREDGPU.name: lambda: SHAREDGPU,
    Gpushare.name: Gpushare,
    NanoGpu.name: NanoGpu,
    Nvidia.name: Nvidia,
    SharePods.name: SharePods,
    Hami.name: Hami,
    Cambricon.name: Cambricon,
}

#: `sharedgpu` in every profile.
SHAREDGPU_ALONE = Dialects({})


# Which cards each container of a new pod sees, where that depends on the container.


Visibilities = Mapping[ContainerRef, CardVisibility]
#: (name, key of an annotation) pairs of containers.
ContainerVariables = Mapping[ContainerRef, tuple[tuple[str, str], ...]]


def container_visibility(table: DialectTable, pod: PodAsk) -> Visibilities:
    """What each container sees that sees some card; empty if all containers see the same.

    The first rule of the profile's dialects that a container meets decides, since an admission
    policy knows nothing else. Where no container meets one, the claims of containers decide.
    """
    if not table.resources:
        return {}
    chosen = table.dialect_of(pod)
    rules = [
        rule
        for one in table.dialects
        if one is chosen or not one.gives_way
        for rule in one.container_rules
    ]
    by_rule = {one.container: _first(rules, one) for one in pod.containers}
    if any(sees is not CardVisibility.VOID for sees in by_rule.values()):
        return {one: sees for one, sees in by_rule.items() if sees is not CardVisibility.VOID}
    asked = table.read(pod)
    return _by_claims(asked) if isinstance(asked, GpuRequest) else {}


def container_variables(table: DialectTable, pod: PodAsk) -> ContainerVariables:
    """The variables that containers get by the rules that they meet; see `ContainerRule`."""
    found: dict[ContainerRef, tuple[tuple[str, str], ...]] = {}
    for one in pod.containers:
        asked = {name for name, amount in one.amounts if amount}
        met = [
            rule
            for rule in table.container_rules
            if rule.resource in asked and rule.concerns(one.container)
        ]
        found[one.container] = tuple(each for rule in met for each in rule.keys_of(one.container))
    return found


def _first(rules: Sequence[ContainerRule], container: ContainerAmounts) -> CardVisibility:
    """What the first rule says that the container meets."""
    asked = {name: amount for name, amount in container.amounts if amount}
    met = (
        rule.seen(asked[rule.resource])
        for rule in rules
        if rule.resource in asked and rule.concerns(container.container)
    )
    return next(met, CardVisibility.VOID)


def _by_claims(asked: GpuRequest) -> Visibilities:
    """The visibility of a container with several claims: a share, unless all are exclusive."""
    found: dict[ContainerRef, CardVisibility] = {}
    for one in asked.claims:
        if one.container is not None:
            alone = one.claim.exclusive and found.get(one.container) is not CardVisibility.SHARE
            found[one.container] = CardVisibility.WHOLE if alone else CardVisibility.SHARE
    return found
