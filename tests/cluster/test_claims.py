"""Of a card that several nodes claim: where pods hold it, else on the oldest node."""

from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.card_disputes import Claims
from kubeshare_py.cluster.columns import UNHEALTHY
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodUid
from tests.making import a_gpu, a_node
from tests.scale import examples

A, B, C = (NodeName(name) for name in "abc")
NODES = (A, B, C)
#: Whole cards, and instances that are parts of them.
WHOLE = tuple(GpuUuid(f"GPU-{at}") for at in range(2))
PARTS = tuple(GpuUuid(f"MIG-{at}") for at in range(2))
UUIDS = (*WHOLE, *PARTS)


def cards(*uuids: str, **parents: str) -> tuple[Gpu, ...]:
    """Whole cards, then instances by the part of their uuid after `MIG-`, with their parents."""
    parts = ((f"MIG-{name}", GpuUuid(parent)) for name, parent in parents.items())
    named = (*((uuid, None) for uuid in uuids), *parts)
    return tuple(a_gpu(uuid, index=at, parent=of) for at, (uuid, of) in enumerate(named))


def holding(uuid: str) -> Allocation:
    return Allocation(token=DecisionToken(uuid), cards=(CardCharge(GpuUuid(uuid), 100, 1),))


def a_ledger(listed: dict[NodeName, tuple[Gpu, ...]]) -> Ledger:
    ledger = Ledger()
    for node, gpus in listed.items():
        ledger.put_node(a_node(node))
        ledger.put_cards(node, gpus)
    return ledger


def hold(ledger: Ledger, pod: str, node: NodeName, uuid: str) -> None:
    ledger.charge(PodUid(pod), node, (), holding(uuid))


def counted(ledger: Ledger) -> set[tuple[NodeName, GpuUuid]]:
    """Cards that take new pods, by the inventory and by the columns alike."""
    columns = ledger.columns
    found = {
        (node, one.uuid) for node, gpus in ledger.inventory.items() for one in gpus if one.healthy
    }
    in_columns = {
        (node, uuid)
        for node, row in columns.row_of.items()
        for slot, uuid in enumerate(columns.uuids[row])
        if columns.nodes[row] is not None and not columns.flags.item(row, slot) & (1 | UNHEALTHY)
    }
    assert in_columns == {(node, uuid) for node, uuid in found if node in there(ledger)}
    return in_columns


def there(ledger: Ledger) -> set[NodeName]:
    columns = ledger.columns
    return {node for node, row in columns.row_of.items() if columns.nodes[row] is not None}


def test_a_card_that_pods_hold_counts_where_they_are_and_no_other_is_touched() -> None:
    ledger = a_ledger({A: cards("GPU-0", "GPU-1")})
    hold(ledger, "p", A, "GPU-0")
    ledger.put_node(a_node(B))
    ledger.put_cards(B, cards("GPU-0", "GPU-1", "GPU-2"))
    assert counted(ledger) == {(A, "GPU-0"), (B, "GPU-2")}
    assert ledger.claims.rivals(A) == {"GPU-0": (B,), "GPU-1": (B,)}
    ledger.put_cards(B, cards("GPU-2"))
    assert counted(ledger) == {(A, "GPU-0"), (A, "GPU-1"), (B, "GPU-2")}
    assert not ledger.claims.disputes


def test_the_last_pod_that_leaves_takes_the_verdict_with_it() -> None:
    ledger = a_ledger({A: cards("GPU-0"), B: cards("GPU-0")})
    assert counted(ledger) == set()
    hold(ledger, "p", A, "GPU-0")
    hold(ledger, "q", A, "GPU-0")
    assert counted(ledger) == {(A, "GPU-0")}
    hold(ledger, "r", B, "GPU-0")
    assert counted(ledger) == set()
    ledger.release(PodUid("r"))
    ledger.release(PodUid("p"))
    assert counted(ledger) == {(A, "GPU-0")}
    ledger.release(PodUid("q"))
    assert counted(ledger) == set()
    ledger.drop_node(B)
    assert counted(ledger) == {(A, "GPU-0")}


def test_what_pods_hold_is_not_taken_by_a_node_that_is_read_first() -> None:
    """After a new start one collector answers before the other one."""
    ledger = a_ledger({A: (), B: cards("GPU-0")})
    hold(ledger, "p", A, "GPU-0")
    assert counted(ledger) == set()
    ledger.put_cards(A, cards("GPU-0"))
    assert counted(ledger) == {(A, "GPU-0")}


def test_of_a_silent_node_and_one_that_answers_the_latter_has_what_no_pod_holds() -> None:
    ledger = a_ledger({A: cards("GPU-0", "GPU-1"), B: cards("GPU-0", "GPU-1")})
    hold(ledger, "p", A, "GPU-1")
    ledger.put_silent(frozenset({A}))
    assert counted(ledger) == {(B, "GPU-0"), (A, "GPU-1")}
    ledger.put_silent(frozenset({A, B}))
    assert counted(ledger) == {(A, "GPU-1")}
    ledger.put_silent(frozenset())
    assert counted(ledger) == {(A, "GPU-1")}


