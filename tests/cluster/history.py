"""Any history of a ledger, told to it and to books of our own.

A step is four small numbers, so that Hypothesis can shrink a history.
"""

from collections.abc import Callable

import numpy as np
from hypothesis import strategies as st

from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import BusPath
from kubeshare_py.domain.gpu import CardTag, CardTags, PeerLink, TagKind
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid, card_at
from kubeshare_py.domain.node import Taint
from kubeshare_py.domain.values import replace
from tests.cluster.reference_model import Held, ReferenceModel, Resources
from tests.making import a_gpu, a_node

NAMES = tuple(NodeName(f"n{number}") for number in range(4))
PODS = tuple(PodUid(f"p{number}") for number in range(6))
RESERVED = tuple(PodUid(f"e{number}") for number in range(4))
RESOURCES: tuple[Resources, ...] = (
    (),
    (("cpu", 700),),
    (("cpu", 50), ("memory", 1 << 30)),
    (("cpu", 50), ("unrequested memory", 200 << 20)),
    (("example.com/nic", 1),),
    (("cpu", 1), ("example.com/fpga", 2), ("hugepages-2Mi", 5)),
)
RED, OURS, THEIRS = (
    CardTag(TagKind.AFFINITY, "a", "red"),
    CardTag(TagKind.EXCLUSION, "a", "red"),
    CardTag(TagKind.EXCLUSION, "b", "red"),
)
TAGS: tuple[CardTags, ...] = ((), (), (), (RED,), (OURS,), (THEIRS,), (RED, OURS))
Step = tuple[int, int, int, int]
STEPS = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 11), st.integers(0, 6)),
    min_size=5,
    max_size=40,
)


