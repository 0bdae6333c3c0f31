"""The checker's own books, from what the API server itself says of all pods, at every version.

They share nothing with the scheduler: what they make of annotations and labels is written here
once more.
"""

import asyncio
import json
import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.faults.eviction_reference import EvictionReference
from tests.faults.gang_reference import GangReference, is_over, leaves

WHOLE = 1000
_ALLOCATION, _PREFIX, _RESERVATION = "sharedgpu/allocation", "sharedgpu/", "sharedgpu/earmark"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What one card has to give."""

    node: str
    memory: int


@dataclass(slots=True, kw_only=True)
class Held:
    """What all pods together take of one card."""

    milli: int = 0
    memory: int = 0
    pods: set[str] = field(default_factory=set)
    alone: set[str] = field(default_factory=set)


class ReferenceModel:
    """Of all pods; `problems` is whatever was ever wrong. `pods` are those that exist, by uid."""

    def __init__(self, cards: dict[str, Card], *, preempts: bool = False) -> None:
        """`cards` by uuid: all there ever are, lost ones included. `preempts`: pods do it."""
        self.cards = cards
        self.preempts = preempts
        self.pods: dict[str, Json] = {}
        self.gangs = GangReference()
        self.evictions = EvictionReference()
        self.held: defaultdict[str, Held] = defaultdict(Held)
        self.problems: list[str] = []
        self.last: deque[str] = deque(maxlen=40)
        #: Versions seen, and how often history was missing between two of them.
        self.versions = self.gaps = 0
        self._charged: dict[str, list[tuple[str, int, int, bool]]] = {}
        self._port_of: dict[str, tuple[str, int]] = {}
        self._ports: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self._node_of: dict[str, str] = {}
        self._results: dict[str, str] = {}
        self._news = asyncio.Event()
        #: A pod that was bound, a nominee whose place it seems to have taken, and when (s).
        self._fed: list[tuple[str, str, float]] = []

    # --- what the API server says ----------------------------------------------------------------

    def listed(self, pods: Iterable[Json]) -> None:
        """All pods at one version."""
        found = {pod["metadata"]["uid"]: pod for pod in pods}
        for uid in self.pods.keys() - found.keys():
            self._gone(uid)
        for uid in found:
            self._release(uid)
        for pod in found.values():
            self._seen(pod)
        self._news.set()

    def changed(self, kind: str, pod: Json) -> None:
        """One pod at the next version; `kind` is ADDED, MODIFIED or DELETED."""
        self.versions += 1
        if kind == "DELETED":
            self._gone(pod["metadata"]["uid"])
        else:
            self._seen(pod)
        self._note(kind, pod)
        self._news.set()

    def _note(self, kind: str, pod: Json) -> None:
        metadata, given = pod["metadata"], pod["metadata"].get("annotations", {})
        self.last.append(
            f"{metadata['resourceVersion']} {kind} {metadata['name']} {metadata['uid'][:8]} "
            f"on {pod['spec'].get('nodeName', '-')} {pod['status'].get('phase', '')} "
            f"{given.get('sharedgpu/gpu_uuid', '')} {given.get(_ALLOCATION, '')[:60]}"
        )

    # --- the books -------------------------------------------------------------------------------

    def _seen(self, pod: Json) -> None:
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName", "")
        self._release(uid)
        self.pods[uid] = pod
        self.gangs.seen(pod)
        for problem in self.evictions.seen(pod, asyncio.get_running_loop().time()):
            self._check(False, problem)
        before = self._node_of.get(uid, "")
        self._check(not before or before == node, f"{_name(pod)} moved from {before} to {node}")
        if not node:
            return
        self._node_of[uid] = node
        self._check_results(pod)
        if not is_over(pod):
            self._charge(pod, node)
            if not before:
                self._note_fed(pod)

    def _note_fed(self, pod: Json) -> None:
        """Whether a pod that was just bound took what is kept for another."""
        mine = {charge[0] for charge in self._charged.get(pod["metadata"]["uid"], ())}
        for keeper, cards in self.evictions.keepers(pod["metadata"]["uid"]) if mine else ():
            wanted = min(request(keeper) or 0, WHOLE)
            for uuid in mine & cards:
                held = self.held[uuid]
                leaving = sum(
                    milli
                    for uid in held.pods
                    if leaves(self.pods[uid]) or uid in self.evictions.evicted
                    for card, milli, _, _ in self._charged[uid]
                    if card == uuid
                )
                if WHOLE - held.milli + leaving < wanted:
                    now = asyncio.get_running_loop().time()
                    self._fed.append((_name(pod), keeper["metadata"]["uid"], now))

    def fed(self) -> list[str]:
        """Pods that took what preemption freed for another one, which waits for it."""
        return [
            f"{name} took what is kept for {keeper}"
            for name, keeper, at in self._fed
            if self.evictions.waits_still(keeper, at)
        ]

    def _gone(self, uid: str) -> None:
        self._release(uid)
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.gangs.gone(pod)
            self.evictions.gone(uid, asyncio.get_running_loop().time())

    def _charge(self, pod: Json, node: str) -> None:
        uid, written = pod["metadata"]["uid"], pod["metadata"].get("annotations", {})
        if _ALLOCATION not in written:
            return  # Somebody else's binding.
        allocation = json.loads(written[_ALLOCATION])
        alone = bool(allocation.get("exclusive"))
        for claim in allocation["claims"]:
            uuid, milli, memory = claim["uuid"], claim["milli"], claim["bytes"]
            card = self.cards.get(uuid)
            self._check(card is not None and card.node == node, f"{_name(pod)}: {uuid} on {node}")
            self._charged.setdefault(uid, []).append((uuid, milli, memory, alone))
            held = self.held[uuid]
            _add(held, uid, milli, memory, alone)
            self._check(held.milli <= WHOLE, f"{uuid} gives {held.milli} milli")
            if card is not None:
                self._check(held.memory <= card.memory, f"{uuid} gives {held.memory} bytes")
            self._check(not held.alone or len(held.pods) == 1, f"{uuid} is not alone")
        port = allocation.get("port")
        if port is not None:
            self._port_of[uid] = node, port
            self._ports[node, port].add(uid)
            self._check(len(self._ports[node, port]) == 1, f"port {port} twice on {node}")

    def _release(self, uid: str) -> None:
        for uuid, milli, memory, _ in self._charged.pop(uid, ()):
            held = self.held[uuid]
            held.milli -= milli
            held.memory -= memory
            held.pods.discard(uid)
            held.alone.discard(uid)
        port = self._port_of.pop(uid, None)
        if port is not None:
            self._ports[port].discard(uid)

    def _check_results(self, pod: Json) -> None:
        """The annotations of a bound pod agree with each other, its labels, and with before."""
        name, uid = _name(pod), pod["metadata"]["uid"]
        written = pod["metadata"].get("annotations", {})
        mine = {
            key: value
            for key, value in written.items()
            if key.startswith(_PREFIX) and key != _RESERVATION
        }
        now = json.dumps(mine, sort_keys=True)
        self._check(self._results.setdefault(uid, now) == now, f"{name}: results changed")
        wanted = request(pod)
        if wanted is None:
            return
        self._check(_ALLOCATION in written, f"{name} is bound without allocation")
        claims = json.loads(written.get(_ALLOCATION, '{"claims":[]}'))["claims"]
        uuids = [claim["uuid"] for claim in claims]
        self._check(written.get("sharedgpu/gpu_uuid") == ",".join(uuids), f"{name}: gpu_uuid")
        total = str(sum(claim["bytes"] for claim in claims))
        self._check(written.get("sharedgpu/gpu_mem") == total, f"{name}: gpu_mem is not {total}")
        count = max(1, wanted // WHOLE) if wanted > WHOLE else 1
        milli = sorted(claim["milli"] for claim in claims)
        expected = [WHOLE] * count if wanted > WHOLE else [wanted]
        self._check(milli == expected, f"{name} asks {wanted} and has {milli}")

    def _check(self, right: bool, problem: str) -> None:
        if not right and problem not in self.problems:
            self.problems.append(problem)
            self.last.append(f"WRONG: {problem}")

    # --- the end ---------------------------------------------------------------------------------

    async def until(self, wanted: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until it is so, looking after every change; False when it never was."""
        try:
            async with asyncio.timeout(timeout_s):
                while not wanted():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return wanted()
        return True

    def names(self) -> set[str]:
        """Of the pods that exist."""
        return {_name(pod) for pod in self.pods.values()}

    def bound(self) -> int:
        """How many pods have a node."""
        return sum(bool(pod["spec"].get("nodeName")) for pod in self.pods.values())

    def is_bound(self, name: str) -> bool:
        """Whether the pod of this name has a node."""
        return any(_name(pod) == name and pod["spec"].get("nodeName") for pod in self.pods.values())

    def reason(self, name: str) -> str:
        """Why the pod of this name waits, as it was told; "" while it was told nothing."""
        return next((_reason(pod) for pod in self.pods.values() if _name(pod) == name), "")

    def waiting(self) -> list[Json]:
        """Pods that have no node and are not over or on their way out."""
        return [
            pod
            for pod in self.pods.values()
            if not pod["spec"].get("nodeName")
            and not is_over(pod)
            and "deletionTimestamp" not in pod["metadata"]
        ]

    def overlooked(self) -> list[str]:
        """Waiting pods that fit somewhere by plain arithmetic, or that nobody told a reason.

        Gangs as a whole, until they have started. Where pods preempt, those fit that would if
        everybody was gone who may be evicted for them.
        """
        found = [*self.gangs.overlooked(self._room)]
        for pod in self.waiting():
            if not self.gangs.waits(pod) and self._room(pod):
                found.append(f"{_name(pod)} fits and waits")
            elif not _reason(pod):
                found.append(f"{_name(pod)} was told nothing")
        return found

    def is_settled(self) -> bool:
        """Whether evictions are at an end: no place is kept for anybody, no gang half gone."""
        return not self.evictions.nominations() and not self.evictions.torn()

    def _room(self, pod: Json) -> int:
        """How many such pods fit at once."""
        held, wanted = self._held_for(pod), request(pod) or 0
        if wanted > WHOLE:
            idle = Counter(card.node for uuid, card in self.cards.items() if not held[uuid].pods)
            return sum(count * WHOLE // wanted for count in idle.values())
        asked = pod["metadata"].get("labels", {}).get("sharedgpu/gpu_mem")
        room = 0
        for uuid, card in self.cards.items():
            one = held[uuid]
            each = int(asked) if asked else card.memory * wanted // WHOLE
            if not one.alone:
                room += min((WHOLE - one.milli) // wanted, (card.memory - one.memory) // each)
        return room

    def _held_for(self, pod: Json) -> defaultdict[str, Held]:
        """What is held of each card by those that this pod could not have evicted."""
        going = self.evictions.may_go(pod) if self.preempts else set()
        if not going:
            return self.held
        held: defaultdict[str, Held] = defaultdict(Held)
        for uid, charges in self._charged.items():
            for uuid, milli, memory, alone in charges if uid not in going else ():
                _add(held[uuid], uid, milli, memory, alone)
        return held


def _add(held: Held, uid: str, milli: int, memory: int, alone: bool) -> None:
    held.milli += milli
    held.memory += memory
    held.pods.add(uid)
    if alone:
        held.alone.add(uid)


def request(pod: Json) -> int | None:
    """Thousandths of a card that the labels ask for; None for a pod without them."""
    asked = pod["metadata"].get("labels", {}).get("sharedgpu/gpu_request")
    return None if asked is None else math.ceil(float(asked) * WHOLE - 1e-6)


def _reason(pod: Json) -> str:
    conditions: Iterable[Json] = pod["status"].get("conditions", [])
    return next((one.get("message", "") for one in conditions if one["type"] == "PodScheduled"), "")


def _name(pod: Json) -> str:
    return str(pod["metadata"]["name"])
