"""A node as people see it: its cards, how they are joined, what pods hold of them, problems."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

from kubeshare_py.cluster.columns import ABSENT, CORDONED, UNHEALTHY, Columns
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.card_reading import (
    NEEDY,
    IsolationBackend,
    Part,
    ReadinessReport,
    in_words,
    not_ready_reason,
)
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.charges.device_claims import ClaimedDevices
from kubeshare_py.scheduling.explain.pod_view import container_parts
from kubeshare_py.scheduling.explain.question import Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.asked_shapes import hold_on
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.topology.card_sets import PositionSet, members
from kubeshare_py.topology.node_topology import in_order
from kubeshare_py.views.view import (
    BackendView,
    CardView,
    IslandView,
    LingeringView,
    LinkView,
    NodeView,
    RingView,
    TenantView,
    TopologyView,
)

# How a node's cards are joined, for people: from the boards that decisions are based on.
#
# Reads; decides nothing.


def node_topology(ledger: Ledger, name: NodeName) -> TopologyView | None:
    """The links, NUMA nodes and islands of a node; None if its cards are unknown."""
    columns, row = ledger.columns, ledger.columns.row_of[name]
    sets = columns.boards.sets[columns.board.item(row)]
    cards = in_order(ledger.inventory.get(name, ()))
    if not cards or sets.board.count != len(cards):
        return None
    uuids = [card.uuid for card in cards]
    idle = columns.idle_cards.item(row)
    return TopologyView(
        cards=tuple(uuids),
        numa_nodes=tuple(card.numa_node for card in cards),
        links=tuple(_links(ledger, row, cards, range(len(cards)))),
        islands=tuple(
            IslandView(
                bandwidth=min(
                    sets.board.bandwidth[one][other] for one, other in combinations(inside, 2)
                ),
                cards=tuple(uuids[at] for at in inside),
                intact=island & idle == island,
            )
            for level in sets.islands
            for island in level
            for inside in [members(island)]
        ),
    )


def ring(ledger: Ledger, name: NodeName, uuids: Iterable[GpuUuid]) -> RingView | None:
    """How several cards of a node are joined; None if some of them are not known any more."""
    columns, row = ledger.columns, ledger.columns.row_of.get(name)
    chosen = {*uuids}
    if row is None or len(chosen) <= 1:
        return None
    cards = in_order(ledger.inventory.get(name, ()))
    sets = columns.boards.sets[columns.board.item(row)]
    places = [at for at, card in enumerate(cards) if card.uuid in chosen]
    if sets.board.count != len(cards) or len(places) != len(chosen):
        return None
    return RingView(
        slowest_hop=sets.slowest_hop(PositionSet(sum(1 << at for at in places))),
        links=tuple(_links(ledger, row, cards, places)),
    )


def _links(ledger: Ledger, row: int, cards: list[Gpu], places: Iterable[int]) -> Iterable[LinkView]:
    columns = ledger.columns
    bandwidth = columns.boards.sets[columns.board.item(row)].board.bandwidth
    kinds = [_kinds(card) for card in cards]
    whole = [card.index if card.parent is None else None for card in cards]
    for one, other in combinations(places, 2):
        kind = kinds[one].get(whole[other], "") or kinds[other].get(whole[one], "")
        if kind or bandwidth[one][other]:
            yield LinkView(
                uuid=cards[one].uuid,
                peer=cards[other].uuid,
                kind=kind,
                bandwidth=bandwidth[one][other],
            )


def _kinds(card: Gpu) -> dict[int | None, str]:
    """The words of `nvidia-smi topo -m` by the index of the other card; none for an instance."""
    if card.parent is not None:
        return {}
    return {link.peer: link.kind for link in reversed(card.links)}  # the first of a peer counts


# A node as people see it: its cards, which pods hold what of them, and problems.


#: The node controller's taints, which it sets by the Node's condition Ready:
#: https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready
_SHARE_POD = "sharepod "
_NOT_READY = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


def node_view(machine: Machine, name: NodeName, topology: bool, sees: Sees = sees_all) -> NodeView:
    """A node with its cards; with `topology`, also how these are joined.

    A pod that may not be named is a tenant with the namespace "" and the name "". Raises KeyError
    for an unknown node.
    """
    columns = machine.ledger.columns
    row = columns.row_of[name]
    node = columns.nodes[row]
    return NodeView(
        name=name,
        address=node.address if node else "",
        known=node is not None,
        unschedulable=node.unschedulable if node else False,
        not_ready=any(taint.key in _NOT_READY for taint in node.taints) if node else False,
        silent=name in machine.silent_nodes,
        native_gpus=machine.ledger.held_back_on(name),
        cards=tuple(_card_views(machine, name, row, sees)),
        topology=node_topology(machine.ledger, name) if topology else None,
    )


def _card_views(machine: Machine, name: NodeName, row: int, sees: Sees) -> list[CardView]:
    columns, ledger = machine.ledger.columns, machine.ledger
    tenants = _tenants(machine.ledger, machine.records, name, sees)
    for uuid, claimed in _claims(machine.devices, name, sees):
        tenants.setdefault(uuid, []).append(claimed)
    waited_for, lingering = _waited_for(machine, name, sees), _lingering(machine, name, sees)
    backends = _backends(machine.profiles)
    rivals = ledger.claims.rivals(name)
    gpus = {gpu.uuid: gpu for gpu in ledger.inventory.get(name, ())}
    unheld_by_tenants = {uuid: _unheld(of) for uuid, of in tenants.items()}
    in_columns = _CardColumns(columns, row)
    readiness = {
        at: tuple(_backend_view(columns.readiness_sets[at], one) for one in backends)
        for at in {*in_columns.readiness}
    }
    views = []
    for slot, uuid in enumerate(columns.uuids[row]):
        flags = in_columns.flags[slot]
        capacity, milli = in_columns.capacity_bytes[slot], in_columns.capacity_milli[slot]
        reserved_milli = in_columns.reserved_milli[slot]
        there = tenants.get(uuid, ())
        gpu = gpus.get(uuid)
        views.append(
            CardView(
                uuid=uuid,
                index=gpu.index if gpu else -1,
                model=columns.model_names[in_columns.model[slot]],
                known=not flags & ABSENT,
                healthy=not flags & UNHEALTHY,
                cordoned=bool(flags & CORDONED),
                memory_bytes=capacity,
                capacity_milli=milli,
                memory_scaling=gpu.memory_scaling if gpu else WHOLE_MILLI,
                max_tenants=in_columns.max_tenants[slot],
                used_bytes=capacity - in_columns.free_bytes[slot] - in_columns.reserved_bytes[slot],
                used_milli=milli - in_columns.free_milli[slot] - reserved_milli,
                reserved_milli=reserved_milli,
                reserved_for=tuple(sorted(waited_for.get(uuid, ()))),
                tenants=tuple(sorted(there, key=_by_name)) if len(there) > 1 else tuple(there),
                unheld=unheld_by_tenants.get(uuid, ()),
                isolation=() if flags & ABSENT else readiness[in_columns.readiness[slot]],
                claimed_by=rivals.get(uuid, ()),
                lingering=tuple(lingering.get(uuid, ())),
            )
        )
    return sorted(views, key=lambda view: (view.index, view.uuid))


class _CardColumns:
    """One row's columns of cards as lists by slot: cheaper than one array access for each value."""

    def __init__(self, columns: Columns, row: int) -> None:
        self.flags: list[int] = columns.flags[row].tolist()
        self.model: list[int] = columns.model[row].tolist()
        self.capacity_bytes: list[int] = columns.capacity_bytes[row].tolist()
        self.capacity_milli: list[int] = columns.capacity_milli[row].tolist()
        self.free_bytes: list[int] = columns.free_bytes[row].tolist()
        self.free_milli: list[int] = columns.free_milli[row].tolist()
        self.reserved_bytes: list[int] = columns.reserved_bytes[row].tolist()
        self.reserved_milli: list[int] = columns.reserved_milli[row].tolist()
        self.max_tenants: list[int] = columns.max_tenants[row].tolist()
        self.readiness: list[int] = columns.readiness[row].tolist()


