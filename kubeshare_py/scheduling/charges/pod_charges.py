"""What is charged for a placed pod: its node, its cards, and the GPU quotas of its namespace."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.cluster.columns import Columns
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.cluster_objects import WatchedKind
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import PlacedPod, Pod
from kubeshare_py.domain.quota import LIMITS, PodScopes, QuotaNames, QuotaObject
from kubeshare_py.domain.request import GpuClaim, GpuRequest
from kubeshare_py.framework.boundary import PluginCalls
from kubeshare_py.scheduling.queue import pod_records
from kubeshare_py.scheduling.queue.pod_records import QueueMoves, Record

R = TypeVar("R")


class PodCharges:
    """Charges pods to their nodes, and undoes that; Reserve plugins are called with it."""

    def __init__(self, ledger: Ledger, calls: PluginCalls, moves: QueueMoves) -> None:
        self._ledger = ledger
        self._calls = calls
        self._moves = moves
        #: What namespaces hold of GPUs, and may hold.
        self.quotas = GpuQuotas(ledger.columns.objects)

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

    def charge_each(self, columns: Columns, charges: Sequence[tuple[Record, Charge]]) -> bool:
        """Charge pods at once about which no Reserve plugin has a say.

        False, and nothing is charged, unless all is certainly free in `columns`: see the ledger.
        """
        by_uid = {record.pod.uid: charge for record, charge in charges}
        if not self._ledger.has_room_for(columns, by_uid.values()):
            return False
        self._ledger.charge_each(by_uid)
        for record, charge in charges:
            record.node, record.allocation = charge.node, charge.allocation
            self.quotas.hold(record.pod, charge.allocation)
        return True

    def edited(self, record: Record, pod: Pod) -> None:
        """Charge a placed pod what it takes of its node now; what it holds of cards stays."""
        assert record.node is not None
        resources, held = pod.shape.charged, record.allocation
        self._ledger.charge(pod.uid, record.node, resources, held, pod.placed)
        self.quotas.hold(pod, held)

    def shrink(self, record: Record, pod: Pod, left: Allocation) -> None:
        """Charge a placed pod what is `left` of the cards that it held."""
        assert record.node is not None
        self._moves.improved_by = pod_records.ASSIGNED_POD_DELETE
        charged, placed = pod.shape.charged, pod.placed
        record.allocation = self._ledger.charge(pod.uid, record.node, charged, left, placed)
        self.quotas.hold(pod, record.allocation)

    def release(self, record: Record) -> None:
        """Undo `charge`; the record must be charged. What becomes free improves rows."""
        self._moves.improved_by = pod_records.ASSIGNED_POD_DELETE
        self._end(record, self._ledger.release)
        record.node = record.allocation = None

    def linger(self, record: Record) -> bool:
        """`release` the pod but keep its GPUs charged, because its containers may still run.

        False if it holds none.
        """
        self._moves.improved_by = pod_records.ASSIGNED_POD_DELETE
        return self._end(record, self._ledger.linger)

    def undo(self, record: Record) -> None:
        """Undo `charge` as if it had not been called: no row improves."""
        self._end(record, self._ledger.undo_charge)
        record.node = record.allocation = None

    def _end(self, record: Record, end: Callable[[PodUid], R]) -> R:
        """End the record's charge by `end` of the ledger, and call `unreserve` of plugins."""
        pod, node = record.pod, record.node
        assert node is not None
        result = end(pod.uid)
        self.quotas.release(pod.uid)
        self._calls.unreserve(pod, node)
        return result


# What the placed pods of each namespace hold of GPUs together, compared with its ResourceQuotas.
#
# All pods of a namespace that meet a quota's scopes count, in whatever dialect; of these, pods
# whose dialect has names for quotas are refused. A pod counts from its placement until what it
# holds of cards ends.


#: How the sentence of a refused pod begins; HAMi's word.
NOT_FIT = "ResourceQuotaNotFit"
MILLI_OF_CORE = WHOLE_MILLI // 100
_NOTHING = (0, 0)
#: Bytes and milli.
_HeldAmounts = tuple[int, int]