class History:
    """The ledger and the books are told the same."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.reference = ReferenceModel()
        self.ports = 0
        self.actions: tuple[Callable[[int, int, int], None], ...] = (
            self.put_node,
            self.drop_node,
            self.put_cards,
            self.put_cards,
            self.charge,
            self.charge,
            self.charge,
            self.release,
            self.reservation,
            self.dissolve,
            self.linger,
            self.linger,
            self.end_lingering,
        )

    def begin(self, cards: int = 4) -> None:
        """Four roomy nodes with cards, so that much fits in many places."""
        for name in NAMES:
            node = a_node(name)
            gpus = tuple(
                a_gpu(f"{name}-{slot}", index=slot, memory_bytes=1000) for slot in range(cards)
            )
            self.ledger.put_node(node)
            self.ledger.put_cards(name, gpus)
            self.reference.nodes[name] = node
            self.reference.cards[name] = {gpu.uuid: gpu for gpu in gpus}

    def step(self, step: Step) -> None:
        """One thing happens, and every row that it changed is in the logs."""
        action, which, what, how = step
        ledger, reference = self.ledger, self.reference
        before = {name: reference.all_of(name) for name in NAMES}
        rows = dict(ledger.columns.row_of)
        changed, relabelled, improved = (
            ledger.changed.end,
            ledger.relabelled.end,
            ledger.improved.end,
        )
        room = {name: self.room(name) for name in NAMES}
        self.actions[action % len(self.actions)](which, what, how)
        reference.settle()
        rows.update(ledger.columns.row_of)
        logged = logged_since(ledger.changed.since(changed, 99))
        for name in NAMES:
            if reference.all_of(name) != before[name] and name in rows:
                assert rows[name] in logged
            if more(self.room(name), room[name]):
                assert rows[name] in logged_since(ledger.improved.since(improved, 99))
            was = before[name]
            if (was[0] if was else None) != reference.nodes.get(name):
                assert rows[name] in logged_since(ledger.relabelled.since(relabelled, 99))

    def room(self, name: NodeName) -> dict[str, int]:
        """What a node could take: free amounts while it is shown, and room on its cards."""
        if name not in self.reference.nodes:
            return {}
        cards = {uuid: self.reference.card(name, uuid) for uuid in self.reference.known(name)}
        rooms = {
            # An overdrawn card takes nobody, as one with flags: less than -1 is no less.
            f"{uuid} {column}": max(card[column], -1)
            for uuid, card in cards.items()
            for column in ("headroom", "share_headroom")
        }
        return {**self.reference.free(name), **rooms, "shown": 1}

    def put_node(self, which: int, what: int, how: int) -> None:
        """A node is added or changed."""
        name = NAMES[which % len(NAMES)]
        node = a_node(name, cpu=1000 * (what % 3), pods=what % 4, unschedulable=how % 2 == 1)
        if how % 3 == 1:
            extended = (("example.com/nic", what), ("example.com/fpga", 1))
            node = replace(node, allocatable=(*node.allocatable, *extended))
        if how % 3 == 2:
            node = replace(node, taints=(Taint("k", str(what)),), labels={"zone": str(what)})
        self.ledger.put_node(node)
        self.reference.nodes[name] = node

    def drop_node(self, which: int, what: int, how: int) -> None:
        """A node is not shown any more."""
        name = NAMES[which % len(NAMES)]
        self.ledger.drop_node(name)
        self.reference.nodes.pop(name, None)
        self.reference.held = {
            uid: held
            for uid, held in self.reference.held.items()
            if held.node != name or not held.lingers
        }

    def put_cards(self, which: int, what: int, how: int) -> None:
        """Other cards than before."""
        name = NAMES[which % len(NAMES)]
        gpus = tuple(
            a_gpu(
                f"{name}-{slot}",
                index=slot,
                healthy=how % 3 != slot,
                memory_bytes=(1000, 999, 77_777)[what % 3],
                max_tenants=how % 4,
                links=(PeerLink(slot ^ 1, "NV4", 0),) if what % 2 else (),
                numa_node=slot // 2 if how % 2 else None,
                cell_priority=how,
                rdma=(None, BusPath.SYS, BusPath.PIX)[(slot + how) % 3],
                memory_scaling=(1000, 1500, 333)[(what + slot) % 3],
                cores_scaling=(1000, 2500, 400)[(what + how) % 3],
            )
            for slot in range(5)
            if (what * 7 + how) >> slot & 1
        )
        self.ledger.put_cards(name, gpus)
        self.reference.cards[name] = {gpu.uuid: gpu for gpu in gpus}
        self.reference.look_up(name)

    def charge(self, which: int, what: int, how: int) -> None:
        """A pod holds something, instead of what it held before."""
        uid = PODS[what % len(PODS)]
        held = self.some(which, what, how)
        if what % 4 == 3 and held.allocation is not None:
            held = replace(held, allocation=by_index(held.allocation))
        self.ledger.charge(uid, held.node, held.resources, held.allocation)
        self.put(uid, held)
        self.reference.look_up(held.node)

    def some(self, which: int, what: int, how: int) -> Held:
        """What a pod may hold."""
        name = NAMES[which % len(NAMES)]
        self.ports += 1
        # Nodes have five cards at most.
        count, named = (15, 30) if what == 11 else (1 + which % 2, 5)
        cards = tuple(
            CardCharge(
                GpuUuid(f"{name}-{(3 * how + slot) % named}"),
                (0, 333, 1000)[what % 3],
                how * 100,
                exclusive=how % 5 == 1,
                tags=TAGS[(what + how) % len(TAGS)],
            )
            for slot in range(count)
        )
        allocation = Allocation(
            token=DecisionToken(str(self.ports)),
            cards=cards if how % 4 else (),
            port=50051 + self.ports if how % 2 else None,
        )
        resources = RESOURCES[(what + how) % len(RESOURCES)]
        return Held(name, resources, None if how % 7 == 6 else allocation)

    def release(self, which: int, what: int, how: int) -> None:
        """A pod, perhaps one that nobody knows, holds nothing any more."""
        uid = PODS[what % len(PODS)]
        self.ledger.release(uid)
        held = self.reference.held.get(uid)
        if held is not None and not held.lingers:
            del self.reference.held[uid]

    def linger(self, which: int, what: int, how: int) -> None:
        """A pod vanishes, and keeps its cards and its port where its node is shown."""
        uids = sorted(uid for uid in PODS if self.ledger.charge_of(uid) is not None)
        if not uids:
            return
        uid = uids[what % len(uids)]
        held = self.reference.held[uid]
        cards = held.allocation is not None and held.allocation.cards
        stays = bool(cards) and held.node in self.reference.nodes
        assert self.ledger.linger(uid) == stays
        del self.reference.held[uid]
        if stays:
            self.reference.held[uid] = replace(held, resources=(), lingers=True)

    def end_lingering(self, which: int, what: int, how: int) -> None:
        """A pod, perhaps one that does not linger, keeps nothing any more."""
        uid = PODS[what % len(PODS)]
        self.ledger.end_lingering(uid)
        held = self.reference.held.get(uid)
        if held is not None and held.lingers:
            del self.reference.held[uid]

    def reservation(self, which: int, what: int, how: int) -> None:
        """A place is to be a pod's, instead of the one that was."""
        uid = RESERVED[what % len(RESERVED)]
        held = self.some(which, what, how)
        self.ledger.reserve(uid, held.node, held.resources, held.allocation)
        self.put(uid, replace(held, is_reservation=True))

    def put(self, uid: PodUid, held: Held) -> None:
        """First what was held goes, and with it perhaps the last of a node that is not shown."""
        self.reference.held.pop(uid, None)
        self.reference.settle()
        self.reference.held[uid] = held

    def dissolve(self, which: int, what: int, how: int) -> None:
        """A pod, perhaps one without a reservation, is to have none any more."""
        uid = RESERVED[what % len(RESERVED)]
        self.ledger.dissolve(uid)
        self.reference.held.pop(uid, None)


def by_index(allocation: Allocation) -> Allocation:
    """The allocation with indices in place of uuids, which end with them."""
    cards = allocation.cards
    named = (replace(one, uuid=card_at(int(one.uuid.rpartition("-")[2]))) for one in cards)
    return replace(allocation, cards=tuple(named))


def logged_since(rows: object) -> set[int]:
    assert isinstance(rows, np.ndarray)
    return {int(row) for row in rows}


def more(now: dict[str, int], before: dict[str, int]) -> bool:
    """Whether something is there of which there was less."""
    keys = now.keys() | before.keys() if now and before else now.keys()
    return any(now.get(key, 0) > before.get(key, 0) for key in keys)
