"""One placement: its allocation, charged in the ledger and shown to plugins, or undone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeVar

from kubeshare_py.cluster.charge import card_charges, claim_charges, with_names
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.refusal import NO_SUCH_CARD, REFUSES, refusal
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.cluster.tables import Tables
from kubeshare_py.domain.allocation import (
    MAX_OWNERS,
    Allocation,
    CardCharge,
    ClaimCharge,
    common_limit,
    summed,
)
from kubeshare_py.domain.gpu_capacities import Capacities
from kubeshare_py.domain.identity import DecisionToken, NodeName, PodUid
from kubeshare_py.domain.isolation import Isolation, IsolationBackend
from kubeshare_py.domain.needs.object_writes import ObjectWrite
from kubeshare_py.domain.needs.placed_pod import PlacedPod
from kubeshare_py.domain.needs.volumes import VolumeChoice
from kubeshare_py.domain.node import NO_AGENT, NodeAtDecision
from kubeshare_py.domain.pod import Pod, Shape
from kubeshare_py.domain.request import ContainerClaim, GuestContainer
from kubeshare_py.framework.choice import Choice
from kubeshare_py.framework.evaluator import Evaluator
from kubeshare_py.framework.plugin_calls import PluginCalls
from kubeshare_py.framework.points import PendingPlacement, PreBindAnswer, Rejected
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.binding.gpu_quotas import GpuQuotas
from kubeshare_py.scheduling.queue import queue_moves
from kubeshare_py.scheduling.queue.pod_records import Record
from kubeshare_py.scheduling.queue.queue_moves import QueueMoves

R = TypeVar("R")

#: The plugin without which ResourceClaims of pods would not be allocated.
_DEVICES = "DynamicResources"
#: Why a placement is refused whose claims would stay without their volumes, or without devices.
NO_PRE_BIND = "its claims need volumes, and its profile has no PreBind plugin that binds them"
NO_DEVICES = f"it has spec.resourceClaims, and its profile has no plugin {_DEVICES}"


class Assumer:
    """Charges pods to their places. `name` makes its decision tokens unique."""

    def __init__(
        self,
        ledger: Ledger,
        evaluators: Mapping[str, Evaluator],
        calls: PluginCalls,
        moves: QueueMoves,
        name: str,
    ) -> None:
        self._calls = calls
        self._ledger = ledger
        self._evaluators = evaluators
        self._profiles = calls.profiles
        self._moves = moves
        self._name = name
        self._decisions = 0
        #: What namespaces hold of GPUs, and may hold.
        self.quotas = GpuQuotas(ledger.columns.objects)

    def place(
        self,
        record: Record,
        choice: Choice,
        tables: Tables,
        cards: tuple[CardCharge, ...] | None = None,
    ) -> str | None:
        """Charge the pod to its place, which is free in `tables`.

        `cards` is what it takes of them, if that was worked out before.
        Returns a sentence instead if a plugin refuses it, or if the ledger refuses because it takes
        more than is free; the ledger's rule then becomes one of the profile's filters.
        """
        pod, columns = record.pod, self._ledger.columns
        node = columns.names[choice.row]
        assert node is not None
        forbidden = self._calls.permit(pod, node)
        if forbidden is not None:
            return forbidden
        allocation = self._allocation(record, choice, node, cards)
        over = self.quotas.refusal(pod, allocation)
        if over is not None:
            return over
        lack: str | None = NO_SUCH_CARD
        if allocation is not None:
            resources, port = record.shape.resources, record.shape.needs_port
            lack = refusal(tables.columns, choice.row, resources, allocation, port)
        if lack is not None:
            self._evaluators[pod.scheduler_name].add_ledger_filter()
            return f"{REFUSES}{lack}"
        placed = pod.placed
        if placed.volumes is not None:
            placed = OneRow(columns, choice.row).volumes.with_choice(placed)
        lack = _lack(pod, placed.choice, self._profiles[pod.scheduler_name])
        if lack is not None:
            return lack
        problem = self.charge(record, node, allocation, placed)
        if problem is not None:
            self.take_back(record)
        return problem

    def pre_bind(self, record: Record, written: Sequence[ObjectWrite]) -> tuple[PreBindAnswer, str]:
        """What PreBind plugins answer about a charged pod: see `PluginCalls.pre_bind`."""
        columns, node = self._ledger.columns, record.node
        assert node is not None
        row = columns.row_of.get(node)
        if row is None or columns.nodes[row] is None:
            return Rejected(f'node "{node}" not found'), ""
        charge = self._ledger.charge_of(record.pod.uid)
        choice = charge.pod.choice if charge is not None and charge.pod is not None else None
        lack = _lack(record.pod, choice, self._profiles[record.pod.scheduler_name])
        if lack is not None:  # the profile is another one than when the pod was placed
            return Rejected(lack), ""
        placement = PendingPlacement(choice=choice, written=tuple(written))
        return self._calls.pre_bind(record.pod, OneRow(columns, row), placement)

    def node_of(self, record: Record, now: float) -> NodeAtDecision:
        """What the node of a charged pod has `now` (s)."""
        columns, name = self._ledger.columns, record.node
        assert name is not None
        request = record.pod.request
        row = columns.row_of.get(name)
        node = None if row is None else columns.nodes[row]
        return NodeAtDecision(
            name=name,
            cards=self._ledger.inventory.get(name, ()),
            allocatable=() if node is None else node.allocatable,
            at=now,
            notes=() if request is None else request.notes,
            agent=NO_AGENT if node is None else node.agent,
        )

    def charge(
        self,
        record: Record,
        node: NodeName,
        allocation: Allocation | None,
        placed: PlacedPod | None = None,
    ) -> str | None:
        """Charge the pod and call Reserve plugins if it is this scheduler's.

        `placed` has the volumes that its claims are to get, if any. The charge stands even if a
        plugin fails; returns the failure's text, or None.
        """
        pod = record.pod
        resources, placed = pod.shape.charged, placed or pod.placed
        held = self._ledger.charge(pod.uid, node, resources, allocation, placed)
        record.node, record.allocation = node, held
        self.quotas.hold(pod, held)
        return self._calls.reserve(pod, node, held)

    def edited(self, record: Record, pod: Pod) -> None:
        """Charge a placed pod what it takes of its node now; what it holds of cards stays."""
        assert record.node is not None
        resources, held = pod.shape.charged, record.allocation
        self._ledger.charge(pod.uid, record.node, resources, held, pod.placed)
        self.quotas.hold(pod, held)

    def shrink(self, record: Record, pod: Pod, left: Allocation) -> None:
        """Charge a placed pod what is `left` of the cards that it held."""
        assert record.node is not None
        self._moves.improved_by = queue_moves.ASSIGNED_POD_DELETE
        charged, placed = pod.shape.charged, pod.placed
        record.allocation = self._ledger.charge(pod.uid, record.node, charged, left, placed)
        self.quotas.hold(pod, record.allocation)

    def release(self, record: Record) -> None:
        """Undo `charge`; the record must be charged. What becomes free improves rows."""
        self._moves.improved_by = queue_moves.ASSIGNED_POD_DELETE
        self._end(record, self._ledger.release)
        record.node = record.allocation = None

    def linger(self, record: Record) -> bool:
        """`release` the pod but keep its GPUs charged, because its containers may still run.

        False if it holds none.
        """
        self._moves.improved_by = queue_moves.ASSIGNED_POD_DELETE
        return self._end(record, self._ledger.linger)

    def take_back(self, record: Record) -> None:
        """Undo `place` as if it had not been called."""
        self._end(record, self._ledger.take_back)
        record.node = record.allocation = None

    def _end(self, record: Record, end: Callable[[PodUid], R]) -> R:
        """End the record's charge by `end` of the ledger, and call `unreserve` of plugins."""
        pod, node = record.pod, record.node
        assert node is not None
        result = end(pod.uid)
        self.quotas.release(pod.uid)
        self._calls.unreserve(pod, node)
        return result

    def _allocation(
        self,
        record: Record,
        choice: Choice,
        node: NodeName,
        cards: tuple[CardCharge, ...] | None,
    ) -> Allocation | None:
        """The pod's allocation; None if a plugin chose an empty slot."""
        if choice.slots and max(choice.slots) >= len(self._ledger.columns.uuids[choice.row]):
            return None
        self._decisions += 1
        pod = record.pod
        shape, group = record.shape, pod.group
        claims = self._claims(pod, shape, choice)
        if claims:
            cards = summed(card for claim in claims for card in claim.cards)
        elif cards is None:
            cells = self._ledger.cells_on(choice.row)
            columns = self._ledger.columns
            cards = card_charges(columns, choice.row, choice.slots, shape.claims, cells)
        if shape.claim is not None and shape.claim.is_named:
            columns, namespace = self._ledger.columns, pod.key.namespace
            cards = with_names(columns, choice.row, choice.slots, cards, namespace)
        return Allocation(
            token=DecisionToken(f"{self._name}-{self._decisions}"),
            dialect=pod.request.dialect if pod.request else "",
            cards=cards,
            claims=claims,
            port=self._ledger.next_port(node) if shape.needs_port else None,
            group=group.name if group else None,
            min_available=group.min_available if group else 0,
            group_owners=_group_owners(record) if group else (),
            isolation=self._isolation(pod, cards, claims),
        )

    def _claims(self, pod: Pod, shape: Shape, choice: Choice) -> tuple[ClaimCharge, ...]:
        """What each of the pod's containers gets; empty if all see the same cards."""
        if pod.request is None or pod.request.is_pod_wide:
            return ()
        row, cells = choice.row, self._ledger.cells_on(choice.row)
        found = claim_charges(self._ledger.columns, row, choice.slots, shape.claims, cells)
        profile = self._profiles[pod.scheduler_name]
        charges = tuple(
            ClaimCharge(
                container=one.container,
                cards=cards,
                limit_milli=_limit(one, cards, profile.capacities),
            )
            for one, cards in zip(pod.request.claims, found, strict=True)
            if one.container is not None
        )
        return charges + _of_guests(pod.request.guests, charges)

    def _isolation(
        self, pod: Pod, cards: Sequence[CardCharge], claims: Sequence[ClaimCharge]
    ) -> Isolation | None:
        """What enforces its share; None for whole cards and for `none`."""
        if pod.request is None or pod.request.is_exclusive:
            return None
        profile = self._profiles[pod.scheduler_name]
        backend = profile.isolation.chosen(pod.isolation)
        if backend is IsolationBackend.NONE:
            return None
        if claims:
            limit = common_limit(one.limit_milli for one in claims if not one.exclusive)
        else:
            limit = _limit(pod.request.claims[0], cards, profile.capacities)
        return Isolation(backend, limit)


