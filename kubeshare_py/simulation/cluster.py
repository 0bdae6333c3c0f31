"""The machine in a simulated cluster: events go in, and what it asks for is performed at once.

The API server stores each Binding and each write before it, volumes are made, claims get their
devices, device plugins free their locks, and victims leave. Time passes only in jumps, to the
moments at which the machine has something to do.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.cluster_objects import ObjectKey
from kubeshare_py.domain.device import ResourceClaim
from kubeshare_py.domain.effects import Bind, Effect, Evict, WriteObject
from kubeshare_py.domain.events import (
    BindAnswered,
    BindSlotsFree,
    Bound,
    Event,
    NodeSeen,
    ObjectSeen,
    ObjectWritten,
    PodGone,
    PodSeen,
    WriteOutcome,
)
from kubeshare_py.domain.identity import GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.domain.node import Node
from kubeshare_py.domain.storage import (
    ClaimReference,
    ClaimVolume,
    LockNode,
    PersistentVolume,
    PersistentVolumeClaim,
    ReserveDevices,
    SelectNode,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.machine import MAX_UNANSWERED, Machine, MachineEvent

#: The most turns until nothing moves: each places up to MAX_UNANSWERED pods.
_MAX_TURNS = 1_000_000


class NeverSettles(RuntimeError):
    """The machine asks to decide again and again; no configuration is known that does this."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that the machine evicted, where it was, and why."""

    uid: PodUid
    key: PodKey
    node: NodeName | None
    cards: tuple[GpuUuid, ...]
    message: str