def test_cards_that_no_pod_holds_count_on_the_node_that_was_created_first() -> None:
    ledger = a_ledger({A: cards("GPU-0", "GPU-1"), B: cards("GPU-0", "GPU-1")})
    assert counted(ledger) == set()
    ledger.put_node(a_node(B, created="2026-11-01T00:00:00Z"))
    assert counted(ledger) == set()  # it is not known how old A is
    ledger.put_node(a_node(A, created="2026-11-02T00:00:00Z"))
    assert counted(ledger) == {(B, "GPU-0"), (B, "GPU-1")}
    hold(ledger, "p", A, "GPU-1")
    assert counted(ledger) == {(B, "GPU-0"), (A, "GPU-1")}
    ledger.put_silent(frozenset({B}))
    assert counted(ledger) == {(A, "GPU-0"), (A, "GPU-1")}


def test_a_parent_decides_about_its_instances_and_they_about_it() -> None:
    ledger = a_ledger({A: (*cards(x="GPU-0", y="GPU-0"),), B: cards("GPU-0", "GPU-1")})
    assert counted(ledger) == {(B, "GPU-1")}
    hold(ledger, "p", A, "MIG-x")
    assert counted(ledger) == {(A, "MIG-x"), (A, "MIG-y"), (B, "GPU-1")}
    ledger.put_cards(C, cards(y="GPU-9"))
    ledger.put_node(a_node(C))
    assert counted(ledger) == {(A, "MIG-x"), (B, "GPU-1")}


def test_a_place_that_is_kept_for_a_pod_counts_as_held() -> None:
    ledger = a_ledger({A: cards("GPU-0"), B: ()})
    hold(ledger, "victim", A, "GPU-0")
    ledger.reserve(PodUid("p"), A, (), holding("GPU-0"))
    ledger.put_cards(B, cards("GPU-0"))
    ledger.release(PodUid("victim"))
    assert counted(ledger) == {(A, "GPU-0")}
    ledger.dissolve(PodUid("p"))
    assert counted(ledger) == set()


def test_a_reading_of_one_node_looks_at_no_others() -> None:
    """Of thousands of nodes only those are laid out again whose cards are claimed."""
    ledger = Ledger()
    for at in range(300):
        ledger.put_node(a_node(f"n{at:03}"))
        ledger.put_cards(NodeName(f"n{at:03}"), cards(f"GPU-{at}"))
    before = ledger.capacities
    ledger.put_cards(NodeName("n000"), cards("GPU-0", "GPU-7", "GPU-8"))
    assert ledger.capacities - before == 3
    ledger.put_cards(NodeName("n000"), cards("GPU-0", "GPU-7", "GPU-8"))
    assert ledger.capacities - before == 4


# --- histories, judged by books of their own ------------------------------------------------------


@dataclass
class Facts:
    """What is so now; nothing of how it became so."""

    present: set[NodeName] = field(default_factory=set)
    created: dict[NodeName, str] = field(default_factory=dict)
    listed: dict[NodeName, dict[GpuUuid, GpuUuid | None]] = field(default_factory=dict)
    silent: set[NodeName] = field(default_factory=set)
    pods: dict[PodUid, tuple[NodeName, GpuUuid]] = field(default_factory=dict)

    def counted(self) -> set[tuple[NodeName, GpuUuid]]:
        return {
            (node, uuid)
            for node in self.present
            for uuid, parent in self.listed.get(node, {}).items()
            if all(self._is_of(key, node) for key in (uuid, parent) if key)
            if uuid not in self.listed[node].values()  # it is divided
        }

    def _is_of(self, key: GpuUuid, node: NodeName) -> bool:
        listing = {one for one in self.present if self._lists(one, key)}
        holding = {one for one, held in self.pods.values() if one in self.present and held == key}
        holding |= {
            one
            for one, held in self.pods.values()
            if one in listing and self.listed[one].get(held) == key
        }
        if listing | holding == {node}:
            return True
        if holding:
            return holding == {node}
        others = listing - self.silent - {node}
        mine = self.created.get(node, "")
        return node in listing - self.silent and all(
            mine and mine < self.created[one] for one in others
        )

    def _lists(self, node: NodeName, key: GpuUuid) -> bool:
        named = self.listed.get(node, {})
        return key in named or key in named.values()

    def gpus(self, node: NodeName) -> tuple[Gpu, ...]:
        named = self.listed.get(node, {})
        return tuple(a_gpu(uuid, parent=parent) for uuid, parent in named.items())

    def in_any_order(self, seed: int) -> Ledger:
        """A ledger that hears of all this anew."""
        ledger = Ledger()
        steps = [
            *((0, node) for node in sorted(self.present)),
            *((1, node) for node in sorted(self.listed)),
            *((2, uid) for uid in sorted(self.pods)),
            (3, ""),
        ]
        Random(seed).shuffle(steps)
        for kind, name in steps:
            if kind == 0:
                ledger.put_node(a_node(name, created=self.created[NodeName(name)]))
            elif kind == 1:
                ledger.put_cards(NodeName(name), self.gpus(NodeName(name)))
            elif kind == 2:
                node, uuid = self.pods[PodUid(name)]
                hold(ledger, name, node, uuid)
            else:
                ledger.put_silent(frozenset(self.silent))
        return ledger


