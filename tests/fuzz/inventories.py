"""What nodes, collectors and Prometheus tell of cards."""

import json
from collections.abc import Sequence
from random import Random

from kubeshare_py.dialects.agent_annotation import read_agent
from kubeshare_py.dialects.hami.annotations import RegisteredCard, write_json, write_records
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.node import AGENT_ANNOTATION, AgentWords
from kubeshare_py.domain.quantity import CARD_BYTES, CARD_INDEX, CARDS_OF_NODE, NUMA_NODE
from kubeshare_py.inventory.card_use import MeasuredUse, uses_of_vector
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.inventory.changes import next_reading
from kubeshare_py.inventory.collector_page import Remark, read_page, wiring_of_page, wirings
from kubeshare_py.inventory.hami_plugins import (
    Handshake,
    PluginSigns,
    registered_cards,
    requesting,
    time_in,
)
from kubeshare_py.inventory.node_annotations import (
    CardAnnotationProblem,
    read_annotation,
    write_cards,
)
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import AnswerProblem, Series, instant_vector
from kubeshare_py.topology.wiring import wired
from tests.fuzz import odd
from tests.fuzz.family import Family, loaded, said
from tests.fuzz.objects import odd_object
from tests.inventory.joined_cards import joined_cards
from tests.inventory.vector import capacity, count, fault, told, up, well
from tests.making import a_gpu

_CARDS = write_cards(
    (a_gpu("GPU-n1-0", numa_node=1, fabric="f"), a_gpu("GPU-n1-1", index=1, healthy=False))
)
_GOOD = json.loads(write_cards((a_gpu("GPU-the-good", index=7),)))[0]
_NODE = NodeName("n1")


def _odd_cards(rng: Random) -> str:
    if rng.random() < 0.1:
        return odd.text(rng, _CARDS)
    return odd_object(rng, [_CARDS]).decode(errors="surrogateescape")


def judge_cards(text: str) -> None:
    """A node's annotation: cards within their bounds, and each other one with its place."""
    _judge_cards(text)
    is_json, value = loaded(text.encode(errors="surrogatepass"))
    if is_json and isinstance(value, list) and "GPU-the-good" not in text:
        found = _judge_cards(json.dumps([_GOOD, *value]))
        assert "GPU-the-good" in {card.uuid for card in found}, "the card beside is lost"


def _judge_cards(text: str) -> tuple[Gpu, ...]:
    try:
        found = read_annotation(text)
    except CardAnnotationProblem as problem:
        said(str(problem), "sharedgpu/cards")
        return ()
    assert found == read_annotation(text)
    for one in found.problems:
        said(str(one), f"sharedgpu/cards[{one.at}]")
    sound_cards(found.cards)
    return found.cards


def sound_cards(cards: tuple[Gpu, ...]) -> None:
    """All amounts within their bounds, no card twice."""
    assert len(cards) <= CARDS_OF_NODE.most
    assert len({card.uuid for card in cards}) == len(cards)
    for card in cards:
        assert not uuid_problem(card.uuid)
        assert CARD_BYTES.allows(card.memory_bytes)
        assert CARD_INDEX.allows(card.index)
        assert card.numa_node is None or NUMA_NODE.allows(card.numa_node)


def sound_uses(uses: Sequence[MeasuredUse]) -> None:
    """All amounts within their bounds."""
    assert len(uses) <= CARDS_OF_NODE.most
    for use in uses:
        assert 0 <= (use.busy_milli or 0) <= 1000
        assert 0 <= (use.in_use_bytes or 0) <= CARD_BYTES.most


_REGISTERED = (
    RegisteredCard(
        uuid="GPU-n1-0", count=10, memory_mib=1024, cores=100, type="NVIDIA T4", health=True
    ),
    RegisteredCard(uuid="GPU-n1-1", index=1, count=10, memory_mib=2048, numa=1, mode="mig"),
)
_REGISTERS = (
    write_json(_REGISTERED),
    write_records(_REGISTERED),
    write_records(_REGISTERED, as_seed=True),
)


def _odd_register(rng: Random) -> tuple[str, str]:
    """A register annotation and a handshake."""
    like = rng.choice(_REGISTERS)
    written = odd.garbled(rng, like) if rng.random() < 0.5 else odd.text(rng, like)
    return written, odd.garbled(
        rng, rng.choice(("Reported 2024-01-23 04:30:04 +0000", requesting(0)))
    )


def judge_register(written: tuple[str, str]) -> None:
    """A node that HAMi's device plugin registers: cards within their bounds, or a sentence."""
    text, handshake = written
    found = registered_cards(text)
    assert found == registered_cards(text)
    if isinstance(found, str):
        said(found)
    else:
        sound_cards(found.cards)
        for problem in found.problems:
            said(problem, "[")
    at = time_in(handshake)
    assert at is None or at == time_in(handshake)
    plugin = Handshake(PluginSigns(register=text, handshake=handshake), 1e9)
    assert not plugin.is_alive(1e9 + 60)


