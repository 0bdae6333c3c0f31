"""Questions about what would happen, answered by a simulated cluster.

Each takes a cluster that knows what the scheduler knows, and settles it first: what the scheduler
is about to do anyhow is no consequence of what is supposed. A settled cluster is used up by one
question.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from typing import Any

from kubeshare_py.domain.cluster_objects import PodGroupObject
from kubeshare_py.domain.device import ResourceSlice
from kubeshare_py.domain.events import (
    Event,
    InventoryRead,
    NodeSeen,
    ObjectSeen,
    PodGone,
    PodGroupSeen,
    PodSeen,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.storage import CsiNode
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.scheduler_profile import ProfilesReplaced
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.pod_records import PodState, Record
from kubeshare_py.simulation.cluster import Eviction, SimulatedCluster
from kubeshare_py.views.foresight import (
    CapacityView,
    ForeseenCard,
    ForeseenEviction,
    ForeseenOutcome,
    ForeseenPod,
    NodeCount,
    PodEnd,
    ScarceView,
    WhatIfView,
    WhenView,
)
from kubeshare_py.views.view import WhyView

#: A cluster is settled once nothing moved for so long (s) of simulated time: refused pods are tried
#: again within 10 s by default, and cards are reserved for those that waited for a minute.
QUIET_S = 75.0
HOSTNAME = "kubernetes.io/hostname"
_WITHOUT_PLACE = (PodState.WAITING, PodState.BACKOFF, PodState.GATED, PodState.DELEGATED)


class ImpossibleSupposition(ValueError):
    """What is supposed cannot be; the text says why."""


# What may be supposed.


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that would be created, and what makes it, as `job/train`."""

    pod: Pod
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Supposition:
    """What would be changed, all at once, in this order.

    `profiles` would be in effect, `added` nodes like `like` would come, nodes of `cordoned` would
    take no new pods, the pods `without` would end, `objects` would be created, and then `pods`.
    """

    profiles: ProfilesReplaced | None = None
    added: int = 0
    like: NodeName | None = None
    cordoned: tuple[NodeName, ...] = ()
    without: tuple[PodKey, ...] = ()
    objects: tuple[Event, ...] = ()
    pods: tuple[NewPod, ...] = ()

    def in_words(self) -> Iterator[str]:
        """A sentence for each change but the new pods."""
        if self.profiles is not None:
            names = ", ".join(one.scheduler_name for one in self.profiles.configured)
            yield f"the given configuration decides for pods of {names}"
        if self.added:
            nodes = "1 node is" if self.added == 1 else f"{self.added} nodes are"
            yield f"{nodes} added, like {self.like}"
        for node in self.cordoned:
            yield f"{node} takes no new pods"
        for key in self.without:
            yield f"{key} ends"


def _supposed(cluster: SimulatedCluster, given: Supposition) -> Iterator[ProfilesReplaced | Event]:
    """The events of the changes. Raises ImpossibleSupposition."""
    machine = cluster.machine
    if given.profiles is not None:
        yield _replaced(machine, given.profiles)
    if given.added and given.like is not None:
        yield from _new_nodes(cluster, given.like, given.added)
    for name in given.cordoned:
        yield NodeSeen(replace(_node(cluster, name), unschedulable=True))
    for key in given.without:
        yield PodGone(_uid_of(machine, key), stopped=True)
    yield from given.objects
    for one in given.pods:
        yield PodSeen(one.pod)


def _replaced(machine: Machine, event: ProfilesReplaced) -> ProfilesReplaced:
    names = {one.scheduler_name for one in event.configured}
    if names != machine.profiles.keys():
        theirs, ours = ", ".join(sorted(names)), ", ".join(sorted(machine.profiles))
        raise ImpossibleSupposition(
            f"profiles: their schedulerNames are {theirs}; the scheduler has {ours}"
        )
    return event


def _node(cluster: SimulatedCluster, name: NodeName) -> Node:
    node = cluster.node(name)
    if node is None:
        raise ImpossibleSupposition(f"the scheduler knows no node {name}")
    return node