some_node = st.sampled_from(NODES)
some_listing = st.dictionaries(st.sampled_from(UUIDS), st.none(), min_size=1, max_size=4)
some_parents = st.dictionaries(st.sampled_from(PARTS), st.sampled_from(WHOLE), max_size=2)
some_step = st.one_of(
    st.tuples(st.just("list"), some_node, some_listing, some_parents),
    st.tuples(st.just("node"), some_node, st.booleans(), st.sampled_from(["", "1", "2", "3"])),
    st.tuples(st.just("silent"), st.frozensets(some_node)),
    st.tuples(st.just("pod"), st.sampled_from("pqrs"), some_node, st.sampled_from(UUIDS)),
    st.tuples(st.just("kept"), st.sampled_from("kl"), some_node, st.sampled_from(UUIDS)),
    st.tuples(st.just("gone"), st.sampled_from("pqrskl")),
    st.tuples(st.just("tried"), some_node, st.sampled_from(UUIDS)),
)


def take(step: tuple[object, ...], ledger: Ledger, facts: Facts) -> None:
    """One thing that happens, to the ledger and in the books."""
    match step:
        case ("list", str(node), dict(listing), dict(parents)):
            facts.listed[NodeName(node)] = {**listing, **parents}
            ledger.put_cards(NodeName(node), facts.gpus(NodeName(node)))
        case ("node", str(node), bool(present), str(created)):
            facts.created[NodeName(node)] = created
            (facts.present.add if present else facts.present.discard)(NodeName(node))
            if present:
                ledger.put_node(a_node(node, created=created))
            else:
                ledger.drop_node(NodeName(node))
        case ("silent", frozenset() as nodes):
            facts.silent = {NodeName(node) for node in nodes}
            ledger.put_silent(frozenset(facts.silent))
        case ("pod" | "kept" as how, str(pod), str(node), str(uuid)):
            facts.pods[PodUid(pod)] = (NodeName(node), GpuUuid(uuid))
            put = ledger.charge if how == "pod" else ledger.reserve
            put(PodUid(pod), NodeName(node), (), holding(uuid))
        case ("gone", str(pod)):
            facts.pods.pop(PodUid(pod), None)
            (ledger.release if pod in "pqrs" else ledger.dissolve)(PodUid(pod))
        case ("tried", str(node), str(uuid)):
            hold(ledger, "trial", NodeName(node), uuid)
            ledger.undo_charge(PodUid("trial"))
        case _:
            raise AssertionError(step)


@examples(300)
@given(
    st.tuples(*(some_listing for _ in NODES)),
    st.lists(some_step, min_size=3, max_size=25),
    st.integers(0, 9),
)
def test_what_counts_follows_from_what_is_so_now_and_from_nothing_else(
    first: tuple[dict[GpuUuid, None], ...], steps: list[tuple[object, ...]], seed: int
) -> None:
    ledger, facts = Ledger(), Facts()
    for node, listing in zip(NODES, first, strict=True):
        take(("node", node, True, "2"), ledger, facts)
        take(("list", node, listing, {}), ledger, facts)
    for step in steps:
        take(step, ledger, facts)
        assert counted(ledger) == facts.counted()
    assert not ledger.claims.changed
    anew = facts.in_any_order(seed)
    assert counted(anew) == facts.counted()
    assert anew.claims.disputes == ledger.claims.disputes


@pytest.mark.source_only(reason="looks into objects by their __dict__")
@pytest.mark.parametrize("node", NODES)
def test_nothing_is_remembered_of_claims_that_ended(node: NodeName) -> None:
    ledger = a_ledger({one: cards("GPU-0", x="GPU-1") for one in NODES})
    hold(ledger, "p", node, "MIG-x")
    for one in NODES:
        ledger.put_cards(one, ())
        ledger.drop_node(one)
    ledger.release(PodUid("p"))
    kept = {name: value for name, value in vars(ledger.claims).items() if value}
    assert kept == {}


def test_a_card_that_is_listed_beside_its_instances_takes_no_pods() -> None:
    claims, there = Claims(), A
    whole, other = a_gpu("GPU-0"), a_gpu("GPU-1", index=1)
    instance = a_gpu("MIG-0", parent=GpuUuid("GPU-0"))
    claims.listed(there, (whole, other, instance))
    found = {gpu.uuid: gpu.healthy for gpu in claims.counted(there)}
    assert found == {"GPU-0": False, "GPU-1": True, "MIG-0": True}
    claims.listed(there, (whole, other))
    assert all(gpu.healthy for gpu in claims.counted(there))