def _unheld(tenants: Iterable[TenantView]) -> tuple[Part, ...]:
    """The parts that are not enforced for some tenant."""
    found = {part for one in tenants for part in one.unheld}
    return tuple(part for part in Part if part in found) if found else ()


def _by_name(tenant: TenantView) -> tuple[str, str]:
    return tenant.namespace, tenant.name


def _backends(profiles: Mapping[str, Profile]) -> list[IsolationBackend]:
    """The back-ends that need something of a node and that some profile allows."""
    used = {one for profile in profiles.values() for one in profile.isolation.allowed}
    return [one for one in NEEDY if one in used]


def _backend_view(report: ReadinessReport, backend: IsolationBackend) -> BackendView:
    reason = not_ready_reason(report, backend)
    ready = None if reason is None else not reason
    return BackendView(backend=backend, ready=ready, reason=in_words(reason) if reason else "")


def _tenants(
    ledger: Ledger, records: Mapping[PodUid, Record], name: NodeName, sees: Sees
) -> dict[str, list[TenantView]]:
    """The pods' parts of cards, by the card's uuid."""
    tenants: dict[str, list[TenantView]] = {}
    for uid, charge in ledger.pods_on(name).items():
        allocation = charge.allocation
        if allocation is None:
            continue
        pod = records[uid].pod
        key = pod.key
        seen = sees(key.namespace)
        hold = hold_on(ledger, name, allocation)
        not_enforced = {uuid for uuid, _ in hold.not_ready}
        unheld = allocation.unheld
        parts = container_parts(allocation) if seen else {}
        for card in allocation.cards:
            by_nature = () if card.exclusive else unheld
            tenants.setdefault(card.uuid, []).append(
                TenantView(
                    namespace=key.namespace if seen else "",
                    name=key.name if seen else "",
                    milli=card.milli,
                    memory_bytes=card.memory_bytes,
                    exclusive=card.exclusive,
                    dialect=allocation.dialect if seen else "",
                    card_name=card.name if seen else "",
                    share_pod=_share_pod(pod) if seen else "",
                    unheld=hold.unheld if card.uuid in not_enforced else by_nature,
                    containers=parts.get(card.uuid, ()),
                )
            )
    return tenants


