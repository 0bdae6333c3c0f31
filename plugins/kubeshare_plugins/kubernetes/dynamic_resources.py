"""Filter, Score and PreBind: the devices of a pod's ResourceClaims (dynamic resource allocation).

A pod is placed where its allocated claims may be used, and where the others can be allocated. The
allocation is written before the pod is bound. A device that is a card of the inventory is only
allocated while no pod holds the card.

Sentences are kube-scheduler's where it has one: https://github.com/kubernetes/kubernetes/tree/
master/pkg/scheduler/framework/plugins/dynamicresources
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubeshare_plugins.kubernetes.node_affinity import required_affinity
from kubeshare_py.devices.allocator import (
    Chosen,
    Impossible,
    InUse,
    allocate,
    allocation_of,
    claims_in_words,
    problem_of,
    too_long,
)
from kubeshare_py.devices.device_pools import NodeDevices, PooledDevice, alike_rows
from kubeshare_py.devices.device_verdicts import DeviceVerdicts, NotYet, TableVerdicts, device_kinds
from kubeshare_py.domain.cluster_objects import ObjectKey
from kubeshare_py.domain.device import MAX_CONSUMERS, ClaimAllocation, DeviceClass, ResourceClaim
from kubeshare_py.domain.pod import DeviceClaims
from kubeshare_py.domain.storage import ObjectRef, ReserveDevices
from kubeshare_py.framework.scores import maximum
from kubeshare_py.plugin import (
    HELD_BACK,
    READY,
    BestCards,
    Depends,
    IntArray,
    NodeTerm,
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

# Devices for the claims of pods, node by node: what DynamicResources asks the allocator.


#: The most alternatives of a request, FirstAvailableDeviceRequestMaxSize (resource/v1/types.go).
_MOST_ALTERNATIVES = 8
#: The most nodes on which a pod's claims are searched until they are given up: those beyond are not
#: looked at before a node of these changes.
MAX_GIVEN_UP = 16
#: The steps of a question from which on answers are remembered, and what each row takes in any
#: case (`device_verdicts`).
_WORTH_KEEPING, _LOOK = 2_000, 40


class RowReason(NamedTuple):
    """Rows by their positions, (n,), and why claims cannot be allocated there; "" if they can.

    `is_unfinished`: they were not looked at yet.
    """

    positions: NDArray[np.int64]
    reason: str
    is_unfinished: bool = False


class RowPoints(NamedTuple):
    """Rows by their positions, (n,), and the points of the alternatives that claims get there."""

    positions: NDArray[np.int64]
    points: int


@dataclass(frozen=True, slots=True)
class FoundClaims:
    """A pod's claims, and those of them that are not allocated."""

    claims: tuple[ResourceClaim, ...]
    unallocated: tuple[ResourceClaim, ...]


class _Circumstances(NamedTuple):
    """All that the answer for one row depends on, beside claims and classes.

    `devices` is a digest of the numbers of its devices, which of them are held or on cards in use,
    and of its pools that are left out.
    """

    devices: bytes
    together: tuple[ResourceClaim, ...]
    is_pending: bool


class KnownSearches:
    """What was found for one shape's claims, until what the searches saw is another.

    Of the last question all answers are kept, (k,) masks of reasons for k rows, and of searches
    that took long each row's.

    `pre_filter` makes one for each shape of each evaluator. Questions that change nothing have
    evaluators of their own (`framework/snapshot`), and so neither use nor change these.
    """

    def __init__(self, worth_keeping: int = _WORTH_KEEPING) -> None:
        """`worth_keeping`: the steps of a question from which on answers are remembered."""
        self.worth_keeping = worth_keeping
        self._of: tuple[object, ...] = ()
        self._last: tuple[object, IntArray] | None = None
        self._answers: dict[int, tuple[_Circumstances, Sequence[Chosen] | Impossible]] = {}

    def use(self, of: tuple[object, ...]) -> None:
        """Forget all if claims, classes or the numbering of devices are others than before."""
        if self._of != of:
            self._of = of
            self._answers.clear()
            self._last = None

    def last(self, seen: object) -> IntArray | None:
        """The answers to the last question, if all that it saw was the same; not to be changed."""
        return None if self._last is None or self._last[0] != seen else self._last[1]

    def keep_last(self, seen: object, masks: IntArray) -> None:
        """Remember the answers to a question, whose rows were all looked at."""
        self._last = seen, masks

    def answer(self, row: int, now: _Circumstances) -> Sequence[Chosen] | Impossible | None:
        """What is known of a row; None if it has to be searched."""
        known = self._answers.get(row)
        if known is not None and known[0] == now:
            return known[1]
        self._answers.pop(row, None)
        if len(self._answers) < MAX_GIVEN_UP:
            return None
        given_up = [one for _, one in self._answers.values() if _is_given_up(one)]
        return too_long(now.together) if len(given_up) >= MAX_GIVEN_UP else None

    def keep(self, row: int, now: _Circumstances, answer: Sequence[Chosen] | Impossible) -> None:
        """Remember the answer for a row."""
        self._answers[row] = now, answer


