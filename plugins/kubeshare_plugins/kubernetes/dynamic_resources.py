"""Filter, Score and PreBind: the devices of a pod's ResourceClaims (dynamic resource allocation).

A pod is placed where its allocated claims may be used, and where the others can be allocated. The
allocation is written before the pod is bound. A device that is a card of the inventory is only
allocated while no pod holds the card.

Sentences are kube-scheduler's where it has one: https://github.com/kubernetes/kubernetes/tree/
master/pkg/scheduler/framework/plugins/dynamicresources
"""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.device_search import (
    DeviceSearch,
    FoundClaims,
    KnownSearches,
    alternative_points,
    classes_in,
    terms_hold,
)
from kubeshare_py.devices.allocator import claims_in_words, problem_of
from kubeshare_py.devices.device_verdicts import DeviceVerdicts
from kubeshare_py.devices.table_verdicts import TableVerdicts
from kubeshare_py.domain.devices.resource_claim import (
    MAX_CONSUMERS,
    ClaimAllocation,
    ResourceClaim,
)
from kubeshare_py.domain.needs.cluster_objects import ObjectKey
from kubeshare_py.domain.needs.device_claims import DeviceClaims
from kubeshare_py.domain.needs.object_writes import ObjectRef, ReserveDevices
from kubeshare_py.framework.scores import maximum
from kubeshare_py.plugin import (
    READY,
    BestCards,
    Depends,
    IntArray,
    PendingPlacement,
    Pod,
    PreBindAnswer,
    ReasonTable,
    Rejected,
    RowFilter,
    Rows,
    RowScore,
    Shape,
    Wait,
)

_NOT_HERE = "resourceclaim not available on the node"
#: The most different reasons of one pod that are reported; others are reported as `_ELSEWHERE`.
_MAX_REASONS = 20
_ELSEWHERE = "cannot allocate all claims"
#: What a question costs whose answers are known, in rows: to find that nothing changed.
_QUESTION = 1500
_LATER = "its devices take long to choose: the node was not looked at yet"
#: Seconds that a pod waits for the writes to its claims.
_LIMIT_S = 60.0


class DynamicResources:
    """Places pods where their ResourceClaims are, or can be allocated; allocates and reserves.

    Of nodes where claims with alternatives (`firstAvailable`) can be allocated, the one with the
    first alternatives gets 100 points, and the others in proportion.
    """

    name = "DynamicResources"
    depends = score_depends = Depends.CLUSTER
    normaliser = staticmethod(maximum)

    def __init__(self) -> None:
        self._verdicts = DeviceVerdicts()
        self._known = TableVerdicts(self._verdicts)

    def pre_filter(self, shape: Shape) -> KnownSearches | None:
        """What filter and score know together of a shape's claims."""
        return None if shape.device_claims is None else KnownSearches()

    def filter(
        self, shape: Shape, reasons: ReasonTable, searches: KnownSearches | None = None
    ) -> RowFilter | None:
        """No question for pods without claims."""
        claims = shape.device_claims
        if claims is None:
            return None
        known: dict[str, int] = {}

        def mask(sentence: str, resolvable: bool) -> int:
            if sentence not in known and len(known) >= _MAX_REASONS:
                sentence = _ELSEWHERE
            if sentence not in known:
                known[sentence] = reasons.register(self.name, sentence, resolvable=resolvable)
            return known[sentence]

        def refuse(sentence: str) -> int:
            if sentence not in known:
                told = len(known) < _MAX_REASONS
                known[sentence] = reasons.refuse(self.name, sentence if told else _ELSEWHERE)
            return known[sentence]

        def ask(rows: Rows) -> IntArray:
            return self._masks(claims, rows, mask, refuse, reasons, searches)

        return ask

    def score(self, shape: Shape, searches: KnownSearches | None = None) -> RowScore | None:
        """Which alternatives the claims get; no question for pods without claims."""
        claims = shape.device_claims
        if claims is None:
            return None

        def ask(rows: Rows, cards: BestCards | None) -> IntArray:
            return self._points(claims, rows, searches)

        return ask

    def pre_bind(self, pod: Pod, row: Rows, placement: PendingPlacement) -> PreBindAnswer:
        """Write allocations and reservations, and wait until that is done."""
        claims = pod.shape.device_claims
        if claims is None:
            return READY
        found = _found(claims, row)
        if isinstance(found, str):
            return Rejected(found)
        allocations: Mapping[ObjectKey, ClaimAllocation] = {}
        if found.unallocated:
            chosen = self._search(claims, found, row).allocations(0)
            if isinstance(chosen, str):
                return Rejected(chosen)
            allocations = chosen
        if not _available(found, row)[0]:
            return Rejected(_NOT_HERE)
        writes = [_write(claims, one, allocations.get(one.key)) for one in found.claims]
        needed = tuple(one for one in writes if one is not None and one not in placement.written)
        if not needed:
            return READY
        return Wait(
            sentence=f"the devices of {claims_in_words(found.claims)}",
            writes=needed,
            on=tuple(ObjectRef(one.kind, one.key) for one in found.claims),
            for_s=_LIMIT_S,
            late="its resourceclaims were not allocated in time",
        )

    def _masks(
        self,
        claims: DeviceClaims,
        rows: Rows,
        mask: Callable[[str, bool], int],
        refuse: Callable[[str], int],
        reasons: ReasonTable,
        searches: KnownSearches | None,
    ) -> IntArray:
        """The reasons of each row, (k,): of the row by `mask`, of the pod by `refuse`.

        Rows that there were no steps left to look at are asked about again, and what was spent is
        charged to the pod's namespace.
        """
        count = len(rows.index)
        found = _found(claims, rows)
        if isinstance(found, str):
            return np.full(count, refuse(found))
        masks: IntArray = np.where(_available(found, rows), 0, mask(_NOT_HERE, False))
        if not found.unallocated:
            return masks
        search = self._search(claims, found, rows, searches)
        asked = np.flatnonzero((masks == 0) & rows.present)
        seen = search.seen(asked)
        before = None if searches is None else searches.last(seen)
        if before is not None:
            masks[asked] = before
            reasons.spend(_QUESTION)
            return masks
        later = 0
        for positions, reason, is_unfinished in search.reasons(asked, self._known):
            if is_unfinished:
                later = reasons.later(self.name, _LATER)
                masks[positions] = later
            elif reason:
                masks[positions] = mask(reason, True)
        if searches is not None and not later:
            searches.keep_last(seen, masks[asked])
        reasons.spend(2 * _QUESTION + self._verdicts.spent)
        return masks

    def _points(self, claims: DeviceClaims, rows: Rows, searches: KnownSearches | None) -> IntArray:
        """The points of each row, (k,), before they are normalised."""
        points: IntArray = np.zeros(len(rows.index), np.int64)
        found = _found(claims, rows)
        if isinstance(found, str):
            return points
        for one in found.claims:
            if one.allocation is not None:
                taken = {device.request for device in one.allocation.devices}
                points += alternative_points(one, taken)
        if any(_has_alternatives(one) for one in found.unallocated):
            asked = np.flatnonzero(rows.present)
            search = self._search(claims, found, rows, searches)
            for positions, more in search.points(asked, self._known):
                points[positions] += more
        return points

    def _search(
        self,
        claims: DeviceClaims,
        found: FoundClaims,
        rows: Rows,
        searches: KnownSearches | None = None,
    ) -> DeviceSearch:
        self._verdicts.begin()
        return DeviceSearch(claims, found, rows, self._verdicts, searches)


