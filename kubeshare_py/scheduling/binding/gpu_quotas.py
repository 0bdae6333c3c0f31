"""What the placed pods of each namespace hold of GPUs together, compared with its ResourceQuotas.

All pods of a namespace count, in whatever dialect; pods are refused if their dialect has names for
quotas. Of several quotas the smallest limit counts. A pod counts from its placement until what it
holds of cards ends.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from kubeshare_py.cluster.cluster_objects import ClusterObjects
from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.needs.cluster_objects import WatchedKind
from kubeshare_py.domain.needs.gpu_quota import LIMITS, QuotaNames, QuotaObject
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim, GpuRequest

#: How the sentence of a refused pod begins; HAMi's word.
NOT_FIT = "ResourceQuotaNotFit"
MILLI_OF_CORE = WHOLE_MILLI // 100
_NOTHING = (0, 0)
#: Bytes and milli.
_HeldAmounts = tuple[int, int]


class GpuQuotas:
    """The sums by namespace, in bytes and milli. Only the assumer changes them."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects = objects
        self._of: dict[PodUid, tuple[str, _HeldAmounts]] = {}
        self._sums: defaultdict[str, _HeldAmounts] = defaultdict(lambda: _NOTHING)

    def hold(self, pod: Pod, allocation: Allocation | None) -> None:
        """The pod holds this from now on, in place of what it held before."""
        self.release(pod.uid)
        if allocation is not None and allocation.cards:
            held = _amounts(pod.request, allocation)
            self._of[pod.uid] = pod.key.namespace, held
            self._add(pod.key.namespace, held, 1)

    def release(self, uid: PodUid) -> None:
        """The pod holds nothing any more; nothing happens if it held nothing."""
        namespace, held = self._of.pop(uid, ("", _NOTHING))
        if namespace:
            self._add(namespace, held, -1)

    def refusal(self, pod: Pod, allocation: Allocation | None = None) -> str | None:
        """Why the quotas of the pod's namespace do not let it hold this; None if they do.

        Without an allocation what it asks for counts, as far as that does not depend on cards.
        """
        request = pod.request
        if request is None or request.quota is None:
            return None
        names, used = request.quota, self.held(pod.key.namespace)
        asked = _least(request) if allocation is None else _amounts(request, allocation)
        return next(self._exceeded(pod.key.namespace, names, used, asked), None)

    def held(self, namespace: str) -> _HeldAmounts:
        """What its pods hold together, in bytes and milli."""
        return self._sums.get(namespace, _NOTHING)

    def holding(self) -> Iterable[str]:
        """The namespaces whose pods hold anything."""
        return self._sums.keys()

    def limits(self) -> Mapping[tuple[str, str], int] | None:
        """The smallest limits by namespace and resource, in the resource's units.

        None while ResourceQuotas are not known.
        """
        if not self._objects.is_listed(WatchedKind.RESOURCE_QUOTA):
            return None
        found: dict[tuple[str, str], int] = {}
        for key, quota in self._objects.of(QuotaObject).items():
            for resource, amount in quota.hard_limits:
                at = key.namespace, resource
                found[at] = min(found.get(at, amount), amount)
        return found

    def _exceeded(
        self, namespace: str, names: QuotaNames, used: _HeldAmounts, asked: _HeldAmounts
    ) -> Iterator[str]:
        units = (names.memory, names.unit_bytes), (names.cores, MILLI_OF_CORE)
        for (name, unit), there, wanted in zip(units, used, asked, strict=True):
            limit = self._limit(namespace, name)
            if limit is not None and there + wanted > limit * unit:
                yield (
                    f"{NOT_FIT}: quota {LIMITS}{name} of the namespace is {limit},"
                    f" {_units(there, unit)} are used, and the pod asks for {_units(wanted, unit)}"
                )

    def _limit(self, namespace: str, name: str) -> int | None:
        limits = [
            amount
            for key, quota in self._objects.of(QuotaObject).items()
            if key.namespace == namespace
            for resource, amount in quota.hard_limits
            if resource == name
        ]
        return min(limits, default=None)

    def _add(self, namespace: str, held: _HeldAmounts, sign: int) -> None:
        memory, milli = self._sums[namespace]
        self._sums[namespace] = memory + sign * held[0], milli + sign * held[1]
        if self._sums[namespace] == _NOTHING:
            del self._sums[namespace]


def _units(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _amounts(request: GpuRequest | None, allocation: Allocation) -> _HeldAmounts:
    """What counts of an allocation.

    Of a card that a pod has alone it is what the pod asked for, not what the ledger charges.
    """
    claims = request.claims if request is not None else ()
    guests = len(request.guests) if request is not None else 0
    if not claims or len(claims) + guests != len(allocation.claims):
        return (
            sum(card.memory_bytes for card in allocation.cards),
            sum(min(card.milli, WHOLE_MILLI) for card in allocation.cards),
        )
    memory = milli = 0
    for one, held in zip(claims, allocation.claims, strict=False):  # those of guests are the last
        for card in held.cards:
            asked = one.claim.memory_bytes
            memory += card.memory_bytes if asked is None else asked
            milli += min(card.milli, WHOLE_MILLI)
    return memory, milli


def _least(request: GpuRequest) -> _HeldAmounts:
    """What any place takes: the amounts that do not depend on the card."""
    claims: list[GpuClaim] = [one.claim for one in request.claims]
    return (
        sum(claim.count * (claim.memory_bytes or 0) for claim in claims),
        sum(claim.count * claim.milli for claim in claims),
    )