class DeviceSearch:
    """Devices for the claims of one pod on each of some rows.

    Pods that are placed there but not bound, such as other members of a gang, get theirs in the
    same search, so that every one of them finds the same devices for all.
    """

    def __init__(
        self,
        claims: DeviceClaims,
        found: FoundClaims,
        rows: Rows,
        verdicts: DeviceVerdicts,
        searches: KnownSearches | None = None,
    ) -> None:
        """`searches` are those of the same shape before."""
        self._claims, self._found, self._rows = claims, found, rows
        self._verdicts = verdicts
        self._classes = classes_in(rows)
        self._searches = searches or KnownSearches()
        self._searches.use((found, (*self._classes.values(),), rows.device_table.epoch))
        self._pools, self._table = rows.device_pools, rows.device_table
        self._busy = (rows.tenants > 0) | (rows.flags & HELD_BACK > 0)
        selectors = dict.fromkeys(map(tuple, self._pools.selectors()))
        self._terms = {terms: terms_hold(terms, rows) for terms in selectors}
        self._here = rows.devices(self._terms)
        self._held = self._table.held
        #: Pods whose claims are chosen but not written, by row; and the rows of each such claim.
        self._pending: dict[int, list[DeviceClaims]] = {}
        self._rows_of: dict[ObjectKey, set[int]] = {}
        known = rows.objects(ResourceClaim)
        for row, other in rows.device_claims():
            if other.uid == claims.uid:
                continue
            keys = [key for key in other.objects() if key in known]
            opened = [key for key in keys if known[key].allocation is None]
            if opened:
                self._pending.setdefault(row, []).append(other)
            for key in opened:
                self._rows_of.setdefault(key, set()).add(row)

    def seen(self, asked: NDArray[np.int64]) -> object:
        """All that the answers for these positions, (n,), depend on, beside claims and classes."""
        others = [one for pods in self._pending.values() for one in pods]
        known = self._rows.objects(ResourceClaim)
        claims = [known.get(key) for one in others for key in one.objects()]
        rows = self._rows.index[asked].tobytes()
        return self._digest(asked), rows, [*self._pending.items()], claims

    def reasons(self, asked: NDArray[np.int64], known: TableVerdicts) -> Iterator[RowReason]:
        """Why the claims cannot be allocated on these rows, which are positions, (n,).

        Rows whose devices are alike are asked about once.
        """
        for positions, first in self._alike(asked, known):
            chosen = self._chosen(first)
            if isinstance(chosen, Impossible):
                yield RowReason(positions, chosen.reason, chosen.is_unfinished)
            else:
                yield RowReason(positions, "")

    def points(self, asked: NDArray[np.int64], known: TableVerdicts) -> Iterator[RowPoints]:
        """How good the alternatives are that the claims get on these rows, positions, (n,).

        As kube-scheduler's Score: 8 for the first alternative of a request, 7 for the second.
        """
        for positions, first in self._alike(asked, known, in_order=True):
            chosen = self._chosen(first)
            if not isinstance(chosen, Impossible):
                taken = zip(self._together(first), chosen, strict=True)
                points = sum(
                    alternative_points(one, {request.name for request, _ in devices})
                    for one, devices in taken
                    if one in self._found.unallocated
                )
                yield RowPoints(positions, points)

    def _alike(
        self, asked: NDArray[np.int64], known: TableVerdicts, *, in_order: bool = False
    ) -> Iterator[tuple[NDArray[np.int64], int]]:
        """These rows in groups that get the same answer, each with one of the group.

        `in_order`: they get the same devices too, one by one.
        """
        crowded = np.isin(self._rows.index[asked], [*self._pending])
        for position in asked[crowded].tolist():
            yield np.array([position]), position
        alone = asked[~crowded]
        if len(alone):
            firsts, groups = alike_rows(self._kinds(alone, known, in_order=in_order))
            order = np.argsort(groups, kind="stable")
            ends = np.cumsum(np.bincount(groups, minlength=len(firsts)))
            for first, members in zip(firsts.tolist(), np.split(order, ends[:-1]), strict=True):
                yield alone[members], alone.item(first)

    def allocations(self, position: int) -> Mapping[ObjectKey, ClaimAllocation] | str:
        """The allocation of each claim of the pod on a row, or why there is none."""
        chosen = self._chosen(position)
        if isinstance(chosen, Impossible):
            return chosen.reason
        return {
            one.key: allocation_of(one, devices, self._classes)
            for one, devices in zip(self._together(position), chosen, strict=True)
            if one in self._found.unallocated
        }

    def _kinds(
        self, asked: NDArray[np.int64], known: TableVerdicts, *, in_order: bool
    ) -> NDArray[np.int64]:
        """A row of numbers for each of these rows: equal rows get the same answer, (n, width)."""
        here = self._here
        kinds, is_sure = device_kinds(self._found.unallocated, self._classes, self._table, known)
        found = np.append(2 * kinds, -1)[here.numbers[asked]]
        if (here.slots >= 0).any():
            busy = np.pad(self._busy[asked], ((0, 0), (0, 1)))  # slot -1 is never busy
            for slots in here.slots[:, asked]:
                found |= np.take_along_axis(busy, slots, 1) & (found > 0)
        if is_sure and not in_order:  # only how many there are of each kind decides
            found.sort(axis=1)
        return np.column_stack((here.unusable[asked], found))

    def _chosen(self, position: int) -> Sequence[Chosen] | Impossible:
        row = self._rows.index.item(position)
        for one in self._found.unallocated:
            if self._rows_of.get(one.key, set()) - {row}:
                reason = f"resource claim {one.key} is in the process of being allocated"
                return Impossible(reason)
        is_pending = bool(self._pending.keys() - {row})
        now = _Circumstances(
            self._digest(np.array([position])), tuple(self._together(position)), is_pending
        )
        known = self._searches.answer(row, now)
        if known is None:
            known = self._searched(position, now)
            is_whole = not (isinstance(known, Impossible) and known.is_unfinished)
            if is_whole and self._verdicts.spent >= self._searches.worth_keeping:
                self._searches.keep(row, now, known)
        return known

    def _searched(self, position: int, now: _Circumstances) -> Sequence[Chosen] | Impossible:
        try:
            self._verdicts.spend(_LOOK)
        except NotYet as error:
            named = claims_in_words(now.together)
            return Impossible(f"{named}: {error}", is_unfinished=True)
        node = self._devices(position)
        in_use = self._judge(position, now.is_pending)
        return allocate(now.together, self._classes, node, self._verdicts, in_use)

    def _digest(self, positions: NDArray[np.int64]) -> bytes:
        """See `_Circumstances`: of these rows, (n,). Devices that change get other numbers."""
        here = self._here
        numbers, slots = here.numbers[positions], here.slots[:, positions]  # (n, w), (cards, n, w)
        digest = blake2b(numbers.tobytes(), digest_size=16)
        digest.update(np.append(self._held, False)[numbers].tobytes())
        digest.update(here.unusable[positions].tobytes())
        if (slots >= 0).any():
            busy = np.pad(self._busy[positions], ((0, 0), (0, 1)))  # slot -1 is never busy
            for one in slots:
                digest.update(np.take_along_axis(busy, one, 1).tobytes())
        return digest.digest()

    def _together(self, position: int) -> list[ResourceClaim]:
        """All claims that are to be allocated on a row, in the order of pods' names."""
        known = self._rows.objects(ResourceClaim)
        pods = [*self._pending.get(self._rows.index.item(position), ()), self._claims]
        found: dict[ObjectKey, ResourceClaim] = {}
        for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.pod, pod.uid)):
            for key in pod.objects():
                one = known.get(key)
                if one is not None and one.allocation is None:
                    found[key] = one
        return [one for one in found.values() if not problem_of(one, self._classes)]

    def _devices(self, position: int) -> NodeDevices:
        name = self._rows.name(position)
        assert name is not None
        return self._pools.on(name, lambda terms: bool(self._terms[tuple(terms)][position]))

    def _judge(self, position: int, is_pending: bool) -> InUse:
        """Why a device is not free for this row's claims."""
        cards = self._rows.card_uuids(position)
        busy = {
            uuid for uuid, held in zip(cards, self._busy[position].tolist(), strict=False) if held
        }

        def in_use(one: PooledDevice) -> str:
            if self._table.is_held(one.key):
                return "in use"
            if not busy.isdisjoint(one.device.cards()):
                return "cards that pods hold"
            nodes = one.slice.nodes_of(one.device)
            if is_pending and (nodes is None or nodes.name is None):
                return "being allocated"
            return ""

        return in_use


def _is_given_up(answer: Sequence[Chosen] | Impossible) -> bool:
    return isinstance(answer, Impossible) and answer.is_given_up


def terms_hold(terms: tuple[NodeTerm, ...], rows: Rows) -> NDArray[np.bool_]:
    """Which rows satisfy one of these terms, (k,) bool."""
    fits = required_affinity(Shape(terms=terms))
    assert fits is not None
    return fits(rows)


def classes_in(rows: Rows) -> Mapping[str, DeviceClass]:
    """The device classes by name."""
    return {key.name: one for key, one in rows.objects(DeviceClass).items()}


def alternative_points(claim: ResourceClaim, taken: Collection[str]) -> int:
    """The points of a claim whose devices are for the requests and alternatives of these names."""
    return sum(
        _MOST_ALTERNATIVES - place
        for alternatives in claim.requests
        for place, one in enumerate(alternatives)
        if one.name != one.top_name and one.name in taken
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
    only_for = ("device_claims",)
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