def _share_pod(pod: Pod) -> str:
    """The SharePod that the pod was made of; "" if its controller is another object, or none."""
    title = pod.owner_title
    return title[len(_SHARE_POD) :] if title.startswith(_SHARE_POD) else ""


def _claims(
    devices: ClaimedDevices, name: NodeName, sees: Sees
) -> Iterator[tuple[str, TenantView]]:
    """The cards that ResourceClaims hold, with the claims as their tenants."""
    for one in devices.on(name):
        seen = sees(one.claim.namespace)
        for card in one.cards:
            yield (
                card.uuid,
                TenantView(
                    namespace=one.claim.namespace if seen else "",
                    name=f"resourceclaim/{one.claim.name}" if seen else "",
                    milli=card.milli,
                    memory_bytes=card.memory_bytes,
                    exclusive=True,
                ),
            )


def _lingering(machine: Machine, name: NodeName, sees: Sees) -> dict[str, list[LingeringView]]:
    """The parts of pods deleted by force, by the card's uuid, the first to end first."""
    found: dict[str, list[LingeringView]] = {}
    for one in sorted(machine.lingering.on(name), key=lambda one: (one.until, str(one.key))):
        seen, charge = sees(one.key.namespace), machine.ledger.lingering[one.record.pod.uid]
        for card in charge.allocation.cards if charge.allocation else ():
            found.setdefault(card.uuid, []).append(
                LingeringView(
                    namespace=one.key.namespace if seen else "",
                    name=one.key.name if seen else "",
                    milli=card.milli,
                    memory_bytes=card.memory_bytes,
                    for_s=machine.time_until_s(one.until),
                )
            )
    return found


def _waited_for(machine: Machine, name: NodeName, sees: Sees) -> dict[str, set[str]]:
    """For which pods and gangs the cards of a node are reserved."""
    found: dict[str, set[str]] = {}
    for uid, charge in machine.ledger.reservations_on(name).items():
        reservation = machine.reservations.reservation_of(uid)
        for card in charge.allocation.cards if charge.allocation and reservation else ():
            shown = reservation_name(machine, reservation, sees) if reservation else ""
            found.setdefault(card.uuid, set()).add(shown)
    return found