def _found(claims: DeviceClaims, rows: Rows) -> FoundClaims | str:
    """The claims of a pod, or why it cannot be placed on any node."""
    known = rows.objects(ResourceClaim)
    found = []
    for name in claims.names:
        if not name.claim:
            return f'pod "{claims.namespace}/{claims.pod}": ResourceClaim not created yet'
        one = known.get(ObjectKey(claims.namespace, name.claim))
        if one is None:
            return f'resourceclaim.resource.k8s.io "{name.claim}" not found'
        problem = _problem(claims, one, name.generated)
        if problem:
            return problem
        found.append(one)
    every = tuple(dict.fromkeys(found))
    unallocated = tuple(one for one in every if one.allocation is None)
    classes = classes_in(rows)
    for one in unallocated:
        problem = problem_of(one, classes)
        if problem:
            return problem
    return FoundClaims(every, unallocated)


def _problem(claims: DeviceClaims, one: ResourceClaim, generated: bool) -> str:
    """Why a claim cannot be used by the pod, wherever it is."""
    if one.deleting:
        return f'resourceclaim "{one.name}" is being deleted'
    if generated and one.owner != claims.uid:
        return (
            f"ResourceClaim {one.key} was not created for Pod {claims.namespace}/{claims.pod}"
            " (Pod is not owner)"
        )
    if len(one.reserved_for) >= MAX_CONSUMERS and claims.uid not in one.reserved_for:
        return f"resourceclaim {one.key} is in use by {MAX_CONSUMERS} pods, the most"
    held = one.allocation
    if held is not None and held.unsupported:
        return f"resourceclaim {one.key}: not supported yet: {', '.join(held.unsupported)}"
    return ""


def _has_alternatives(one: ResourceClaim) -> bool:
    requests = (request for alternatives in one.requests for request in alternatives)
    return any(request.name != request.top_name for request in requests)


def _available(found: FoundClaims, rows: Rows) -> NDArray[np.bool_]:
    """Which rows may use the devices of all allocated claims, (k,) bool."""
    there = np.ones(len(rows.index), np.bool_)
    for one in found.claims:
        if one.allocation is not None and one.allocation.terms is not None:
            there &= terms_hold(tuple(one.allocation.terms), rows)
    return there


def _write(
    claims: DeviceClaims, one: ResourceClaim, allocation: ClaimAllocation | None
) -> ReserveDevices | None:
    """What is left to write to a claim; None if it is allocated, and reserved for the pod."""
    if claims.uid in one.reserved_for and not one.is_assumed:
        return None
    return ReserveDevices(
        namespace=one.namespace,
        device_claim=one.name,
        uid=one.uid,
        version=one.resource_version,
        pod=claims.pod,
        pod_uid=claims.uid,
        allocation=one.allocation if one.is_assumed else allocation,
        is_protected=one.is_protected,
    )
