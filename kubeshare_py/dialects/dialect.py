"""A dialect: the form in which pods ask for GPUs, and all that the scheduler asks of it.

A dialect that adds to new pods, or refuses some, is an `AdmittingDialect` as well. The calls of
dialects that others wrote are guarded here, in one place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ParamSpec, Protocol, runtime_checkable

import msgspec

from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.domain.pod import NodeRule
from kubeshare_py.domain.printable import error_text, value_text
from kubeshare_py.domain.quota import QuotaNames
from kubeshare_py.domain.request import ContainerRef, GpuRequest, InvalidRequest

# The contract of a dialect: one way of asking for GPUs, with all that belongs to it.
#
# A dialect is one object of a class that inherits from `Dialect`. It is pure: the same question
# gets the same answer, without a clock, the network or a file. What it raises, or answers in
# another form, costs the pod in question and no other: that pod waits with the reason `dialect X
# failed`.


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedKeys:
    """The keys by which pods ask in a dialect; one of them on a pod is enough.

    `prefixes` are beginnings of keys of labels and annotations, such as `example.com/`. `resources`
    are names of extended resources that the dialect owns on every node, `contested` those that it
    owns on some nodes only, where `Dialect.owns_on` says so.
    """

    labels: frozenset[str] = frozenset()
    annotations: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    resources: frozenset[str] = frozenset()
    contested: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultKeys:
    """The annotations by which a dialect says what a pod got, besides `sharedgpu/*`.

    Users must not write any of them. `scheduler` are those that only the scheduler writes,
    `device_plugin` those that a device plugin writes too, on pods of its own node, each with the
    ServiceAccount of that plugin as `namespace/name`, or `name` in the scheduler's namespace.
    `prefixes` are beginnings of further keys of the scheduler, such as `example.com/container-` for
    keys that end with a container's name. `labels` are those of `scheduler` that the Binding
    carries as labels too, as far as a label can have their value. Users may write these labels, so
    nothing may be decided by them; API servers before Kubernetes 1.35 leave them out. `answered`
    are annotations by which pods ask, and which the Binding overwrites with what the pod got; users
    may write them, so nothing may be decided by them once the pod is bound. `common` are those
    that other dialects of the same system write too, each on its own pods.

    Invariants, else ValueError: a prefix has a slash and text before it, labels are in `scheduler`,
    and `common` are whole keys.
    """

    scheduler: frozenset[str] = frozenset()
    device_plugin: Mapping[str, str] = field(default_factory=dict)
    prefixes: tuple[str, ...] = ()
    labels: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    common: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.common - self.every:
            raise ValueError(f"{min(self.common - self.every)} is common, and no annotation")
        for prefix in self.prefixes:
            if "/" not in prefix[1:]:
                raise ValueError(f"prefix {prefix!r}: needs a slash and text before it")
        if self.labels - self.scheduler:
            raise ValueError(f"label {min(self.labels - self.scheduler)} is no annotation")

    @property
    def every(self) -> frozenset[str]:
        """The result annotations that are named by their whole keys."""
        return self.scheduler | self.device_plugin.keys()

    def has(self, key: str) -> bool:
        """Whether this is one of the annotations, by its whole key or its beginning."""
        return key in self.scheduler or key in self.device_plugin or key.startswith(self.prefixes)

    def are_written(self, key: str) -> bool:
        """Whether a Binding may have this annotation."""
        return key in self.answered or self.has(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What people call the dialect, and where its keys are explained, for messages.

    `title` is its name for people, "" for the dialect's, and `documentation` a URL.
    """

    title: str = ""
    documentation: str = ""


class ContainerAmounts(msgspec.Struct, frozen=True, gc=False):
    """What a container asks of the resources that the dialect owns; limits count as requests.

    A `sidecar` is an init container that keeps running. `amounts` are sorted (name, count) pairs.
    """

    name: str
    container: ContainerRef
    sidecar: bool
    amounts: tuple[tuple[str, int], ...]


class PodAsk(msgspec.Struct, frozen=True, gc=False):
    """What a dialect sees of a pod: the labels, annotations and resources that it owns.

    `containers` are all containers of the pod, init containers first; empty if no dialect of the
    profile owns resources. `guarantee`: the label `sharedgpu/priority` is above 0. `grouped`: the
    pod is a member of a gang by its labels. `namespace` is the pod's if the dialect is
    `by_namespace`.
    """

    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    containers: tuple[ContainerAmounts, ...] = ()
    guarantee: bool = False
    grouped: bool = False
    namespace: str = "default"