class SimulatedCluster:
    """A machine of its own, with a simulated API server. `now` (s) is the machine's time.

    `placed` are all Bindings so far, and `evicted` all evictions, in order.
    """

    def __init__(self, machine: Machine, now: float) -> None:
        self.machine, self.now = machine, now
        self.placed: dict[PodUid, Bind] = {}
        self.evicted: list[Eviction] = []

    def tell(self, events: Iterable[MachineEvent]) -> None:
        """Handle events, and the answers to what the machine asks for."""
        for event in events:
            left = deque([event])
            while left:
                for effect in self.machine.handle(left.popleft(), self.now):
                    left.extend(self._answers(effect))

    def settle(self, quiet_s: float = 0.0) -> None:
        """Decide until no pod was placed or evicted for so many seconds of the machine's time.

        With 0 only what is decided at once. Raises NeverSettles.
        """
        moved_at, moves = self.now, self._moves()
        for _ in range(_MAX_TURNS):
            self.tell((BindSlotsFree(MAX_UNANSWERED),))
            if self._moves() != moves:
                moved_at, moves = self.now, self._moves()
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > moved_at + quiet_s:
                return
            self.now = max(self.now, wake_at)
        raise NeverSettles(f"it is not over after {_MAX_TURNS} turns")

    def wait_until(self, now: float) -> None:
        """Let time pass, with all that the machine does meanwhile. Raises NeverSettles."""
        for _ in range(_MAX_TURNS):
            wake_at = self.machine.wake_at(self.now)
            if wake_at is None or wake_at > now:
                self.now = max(self.now, now)
                return
            self.now = max(self.now, wake_at)
            self.tell((BindSlotsFree(MAX_UNANSWERED),))
        raise NeverSettles(f"it is not over after {_MAX_TURNS} turns")

    def node(self, name: NodeName) -> Node | None:
        """A node as the machine knows it."""
        columns = self.machine.ledger.columns
        row = columns.row_of.get(name)
        return None if row is None else columns.nodes[row]

    def _moves(self) -> tuple[int, int]:
        return len(self.placed), len(self.evicted)

    def _answers(self, effect: Effect) -> Sequence[MachineEvent]:
        match effect:
            case Bind():
                return self._bound(effect)
            case Evict():
                return self._evicted(effect)
            case WriteObject(uid=uid, token=token, write=write):
                written = ObjectWritten(uid, token, write, WriteOutcome.DONE)
                return [*self._written(effect), written]
            case _:
                return ()

    def _bound(self, bind: Bind) -> list[Event]:
        # Not twice, if one Binding is sent again.
        self.placed.pop(bind.uid, None)
        self.placed[bind.uid] = bind
        pod = self.machine.records[bind.uid].pod
        shown = replace(
            pod,
            node_name=bind.node,
            allocation=bind.allocation,
            nominated=False,
            nominated_node=None,
        )
        answered = BindAnswered(bind.uid, bind.allocation.token, Bound())
        return [answered, PodSeen(shown), *self._freed(bind)]

    def _evicted(self, effect: Evict) -> list[Event]:
        record = self.machine.records.get(effect.uid)
        if record is None:
            return []
        held = record.allocation.cards if record.allocation is not None else ()
        cards = tuple(card.uuid for card in held)
        gone = Eviction(effect.uid, effect.key, record.node, cards, effect.note or effect.message)
        self.evicted.append(gone)
        return [PodGone(effect.uid, stopped=True)]

    # --- what controllers and device plugins make of a write ------------------------------------

    def _written(self, effect: WriteObject) -> Iterator[Event]:
        write = effect.write
        match write:
            case LockNode():
                yield from self._locked(write)
            case ReserveDevices():
                yield from self._reserved(write)
            case ClaimVolume():
                yield from self._volume_claimed(write)
            case SelectNode():
                yield from self._provisioned(write)

    def _locked(self, write: LockNode) -> Iterator[Event]:
        node = self.node(NodeName(write.node))
        if node is not None:
            owner = PodKey(write.namespace, write.pod)
            locks = (
                replace(one, owner=owner, text=str(owner)) if one.key == write.key else one
                for one in node.locks
            )
            yield NodeSeen(replace(node, locks=tuple(locks)))

    def _freed(self, bind: Bind) -> Iterator[Event]:
        """The device plugin has given the pod its devices: the locks that it has are free."""
        node = self.node(bind.node)
        if node is None or all(one.owner != bind.key for one in node.locks):
            return
        locks = (
            replace(one, owner=None, text="") if one.owner == bind.key else one
            for one in node.locks
        )
        yield NodeSeen(replace(node, locks=tuple(locks)))

    def _reserved(self, write: ReserveDevices) -> Iterator[Event]:
        claims = self.machine.ledger.columns.objects.of(ResourceClaim)
        claim = claims.get(ObjectKey(write.namespace, write.device_claim))
        if claim is not None:
            yield ObjectSeen(
                replace(
                    claim,
                    allocation=write.allocation or claim.allocation,
                    reserved_for=claim.reserved_for | {write.pod_uid},
                    is_protected=True,
                    resource_version=_later(claim.resource_version),
                )
            )

    def _volume_claimed(self, write: ClaimVolume) -> Iterator[Event]:
        objects = self.machine.ledger.columns.objects
        volume = objects.of(PersistentVolume).get(ObjectKey("", write.volume))
        if volume is not None:
            claim = ClaimReference(write.namespace, write.claim, write.claim_uid)
            version = _later(volume.version)
            yield ObjectSeen(replace(volume, claim=claim, phase="Bound", version=version))
            yield from self._claim_bound(write.namespace, write.claim, write.volume)

    def _provisioned(self, write: SelectNode) -> Iterator[Event]:
        """A driver makes a volume that the chosen node reaches, and no other is asked for."""
        claims = self.machine.ledger.columns.objects.of(PersistentVolumeClaim)
        claim = claims.get(ObjectKey(write.namespace, write.claim))
        if claim is not None:
            name = f"simulated-{write.namespace}-{write.claim}"
            made = PersistentVolume(
                namespace="",
                name=name,
                capacity=claim.requested or 0,
                class_name=claim.class_name,
                access_modes=claim.access_modes,
                volume_mode=claim.volume_mode,
                claim=ClaimReference(write.namespace, write.claim, claim.uid),
                phase="Bound",
            )
            yield ObjectSeen(made)
            yield from self._claim_bound(write.namespace, write.claim, name, write.node)

    def _claim_bound(
        self, namespace: str, name: str, volume: str, node: str | None = None
    ) -> Iterator[Event]:
        claims = self.machine.ledger.columns.objects.of(PersistentVolumeClaim)
        claim = claims.get(ObjectKey(namespace, name))
        if claim is not None:
            yield ObjectSeen(
                replace(
                    claim,
                    volume=volume,
                    bind_completed=True,
                    selected_node=node or claim.selected_node,
                    version=_later(claim.version),
                )
            )


def _later(version: str) -> str:
    """Another resourceVersion: they are opaque, and are compared for equality alone."""
    return f"{version}+"
