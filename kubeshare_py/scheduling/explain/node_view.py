"""A node as people see it: its cards, which pods hold what of them, and problems."""

from collections.abc import Iterator, Mapping

from kubeshare_py.cluster.columns import ABSENT, CORDONED, UNHEALTHY
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.isolation import IsolationBackend, Part
from kubeshare_py.domain.readiness import NEEDY, ReadinessReport, in_words, not_ready_reason
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.device_claims import ClaimedDevices
from kubeshare_py.scheduling.explain.card_topology import node_topology
from kubeshare_py.scheduling.explain.container_views import container_parts
from kubeshare_py.scheduling.explain.visibility import Sees, reservation_name, sees_all
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.isolation_hold import hold_on
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.views.view import BackendView, CardView, LingeringView, NodeView, TenantView

#: The node controller's taints, which it sets by the Node's condition Ready:
#: https://kubernetes.io/docs/reference/labels-annotations-taints/#node-kubernetes-io-not-ready
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
    views = []
    for slot, uuid in enumerate(columns.uuids[row]):
        flags = columns.flags.item(row, slot)
        there = tuple(sorted(tenants.get(uuid, ()), key=lambda t: (t.namespace, t.name)))
        capacity, milli = (
            columns.capacity_bytes.item(row, slot),
            columns.capacity_milli.item(row, slot),
        )
        gpu = gpus.get(uuid)
        views.append(
            CardView(
                uuid=uuid,
                index=gpu.index if gpu else -1,
                model=columns.model_names[columns.model[row, slot]],
                known=not flags & ABSENT,
                healthy=not flags & UNHEALTHY,
                cordoned=bool(flags & CORDONED),
                memory_bytes=capacity,
                capacity_milli=milli,
                memory_scaling=gpu.memory_scaling if gpu else WHOLE_MILLI,
                max_tenants=columns.max_tenants.item(row, slot),
                used_bytes=capacity
                - columns.free_bytes.item(row, slot)
                - columns.reserved_bytes.item(row, slot),
                used_milli=milli
                - columns.free_milli.item(row, slot)
                - columns.reserved_milli.item(row, slot),
                reserved_milli=columns.reserved_milli.item(row, slot),
                reserved_for=tuple(sorted(waited_for.get(uuid, ()))),
                tenants=there,
                unheld=tuple(part for part in Part if any(part in one.unheld for one in there)),
                isolation=tuple(
                    _backend_view(columns.readiness_sets[columns.readiness.item(row, slot)], one)
                    for one in backends
                    if not flags & ABSENT
                ),
                claimed_by=rivals.get(uuid, ()),
                lingering=tuple(lingering.get(uuid, ())),
            )
        )
    return sorted(views, key=lambda view: (view.index, view.uuid))


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
        key = records[uid].pod.key
        seen = sees(key.namespace)
        hold = hold_on(ledger, name, charge.allocation)
        not_enforced = {uuid for uuid, _ in hold.not_ready}
        if charge.allocation is None:
            continue
        parts = container_parts(charge.allocation) if seen else {}
        for card in charge.allocation.cards:
            by_nature = () if card.exclusive else charge.allocation.unheld
            tenants.setdefault(card.uuid, []).append(
                TenantView(
                    namespace=key.namespace if seen else "",
                    name=key.name if seen else "",
                    milli=card.milli,
                    memory_bytes=card.memory_bytes,
                    exclusive=card.exclusive,
                    dialect=charge.allocation.dialect if seen else "",
                    card_name=card.name if seen else "",
                    unheld=hold.unheld if card.uuid in not_enforced else by_nature,
                    containers=parts.get(card.uuid, ()),
                )
            )
    return tenants


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
                    for_s=machine.left_s(one.until),
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