_VECTOR = (
    *(capacity("n1", "GPU-n1-0"), capacity("n1", "GPU-n1-1", index="1"), fault("n1", "GPU-n1-1")),
    *(count("n1", 2), well("n1", 2), up("n1")),
    told("gpu_link", "n1", 32.0, uuid="GPU-n1-0", peer="GPU-n1-1", type="SYS"),
    told("kubeshare_gpu_numa_node", "n1", 0.0, uuid="GPU-n1-0"),
    told("kubeshare_gpu_info", "n1", 1.0, uuid="GPU-n1-0", parent="", clique=""),
    told("kubeshare_collector_isolation", "n1", 1.0, mps="ready"),
    told("kubeshare_gpu_busy_ratio", "n1", 0.5, uuid="GPU-n1-0"),
)
_OTHERS = (capacity("n2", "GPU-n2-0"), count("n2", 1), well("n2", 1), up("n2"))
_RESULT = json.dumps([{"metric": one.labels, "value": [1e9, str(one.value)]} for one in _VECTOR])


def judge_answer(written: bytes) -> None:
    """What Prometheus answers: all of its series or, with the place, none."""
    is_json, value = loaded(written)
    if not is_json:
        return
    try:
        vector = instant_vector(value)
    except AnswerProblem as problem:
        said(str(problem), "data.result")
        return
    judge_vector([*vector, *_OTHERS], vector)


def judge_vector(vector: list[Series], odd_ones: list[Series]) -> None:
    """Cards within bounds, sentences about the rest; the node beside keeps its card."""
    step = next_reading(Reading(), vector, 0.0, unix_now=1e9)
    for cards in step.reading.cards.values():
        sound_cards(cards)
    again = next_reading(Reading(), vector, 0.0, unix_now=1e9)
    assert (step.changed, step.diagnostics) == (again.changed, again.diagnostics)
    for sentence in step.diagnostics:
        said(sentence)
    if not any("n2" in str(one.labels) for one in odd_ones):
        assert [card.uuid for card in step.reading.cards[NodeName("n2")]] == ["GPU-n2-0"]
    for uses in uses_of_vector(vector).values():
        sound_uses(uses)
    remarks: list[Remark] = []
    for node, found in wirings(vector, step.reading.cards, remarks.append).items():
        sound_cards(wired(step.reading.cards[node], found))
    for node, sentence in remarks:
        said(sentence, node[:60])


_PAGE = joined_cards(_NODE)


def _odd_page(rng: Random) -> str:
    lines = _PAGE.split("\n")
    told_of = [at for at, line in enumerate(lines) if line and not line.startswith("#")]
    for _ in range(rng.randint(1, 4)):
        way, at = rng.random(), rng.choice(told_of)
        if way < 0.7:
            lines[at] = odd.garbled(rng, lines[at])
        elif way < 0.8:
            lines[at] = ""
        elif way < 0.9:
            lines.insert(0, lines[at])
        else:
            lines[at] = lines[at].rpartition(" ")[0] + f" {odd.text(rng, '1.0')}"
    return "\n".join(lines)


def judge_page(text: str) -> None:
    """A collector's page, with its end or without."""
    for has_end in (False, True):
        page, again = (
            read_page(text, _NODE, "10.0.0.1:9004", has_end=has_end, with_uses=True)
            for _ in range(2)
        )
        # NaN is not equal to itself.
        assert str(page) == str(again)
        for sentence in page.diagnostics:
            said(sentence, "node n1")
        sound_uses(page.uses)
        assert bool(page.problem) == (page.vector[0].value == 0.0)
        step = next_reading(Reading(), page.vector, 0.0, unix_now=100.0)
        for sentence in step.diagnostics:
            said(sentence)
        for node, cards in step.reading.cards.items():
            assert node == _NODE, "it speaks for another node"
            sound_cards(cards)
        remarks: list[Remark] = []
        wirings(wiring_of_page(page.wiring), step.reading.cards, remarks.append)
        for _, sentence in remarks:
            said(sentence, "node n1")


_WORDS = json.dumps(
    {
        "v": 1,
        "plugins": ["nvidia.com/gpu"],
        "held": [{"uid": "u", "ns": "a", "pod": "b", "cards": ["GPU-n1-0"]}],
        "held_truncated": False,
    }
)


def _odd_words(rng: Random) -> str:
    if rng.random() < 0.1:
        return odd.text(rng, _WORDS)
    return odd_object(rng, [_WORDS]).decode(errors="surrogateescape")


def judge_words(text: str) -> None:
    """What a node's agent says: all of it, or nothing with the reason."""
    found = read_agent({AGENT_ANNOTATION: text})
    assert found == read_agent({AGENT_ANNOTATION: text})
    if found.problem:
        said(found.problem, AGENT_ANNOTATION)
        assert found == AgentWords(problem=found.problem)
    for pick in found.picks or ():
        assert pick.uid
        assert len({*pick.cards}) == len(pick.cards) <= CARDS_OF_NODE.most


FAMILIES = (
    Family(name="registers", make=_odd_register, judge=judge_register, share=2),
    Family(name="agents", make=_odd_words, judge=judge_words, share=2),
    Family(name="cards", make=_odd_cards, judge=judge_cards, share=7),
    Family(
        name="answers",
        make=lambda rng: odd_object(rng, [_RESULT]),
        judge=judge_answer,
        share=6,
    ),
    Family(name="pages", make=_odd_page, judge=judge_page, share=4),
)