def _uid_of(machine: Machine, key: PodKey) -> PodUid:
    uids = (uid for uid, record in machine.records.items() if record.pod.key == key)
    uid = next(uids, None)
    if uid is None:
        raise ImpossibleSupposition(f"the scheduler knows no pod {key}")
    return uid


def _new_nodes(cluster: SimulatedCluster, like: NodeName, wanted: int) -> Iterator[Event]:
    """Copies of a node without its pods: its labels, taints, amounts, cards and drivers."""
    machine, node = cluster.machine, _node(cluster, like)
    objects = machine.ledger.columns.objects
    drivers = next((one for one in objects.of(CsiNode).values() if one.name == like), None)
    if any(one.pool == like for one in objects.of(ResourceSlice).values()):
        raise ImpossibleSupposition(
            f"{like} has devices of ResourceSlices: no more of these can be supposed"
        )
    cards = machine.ledger.claims.as_listed.get(like, ())
    taken, silent = set(machine.ledger.columns.row_of), tuple(sorted(machine.silent_nodes))
    numbered = ((number, NodeName(f"{like}-like-{number}")) for number in count(1))
    for number, name in islice((one for one in numbered if one[1] not in taken), wanted):
        labels = {**node.labels, **({HOSTNAME: str(name)} if HOSTNAME in node.labels else {})}
        yield NodeSeen(replace(_empty(node), name=name, labels=labels))
        copies = tuple(_copy(card, number) for card in cards)
        yield InventoryRead(((name, copies),), silent)
        if drivers is not None:
            yield ObjectSeen(replace(drivers, name=name))


def _copy(card: Gpu, number: int) -> Gpu:
    """The card as another one: what two nodes list, or parts of it, counts on neither of them."""
    parent = None if card.parent is None else GpuUuid(f"{card.parent}-like-{number}")
    return replace(card, uuid=GpuUuid(f"{card.uuid}-like-{number}"), parent=parent)


def _empty(node: Node) -> Node:
    """The node as it is before its first pod."""
    agent = node.agent if node.agent.picks is None else replace(node.agent, picks=())
    locks = tuple(replace(one, owner=None, text="") for one in node.locks)
    return replace(node, agent=agent, locks=locks, cordoned=(), unschedulable=False)


# What-if.


def what_if(cluster: SimulatedCluster, given: Supposition, notes: Sequence[str] = ()) -> WhatIfView:
    """What would become of new pods, and what else would change. Raises ImpossibleSupposition."""
    machine = cluster.machine
    waited = _waiting(machine)
    cluster.settle(QUIET_S)
    soon = [uid for uid in waited if uid in cluster.placed]
    still, evicted_anyhow = _waiting(machine), len(cluster.evicted)
    cluster.tell(_supposed(cluster, given))
    cluster.settle(QUIET_S)
    evicted = cluster.evicted[evicted_anyhow:]
    new = {one.pod.uid for one in given.pods}
    started = [uid for uid in still if uid in cluster.placed]
    return WhatIfView(
        changes=tuple(given.in_words()),
        pods=tuple(_new_pods(cluster, given.pods, {one.uid: one for one in evicted})),
        evicted=tuple(_eviction(machine, one) for one in evicted if one.uid not in new),
        started=tuple(_placed(machine, machine.records[uid]) for uid in _there(machine, started)),
        soon=tuple(_placed(machine, machine.records[uid]) for uid in _there(machine, soon)),
        still_waiting=sum(uid not in new for uid in _waiting(machine)),
        notes=tuple(notes),
    )


def _there(machine: Machine, uids: Iterable[PodUid]) -> Iterator[PodUid]:
    return (uid for uid in uids if uid in machine.records)


def _waiting(machine: Machine) -> list[PodUid]:
    return [
        uid
        for uid, record in machine.records.items()
        if record.state in _WITHOUT_PLACE and record.pod.scheduler_name in machine.profiles
    ]


