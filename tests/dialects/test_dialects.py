"""What concerns the whole cluster: owners of names, results, other schedulers' pods."""

from collections.abc import Mapping

import pytest

from kubeshare_py.dialects.dialect import Dialect, NodeKeys, OwnedKeys, PlacedNode, PodAsk
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.identity import DecisionToken, GpuUuid
from kubeshare_py.domain.node import AgentWords, NodeAtDecision, slices_of
from kubeshare_py.domain.request import GpuRequest, InvalidRequest
from tests.dialects.halves import CARDS, DIALECTS, GPU, HALF, OF, STATE, Halves
from tests.making import a_gpu

HELD = Allocation(
    token=DecisionToken("t"), dialect="halves", cards=(CardCharge(GpuUuid("GPU-1"), 500, 1),)
)


def results(dialects: Dialects, held: Allocation) -> Mapping[str, str] | str:
    return dialects.results(held, NodeAtDecision(), 0.0)


def a_node(**annotations: str) -> NodeKeys:
    return NodeKeys("n", {}, {f"example.com/{name}": text for name, text in annotations.items()})


class Odd(Halves):
    """Answers what the test says."""

    def __init__(self, answer: object) -> None:
        super().__init__()
        self.answer = answer

    def _answer(self) -> object:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
        return self._answer()  # type: ignore[return-value]

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        return self._answer()  # type: ignore[return-value]


class Late(Dialect):
    """Contests the same name, and says that it owns it everywhere."""

    name = "late"
    owns = OwnedKeys(contested=frozenset({GPU}))

    def read(self, pod: PodAsk) -> GpuRequest | InvalidRequest | None:
        return None

    def owns_on(self, resource: str, node: NodeKeys) -> bool:
        return True


def test_pods_are_read_in_the_dialects_of_their_profile_and_others_in_all() -> None:
    assert [one.name for one in DIALECTS.of("other").dialects] == ["sharedgpu"]
    for name in ("kubeshare-scheduler", "default-scheduler"):
        assert [one.name for one in DIALECTS.of(name).dialects] == ["sharedgpu", "halves"]
    assert SHAREDGPU_ALONE.of("any").dialects == SHAREDGPU_ALONE.every.dialects


def test_a_name_has_one_owner_per_node_and_is_native_on_all_other_nodes() -> None:
    assert DIALECTS.owners(a_node(register="yes")) == ((GPU, "halves"),)
    assert DIALECTS.owners(a_node()) == ()
    both = Dialects({"a": (Halves(),), "b": (Late(),)})
    assert both.owners(a_node(register="yes")) == ((GPU, "halves"),)
    assert both.owners(a_node()) == ((GPU, "late"),)


@pytest.mark.parametrize("answer", [ValueError("x"), None, "yes", 1])
def test_a_dialect_that_fails_owns_no_name(answer: object) -> None:
    assert Dialects({"a": (Odd(answer),)}).owners(a_node(register="yes")) == ()


def test_the_allocations_dialect_writes_its_results() -> None:
    assert results(DIALECTS, HELD) == {CARDS: "GPU-1"}
    assert results(DIALECTS, Allocation(token=DecisionToken("t"), dialect="sharedgpu")) == {}
    assert results(DIALECTS, Allocation(token=DecisionToken("t"), dialect="gone")) == {}


def test_a_dialect_sees_the_node_as_it_was_when_the_pod_was_sent_to_it() -> None:
    """The index of the card, the units of the node, and Unix time in nanoseconds."""
    whole, instance = a_gpu("GPU-a", index=1), a_gpu("MIG-b", index=1, parent="GPU-c")
    scaled = a_gpu("GPU-d", index=0, memory_scaling=2000)
    decided = NodeAtDecision(
        name="n1",
        cards=(whole, instance, scaled),
        allocatable=(("cpu", 1), (GPU, 2), (HALF, 4), ("aliyun.com/gpu-mem", 30)),
        at=12.25,
        agent=AgentWords(plugins=("aliyun.com/gpu-mem", slices_of(HALF))),
    )
    seen: list[PlacedNode] = []

    class Curious(Halves):
        def results(self, allocation: Allocation, node: PlacedNode) -> Mapping[str, str]:
            seen.append(node)
            return {}

    assert Dialects({"a": (Curious(),)}).results(HELD, decided, 1_700_000_000.5) == {}
    (node,) = seen
    assert node.name == "n1"
    assert {uuid: (card.index, card.model) for uuid, card in node.cards.items()} == {
        "GPU-a": (1, whole.model),
        "MIG-b": (1, whole.model),
        "GPU-d": (0, whole.model),
    }
    assert node.cards[scaled.uuid].memory_bytes == 2 * scaled.memory_bytes
    assert node.offered == {GPU: 2, HALF: 4}
    assert node.served == {HALF}
    assert abs(node.decided_at_ns - 1_700_000_012_750_000_000) < 1000


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (ValueError("x"), "ValueError: x"),
        (["a"], "results answered ['a'], which is no mapping"),
        ({HALF: "1"}, "'example.com/half' is none of its result keys"),
        ({CARDS: 1}, "example.com/cards is 1, which is no text"),
        ({1: "x"}, "1 is none of its result keys"),
    ],
)
def test_results_that_are_none_are_told(answer: object, why: str) -> None:
    assert results(Dialects({"a": (Odd(answer),)}), HELD) == f"dialect halves failed: {why}"


def test_results_of_containers_are_known_by_their_beginning_and_some_are_labels_too() -> None:
    answer = {CARDS: "GPU-1", OF + "main": "0", STATE: "placed"}
    dialects = Dialects({"a": (Odd(answer),)})
    found = results(dialects, HELD)
    assert found == answer
    assert dialects.labels(HELD, answer) == {STATE: "placed"}
    assert dialects.labels(Allocation(token=DecisionToken("t"), dialect="gone"), answer) == {}


@pytest.mark.parametrize("text", ["a b", "n" * 64, "-a"])
def test_what_cannot_be_the_value_of_a_label_is_an_annotation_alone(text: str) -> None:
    dialects = Dialects({"a": (Odd({STATE: text}),)})
    assert results(dialects, HELD) == {STATE: text}
    assert dialects.labels(HELD, {STATE: text}) == {}


class Marked(Halves):
    """Its pods need a mark, which nodes have that offer a half."""

    marks = ("halves in quarters",)

    def __init__(self, answer: object = None) -> None:
        super().__init__()
        self._answer = answer

    def has_mark(self, mark: str, node: NodeKeys) -> bool:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer or HALF in node.offered  # type: ignore[return-value]


def test_nodes_have_the_marks_that_dialects_give_them() -> None:
    found = Dialects({"a": (Marked(),)})
    assert found.marks(NodeKeys("n", {}, {}, {HALF: 1})) == ("halves in quarters",)
    assert found.marks(NodeKeys("n", {}, {})) == ()
    for answer in (ValueError("x"), "yes", 1):
        assert Dialects({"a": (Marked(answer),)}).marks(NodeKeys("n", {}, {})) == ()
    assert DIALECTS.marks(NodeKeys("n", {}, {})) == ()