class GpuQuotas:
    """The sums by namespace and scopes, in bytes and milli. Only `PodCharges` changes them.

    Pods with equal scopes are summed up, so that a look at a quota costs as much as its namespace
    has different ones, which are few: PriorityClasses are administrators'.
    """

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._of: dict[PodUid, tuple[str, PodScopes, _HeldAmounts]] = {}
        self._sums: dict[str, dict[PodScopes, _HeldAmounts]] = {}
        #: Quotas by namespace, in order of their names, and of which version of them.
        self._quotas: dict[str, list[QuotaObject]] = {}
        self._version = -1

    def hold(self, pod: Pod, allocation: Allocation | None) -> None:
        """The pod holds this from now on, in place of what it held before."""
        if pod.uid in self._of:
            self.release(pod.uid)
        if allocation is not None and allocation.cards:
            held = _amounts(pod.request, allocation)
            self._of[pod.uid] = pod.key.namespace, pod.scopes, held
            self._add(pod.key.namespace, pod.scopes, held, 1)

    def release(self, uid: PodUid) -> None:
        """The pod holds nothing any more; nothing happens if it held nothing."""
        if uid in self._of:
            self._add(*self._of[uid], -1)
            del self._of[uid]

    def refusal(self, pod: Pod, allocation: Allocation | None = None) -> str | None:
        """Why the quotas of the pod's namespace do not let it hold this; None if they do.

        Without an allocation what it asks for counts, as far as that does not depend on cards.
        """
        request = pod.request
        if request is None or request.quota is None:
            return None
        quotas = self._quotas_of(pod.key.namespace)
        if not quotas:
            return None
        asked = _least(request) if allocation is None else _amounts(request, allocation)
        return next(self._exceeded(pod, quotas, request.quota, asked), None)

    def held(self, namespace: str) -> _HeldAmounts:
        """What its pods hold together, in bytes and milli."""
        return _summed(self._sums.get(namespace, {}).values())

    def holding(self) -> Iterable[str]:
        """The namespaces whose pods hold anything."""
        return self._sums.keys()

    def limits(self) -> Mapping[tuple[str, str], int] | None:
        """The smallest limits by namespace and resource, in the resource's units.

        Limits of quotas with scopes are not the namespace's. None while ResourceQuotas are not
        known.
        """
        if not self._objects.is_listed(WatchedKind.RESOURCE_QUOTA):
            return None
        found: dict[tuple[str, str], int] = {}
        for key, quota in self._objects.of(QuotaObject).items():
            for resource, amount in () if quota.scopes else quota.hard_limits:
                at = key.namespace, resource
                found[at] = min(found.get(at, amount), amount)
        return found

    def _exceeded(
        self, pod: Pod, quotas: list[QuotaObject], names: QuotaNames, asked: _HeldAmounts
    ) -> Iterator[str]:
        """A sentence for each resource and quota, the smallest limit first."""
        about = [one for one in quotas if one.is_about(pod.scopes)]
        for at, (name, unit) in enumerate(
            ((names.memory, names.unit_bytes), (names.cores, MILLI_OF_CORE))
        ):
            limits = [
                (amount, quota)
                for quota in about
                for resource, amount in quota.hard_limits
                if resource == name
            ]
            for limit, quota in sorted(limits, key=lambda one: one[0]):
                used = self._used(quota)[at]
                if used + asked[at] > limit * unit:
                    whose = f"of {quota.name}, for pods of its scopes," if quota.scopes else ""
                    yield (
                        f"{NOT_FIT}: quota {LIMITS}{name} {whose or 'of the namespace'} is {limit},"
                        f" {_units(used, unit)} are used,"
                        f" and the pod asks for {_units(asked[at], unit)}"
                    )

    def _used(self, quota: QuotaObject) -> _HeldAmounts:
        """What the pods hold that the quota is about."""
        sums = self._sums.get(quota.namespace, {})
        return _summed(held for scopes, held in sums.items() if quota.is_about(scopes))

    def _quotas_of(self, namespace: str) -> list[QuotaObject]:
        """The namespace's quotas with limits; sorted out anew when any quota changed."""
        version = self._objects.version(WatchedKind.RESOURCE_QUOTA)
        if version != self._version:
            self._version = version
            self._quotas.clear()
            for key, quota in sorted(self._objects.of(QuotaObject).items()):
                if quota.hard_limits:
                    self._quotas.setdefault(key.namespace, []).append(quota)
        return self._quotas.get(namespace, [])

    def _add(self, namespace: str, scopes: PodScopes, held: _HeldAmounts, sign: int) -> None:
        if namespace not in self._sums:
            self._sums[namespace] = {}
        sums = self._sums[namespace]
        memory, milli = sums.get(scopes, _NOTHING)
        now = memory + sign * held[0], milli + sign * held[1]
        if now != _NOTHING:
            sums[scopes] = now
            return
        sums.pop(scopes, None)
        if not sums:
            del self._sums[namespace]


def _summed(amounts: Iterable[_HeldAmounts]) -> _HeldAmounts:
    memory = milli = 0
    for held in amounts:
        memory, milli = memory + held[0], milli + held[1]
    return memory, milli


def _units(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _amounts(request: GpuRequest | None, allocation: Allocation) -> _HeldAmounts:
    """What counts of an allocation.

    Of a card that a pod has alone it is what the pod asked for, not what the ledger charges.
    """
    held, guests = allocation.claims, request.guests if request is not None else ()
    memory = milli = 0
    if guests:
        # Of a pod that HAMi bound, an init container may have a card that no other container has.
        names = {one.container for one in guests}
        of_guests = [card for one in held if one.container in names for card in one.cards]
        memory, milli = _charged(of_guests)
        held = tuple([one for one in held if one.container not in names])
    if request is None or not held or len(request.claims) != len(held):
        return _charged(allocation.cards)
    for one, part in zip(request.claims, held, strict=True):
        for card in part.cards:
            asked, taken = one.claim.memory_bytes, card.memory_bytes
            # An init container is charged less than it asks for where others hold its card anyway.
            memory += taken if asked is None or asked > taken else asked
            milli += card.milli if card.milli < WHOLE_MILLI else WHOLE_MILLI
    return memory, milli


def _charged(cards: Iterable[CardCharge]) -> _HeldAmounts:
    memory = milli = 0
    for card in cards:
        memory += card.memory_bytes
        milli += card.milli if card.milli < WHOLE_MILLI else WHOLE_MILLI
    return memory, milli


def _least(request: GpuRequest) -> _HeldAmounts:
    """What any place takes: the amounts that do not depend on the card."""
    claims: list[GpuClaim] = [one.claim for one in request.claims]
    return (
        sum(claim.count * (claim.memory_bytes or 0) for claim in claims),
        sum(claim.count * claim.milli for claim in claims),
    )