def _new_pods(
    cluster: SimulatedCluster, pods: Sequence[NewPod], evicted: Mapping[PodUid, Eviction]
) -> Iterator[ForeseenPod]:
    """Reasons are looked for once for each object: its other pods mostly wait for the same."""
    machine = cluster.machine
    explained: dict[str, str] = {}
    for one in pods:
        key, owner = one.pod.key, one.owner
        waits = partial(ForeseenPod, key.namespace, key.name, owner, ForeseenOutcome.WAITS)
        record = machine.records.get(one.pod.uid)
        if record is None:
            gone = evicted.get(one.pod.uid)
            message = "it would be evicted again" + (f": {gone.message}" if gone else "")
            yield waits(message=message)
        elif record.node is not None:
            yield _placed(machine, record, owner)
        elif owner in explained:
            yield waits(message=explained[owner])
        else:
            found = why(machine, key)
            message = explained[owner] = found.message if found is not None else ""
            yield waits(message=message, why=found)


def _placed(machine: Machine, record: Record, owner: str = "") -> ForeseenPod:
    key, node = record.pod.key, record.node or NodeName("")
    held = record.allocation.cards if record.allocation is not None else ()
    uuids = tuple(dict.fromkeys(card.uuid for card in held))
    waits = record.state is PodState.PREBINDING and record.waits_for
    message = f"it then waits for {record.waits_for}" if waits else ""
    return ForeseenPod(
        key.namespace,
        key.name,
        owner or f"pod/{key.name}",
        ForeseenOutcome.PLACED,
        node=node,
        cards=_cards(machine, node, uuids),
        message=message,
    )


def _cards(
    machine: Machine, node: NodeName | None, uuids: Sequence[GpuUuid]
) -> tuple[ForeseenCard, ...]:
    known = machine.ledger.inventory.get(node, ()) if node is not None else ()
    indexes = {card.uuid: card.index for card in known}
    return tuple(ForeseenCard(uuid, indexes.get(uuid, -1)) for uuid in uuids)


def _eviction(machine: Machine, one: Eviction) -> ForeseenEviction:
    key = one.key
    return ForeseenEviction(
        key.namespace,
        key.name,
        one.node or "",
        _cards(machine, one.node, one.cards),
        one.message,
    )


# Capacity.


#: The most pods that are put into the cluster at a time, and in all.
_BATCH, MOST_PODS = 512, 100_000
#: Makes the pods of one more set, with names of their own.
MakeSet = Callable[[int], Sequence[NewPod]]


def capacity(
    cluster: SimulatedCluster,
    make: MakeSet,
    objects: Sequence[Event] = (),
    notes: Sequence[str] = (),
) -> CapacityView:
    """How many more sets of pods fit, without any eviction. `make` gets the set's number.

    Sets of one pod are counted many at a time, because equal pods are placed in their order; others
    one after the other. Pods of the cluster that wait fit nowhere, so that they take no place.
    """
    machine = cluster.machine
    cluster.settle(QUIET_S)
    cluster.tell(one for one in objects if not isinstance(one, PodGroupSeen))
    groups = [one.group for one in objects if isinstance(one, PodGroupSeen)]
    more, each, sets = 0, len(make(0)), 0
    at_once = _BATCH if each == 1 else 1
    per_node: Counter[str] = Counter()
    first: Pod | None = None
    while first is None and sets * each < MOST_PODS:
        numbers = range(sets, sets + at_once)
        made = [[_of_set(one.pod, number) for one in make(number)] for number in numbers]
        sets += at_once
        for number in numbers if groups else ():
            cluster.tell(PodGroupSeen(_group_of_set(one, number)) for one in groups)
        cluster.tell(PodSeen(pod) for pods in made for pod in pods)
        cluster.settle()
        for pods in made:
            nodes = [machine.records[pod.uid].node for pod in pods]
            if None in nodes:
                first = first or pods[nodes.index(None)]
                continue
            more += 1
            per_node.update(str(node) for node in nodes)
    found = why(machine, first.key) if first is not None else None
    return CapacityView(
        more=more,
        pods_each=each,
        is_limit=first is None,
        nodes=tuple(NodeCount(name, number) for name, number in sorted(per_node.items())),
        scarce=_scarce(found, per_node.keys()) if found is not None else (),
        message=found.message if found is not None else "",
        advice=found.advice if found is not None else (),
        notes=tuple(notes),
    )