class NodeKeys(msgspec.Struct, frozen=True, gc=False):
    """A node's name, labels and annotations, and its allocatable amounts of dialects' resources."""

    name: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    offered: Mapping[str, int] = {}


class NodeCard(msgspec.Struct, frozen=True, gc=False):
    """A card of a node: the driver's index, and the memory that pods may hold of it, in bytes.

    A MIG instance has the index of the card that it is a part of.
    """

    index: int
    memory_bytes: int
    model: str


class PlacedNode(msgspec.Struct, frozen=True, gc=False):
    """The node that a pod was sent to, as it was then, for the annotations of its Binding.

    `Dialects.results` makes it of the `NodeAtDecision` of the Bind; a dialect only reads it.
    `cards` are all cards of the node. `offered` are its allocatable amounts of the resources that
    the dialect owns, by name. `decided_at_ns` is Unix time in nanoseconds; it is the same each time
    that one decision is sent. `notes` are those of the pod's request, and `name` is the node's.
    `served` are the resources of the dialect whose device plugin is this project's node agent.
    """

    cards: Mapping[GpuUuid, NodeCard]
    offered: Mapping[str, int]
    decided_at_ns: int
    notes: tuple[tuple[str, str], ...] = ()
    name: str = ""
    served: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class UnreadableHolding:
    """An annotation that does not say what a bound pod holds: why, as a sentence.

    `cards` are those that it names nevertheless: each of them is held wholly.
    """

    problem: str
    cards: tuple[GpuUuid, ...] = ()


@runtime_checkable
class Dialect(Protocol):
    """One way of asking for GPUs. A class that inherits from this needs `name`, `owns`, `read`."""

    #: In configurations, messages and allocations: letters, digits, dashes.
    name: str
    owns: OwnedKeys
    #: The annotations that `results` or the dialect's device plugin writes.
    result_keys: ResultKeys = ResultKeys()
    #: What people call it, and where its keys are explained.
    words: Words = Words()
    #: The names by which ResourceQuotas of namespaces limit its pods, whose requests then have them
    #: as `quota`.
    quota_names: QuotaNames | None = None
    #: Whether its keys mean nothing to it on pods that ask in another dialect too.
    gives_way: bool = False
    #: Whether what it reads depends on the pod's namespace, as tags do.
    by_namespace: bool = False
    #: Annotations of which one that is not empty lets all containers of a new pod see a share.
    shared_by: tuple[str, ...] = ()
    #: Which containers see cards, where that follows from the resources that they ask for.
    container_rules: tuple[ContainerRule, ...] = ()
    #: Node labels by which administrators say which nodes its pods may use; each counts.
    node_rules: tuple[NodeRule, ...] = ()
    #: What its pods need of a node beside GPUs, in words that follow `Insufficient`; `has_mark`
    #: says which nodes have it.
    marks: tuple[str, ...] = ()

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        """What a pod with some of the owned keys asks for.

        None if it asks for no GPU. An InvalidRequest names the field, its value and the rule that
        it breaks. A request's `dialect` is this dialect's name.
        """
        ...

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        """The annotations of the Binding for the dialect's own tools; keys of `result_keys`.

        `node` is where the pod goes. A card that left the node since may be missing there.
        """
        return {}

    def read_back(self, pod: PodAsk) -> Allocation | UnreadableHolding | str | None:
        """What a bound pod without `sharedgpu/allocation` holds, by its predecessor's annotations.

        A card that they name by index has `card_at` as its uuid: the ledger finds the node's card.
        The annotations of `pod` have the result keys too. None if they say nothing; a sentence if
        they cannot be read, or an `UnreadableHolding` if the cards are known nevertheless.
        """
        return None

    def visibility(self, pod: PodAsk) -> CardVisibility:
        """Which cards the containers of a new pod may see, before it is placed."""
        asked = self.read(pod)
        if asked is None:
            return CardVisibility.VOID
        whole = isinstance(asked, GpuRequest) and asked.is_exclusive
        return CardVisibility.WHOLE if whole else CardVisibility.SHARE

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        """Whether a contested resource name is the dialect's on this node, and not native."""
        return False

    def has_mark(self, mark: str, node: NodeKeys) -> bool:
        """Whether a node has one of `marks`."""
        return True