def _of_guests(
    guests: Sequence[GuestContainer], charges: Sequence[ClaimCharge]
) -> tuple[ClaimCharge, ...]:
    """The cards of containers that see those of others: nothing of them is charged."""
    of = {one.container: one for one in charges}
    return tuple(
        ClaimCharge(
            container=one.container,
            cards=tuple(
                replace(card, milli=0, memory_bytes=0) for card in of[one.host].cards[: one.count]
            ),
            limit_milli=of[one.host].limit_milli,
        )
        for one in guests
        if one.host in of
    )


def _group_owners(record: Record) -> tuple[str, ...]:
    """The owners of its gang's members if there are several, for a restarted scheduler."""
    owners = record.gang_owners or ()
    return tuple(islice(owners, MAX_OWNERS)) if len(owners) > 1 else ()


def allocates_devices(profile: Profile) -> bool:
    """Whether the profile sees to it that ResourceClaims are allocated before a pod is bound."""
    filters, pre_binds = profile.filters, profile.pre_binds
    return all(any(one.name == _DEVICES for one in some) for some in (filters, pre_binds))


def _lack(pod: Pod, choice: VolumeChoice | None, profile: Profile) -> str | None:
    """Why nothing would get a pod's claims what they need before it is bound."""
    if choice is not None and not profile.pre_binds:
        return NO_PRE_BIND
    if pod.shape.device_claims is not None and not allocates_devices(profile):
        return NO_DEVICES
    return None


def _limit(claim: ContainerClaim, cards: Sequence[CardCharge], capacities: Capacities) -> int:
    """The claim's limit of time, in milli of the cards that it gets; 0 is none."""
    limit, share_of = claim.limit_milli, claim.claim.share_of
    return capacities.limit(limit, share_of, cards[0].model) if share_of else limit