def _of_set(pod: Pod, number: int) -> Pod:
    """The pod as one that evicts no others, in a gang of its own set."""
    pod = replace(pod, preempts=False)
    if pod.group is not None:
        pod = replace(pod, group=replace(pod.group, name=f"{pod.group.name}-{number}"))
    if pod.group_reference is not None:
        name = f"{pod.group_reference.name}-{number}"
        pod = replace(pod, group_reference=replace(pod.group_reference, name=name))
    return pod


def _group_of_set(group: PodGroupObject, number: int) -> PodGroupObject:
    return replace(group, name=f"{group.name}-{number}")


def _scarce(found: WhyView, used: Iterable[str]) -> tuple[ScarceView, ...]:
    took, counts, all_counts = set(used), Counter[str](), Counter[str]()
    for verdict in found.nodes:
        names = {verdict.name, *verdict.alike}
        for reason in verdict.reasons:
            counts[reason] += len(names & took)
            all_counts[reason] += len(names)
    chosen = +counts or all_counts
    ranked = sorted(chosen.items(), key=lambda one: (-one[1], one[0]))
    return tuple(ScarceView(reason, nodes) for reason, nodes in ranked)


# When.


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """A running pod ends `in_s` seconds from now at the latest; `by` says which field says so."""

    in_s: float
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEnds:
    """When running pods end, by their uid; `at` writes a time in so many seconds as RFC 3339."""

    at: Callable[[float], str]
    deadlines: Mapping[PodUid, Deadline] = field(default_factory=dict)


def when(
    cluster: SimulatedCluster, key: PodKey, ends: KnownEnds, notes: Sequence[str] = ()
) -> WhenView:
    """When a waiting pod is placed, if running pods end by their deadlines and no pods come.

    Raises ImpossibleSupposition for a pod that the scheduler does not know.
    """
    machine, began = cluster.machine, cluster.now
    uid = _uid_of(machine, key)
    if _node_of(machine, uid):
        return _when(machine, uid, key, "placed", notes=notes)
    cluster.settle(QUIET_S)
    if _node_of(machine, uid):
        return _when(machine, uid, key, "now", notes=notes)
    known = {one: end for one, end in ends.deadlines.items() if _node_of(machine, one)}
    running = sum(one.node is not None for one in machine.records.values())
    said: list[PodEnd] = []
    given: dict[str, Any] = {
        "with_deadline": len(known),
        "without_deadline": running - len(known),
        "notes": notes,
    }
    for other, end in sorted(known.items(), key=lambda one: (one[1].in_s, one[0])):
        in_s = max(0.0, end.in_s)
        cluster.wait_until(began + in_s)
        if not _node_of(machine, uid) and other in machine.records:
            own = machine.records[other].pod.key
            node = _node_of(machine, other)
            said.append(PodEnd(own.namespace, own.name, node, ends.at(in_s), end.by))
            cluster.tell((PodGone(other, stopped=True),))
            cluster.settle()
        if node := _node_of(machine, uid):
            in_s = max(0.0, cluster.now - began)
            there = tuple(one for one in said if one.node == node)
            return _when(machine, uid, key, "by", at=ends.at(in_s), in_s=in_s, ends=there, **given)
    found = why(machine, key)
    message = found.message if found is not None else ""
    return _when(machine, uid, key, "unknown", message=message, why=found, **given)


def _node_of(machine: Machine, uid: PodUid) -> str:
    """The node where a pod holds its place, "" for none."""
    record = machine.records.get(uid)
    return "" if record is None else record.node or ""


def _when(machine: Machine, uid: PodUid, key: PodKey, state: str, **given: Any) -> WhenView:
    given["notes"] = tuple(given.get("notes", ()))
    record = machine.records.get(uid)
    place = None if record is None or record.node is None else _placed(machine, record)
    if place is not None:
        given |= {"node": place.node, "cards": place.cards}
    return WhenView(key.namespace, key.name, state, **given)