# What a dialect adds to new pods, or refuses, as the webhook of its former scheduler did.


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContainer:
    """A container of a new pod: what it asks for of the resources that dialects own, if it does."""

    name: str
    container: ContainerRef
    amounts: Mapping[str, int]
    privileged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Admitted:
    """By container: limits to add, as resource and amount, and variables to add, with their values.

    What a container has already stays as it is.
    """

    limits: Mapping[ContainerRef, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    variables: Mapping[ContainerRef, tuple[tuple[str, str], ...]] = field(default_factory=dict)


#: What is added by most dialects.
NOTHING_ADDED = Admitted()


@runtime_checkable
class AdmittingDialect(Protocol):
    """A dialect that adds to new pods, or refuses some."""

    def admitted(self, containers: Sequence[NewContainer], *, has_node: bool) -> Admitted | str:
        """What a new pod of this dialect's gets besides its cards, or why it is refused.

        `has_node`: its spec names a node already.
        """
        ...


# Calls of dialects: whatever a dialect raises, or answers in another form, ends here.


#: The most characters of a wrong answer that are shown.
_SHOWN = 100

P = ParamSpec("P")


class DialectFailed(Exception):
    """A dialect raised; the text is its exception's."""


def read_by(dialect: Dialect, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
    """The dialect's reading of a pod; of a failed dialect, a problem that names it."""
    try:
        answer = _answer(dialect.read, pod)
    except DialectFailed as error:
        return failure(dialect, str(error))
    if answer is None or isinstance(answer, InvalidRequest):
        return answer
    if not isinstance(answer, GpuRequest):
        return failure(
            dialect, f"read answered {value_text(answer, _SHOWN)}, which is no GpuRequest"
        )
    if answer.dialect != dialect.name:
        return failure(dialect, f"read answered a request of the dialect {answer.dialect!r}")
    return answer


def results_by(
    dialect: Dialect, allocation: Allocation, node: PlacedNode
) -> Mapping[str, str] | str:
    """The dialect's result annotations; a sentence if it failed."""
    try:
        answer = _answer(dialect.results, allocation, node)
    except DialectFailed as error:
        return str(failure(dialect, str(error)))
    if not isinstance(answer, Mapping):
        return str(
            failure(dialect, f"results answered {value_text(answer, _SHOWN)}, which is no mapping")
        )
    for key, value in answer.items():
        if not (isinstance(key, str) and dialect.result_keys.are_written(key)):
            return str(failure(dialect, f"{value_text(key, _SHOWN)} is none of its result keys"))
        if not isinstance(value, str):
            return str(failure(dialect, f"{key} is {value_text(value, _SHOWN)}, which is no text"))
    return answer


def read_back_by(dialect: Dialect, pod: PodAsk) -> Allocation | UnreadableHolding | str | None:
    """What a bound pod holds by the dialect's annotations; a sentence if that cannot be read."""
    try:
        answer = _answer(dialect.read_back, pod)
    except DialectFailed as error:
        return str(failure(dialect, str(error)))
    if answer is None or isinstance(answer, (Allocation, UnreadableHolding, str)):
        return answer
    return str(
        failure(dialect, f"read_back answered {value_text(answer, _SHOWN)}, which is no Allocation")
    )


def visibility_by(dialect: Dialect, pod: PodAsk) -> CardVisibility:
    """Which cards the containers may see.

    Of a failed dialect: a share, whose annotation never comes, so that no container starts.
    """
    try:
        answer = _answer(dialect.visibility, pod)
    except DialectFailed:
        return CardVisibility.SHARE
    return answer if isinstance(answer, CardVisibility) else CardVisibility.SHARE


def owns_by(dialect: Dialect, resource: str, node: NodeKeys) -> bool:
    """Whether the dialect owns a contested resource on this node; a failed dialect does not."""
    try:
        answer = _answer(dialect.owns_on, resource, node)
    except DialectFailed:
        return False
    return answer is True


def has_mark_by(dialect: Dialect, mark: str, node: NodeKeys) -> bool:
    """Whether the node has a mark; none has one of a failed dialect."""
    try:
        answer = _answer(dialect.has_mark, mark, node)
    except DialectFailed:
        return False
    return answer is True


def failure(dialect: Dialect, cause: str) -> InvalidRequest:
    """`dialect X failed: CAUSE`."""
    return InvalidRequest(field=f"dialect {dialect.name}", rule=f"failed: {cause}")


def _answer(question: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> object:
    """What the dialect answers; raises DialectFailed if it raises."""
    try:
        return question(*args, **kwargs)
    except Exception as error:
        raise DialectFailed(error_text(error)) from error
