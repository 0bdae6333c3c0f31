"""The inventory file: which cards are in which nodes, with node names by shell pattern."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import msgspec

from kubeshare_py.documents.yaml_text import DocumentProblem, memory_bytes, read_document
from kubeshare_py.domain.gpu import WHOLE_MILLI, Gpu, thousandths
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.quantity import CARD_BYTES, CARD_NAME, CARD_TENANTS, CARDS_OF_NODE
from kubeshare_py.inventory.card_uuid import uuid_problem
from kubeshare_py.topology.wiring import MatrixProblem, Wiring, read_matrix, wired

# Synthetic UUIDs for cards without one: equal for equal node and index, everywhere.


_CARDS = uuid.UUID("6f1f4b52-6f0b-4c55-9a53-7d2d1d0f8a11")


def synthetic_uuid(node: str, index: int) -> str:
    """A card UUID in NVIDIA's form (`GPU-xxxxxxxx-xxxx-…`), derived from node name and index."""
    return f"GPU-{uuid.uuid5(_CARDS, f'{node}/{index}')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLine:
    """`count` equal cards. `uuid` is given for one card only; without it, it is synthetic.

    Scalings are in thousandths. A line with a `problem` stands for no cards, but those after it
    keep their numbers.
    """

    model: str
    memory_bytes: int
    count: int
    uuid: GpuUuid | None
    healthy: bool
    max_tenants: int = 0
    memory_scaling: int = WHOLE_MILLI
    cores_scaling: int = WHOLE_MILLI
    problem: str = ""


@dataclass(frozen=True, slots=True)
class CardGroup:
    """The cards of every node whose name matches one of the patterns."""

    patterns: tuple[str, ...]
    lines: tuple[CardLine, ...]
    wiring: Wiring

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems of lines that are left out."""
        return tuple(line.problem for line in self.lines if line.problem)


def read_card_file(text: bytes | str, source: str = "inventory file") -> tuple[CardGroup, ...]:
    """The groups of an inventory file; raises DocumentProblem with file, field and rule."""
    document = read_document(text, source, _CardFileContent)
    groups: list[CardGroup] = []
    uuids: set[GpuUuid] = set()
    for number, group in enumerate(document.nodes):
        lines: list[CardLine] = []
        for at, cards in enumerate(group.cards):
            field = f"nodes[{number}].cards[{at}]"
            line = _line(cards, source, field)
            if line.uuid is not None:
                if line.uuid in uuids:
                    raise DocumentProblem(source, f"{field}.uuid", f"{line.uuid} is there twice")
                if _is_pattern(group.names):
                    raise DocumentProblem(source, f"{field}.uuid", "cannot be in several nodes")
                uuids.add(line.uuid)
            problem = CARDS_OF_NODE.problem(line.count + sum(one.count for one in lines))
            if problem:
                rule = f"{source}: {field}: number of cards of the node {problem}: left out"
                line = replace(line, count=0, problem=rule)
            lines.append(line)
        count = sum(line.count for line in lines)
        field = f"nodes[{number}].topology"
        wiring = read_topology(group.topology, count, source, field)
        groups.append(CardGroup(tuple(group.names), tuple(lines), wiring))
    return tuple(groups)


def cards_by_node(
    groups: Iterable[CardGroup], nodes: Iterable[NodeName]
) -> Mapping[NodeName, tuple[Gpu, ...]]:
    """Each node's cards by the first group that matches its name; other nodes have none.

    Names without pattern characters count even if the node is not known yet.
    """
    groups = tuple(groups)
    named = {
        NodeName(name) for group in groups for name in group.patterns if not _is_pattern([name])
    }
    return {node: _cards_of(node, groups) for node in sorted(named.union(nodes))}


def read_topology(text: str, count: int, source: str, field: str) -> Wiring:
    """How `count` cards are joined, as `nvidia-smi topo -m` prints it; raises DocumentProblem."""
    if not text:
        return Wiring()
    try:
        wiring = read_matrix(text)
    except MatrixProblem as problem:
        raise DocumentProblem(source, field, str(problem)) from problem
    if len(wiring.links) != count:
        raise DocumentProblem(source, field, f"is of {len(wiring.links)} cards, there are {count}")
    return wiring


class _CardsEntry(msgspec.Struct, forbid_unknown_fields=True):
    """`memory_scaling` and `cores_scaling` are factors."""

    model: str
    memory: int | str
    count: int = 1
    uuid: str | None = None
    healthy: bool = True
    split_count: int = msgspec.field(default=0, name="splitCount")
    memory_scaling: float = msgspec.field(default=1.0, name="memoryScaling")
    cores_scaling: float = msgspec.field(default=1.0, name="coresScaling")


class _NodesEntry(msgspec.Struct, forbid_unknown_fields=True):
    names: list[str]
    cards: list[_CardsEntry]
    topology: str = ""


class _CardFileContent(msgspec.Struct, forbid_unknown_fields=True):
    nodes: list[_NodesEntry]


def _line(cards: _CardsEntry, source: str, field: str) -> CardLine:
    if cards.count < 0:
        raise DocumentProblem(source, f"{field}.count", f"{cards.count} is less than 0")
    if cards.uuid is not None and (not cards.uuid or cards.count != 1):
        raise DocumentProblem(source, f"{field}.uuid", "names exactly one card")
    if not cards.model.strip():
        raise DocumentProblem(source, f"{field}.model", "is empty")
    try:
        memory = memory_bytes(cards.memory)
    except ValueError as problem:
        raise DocumentProblem(source, f"{field}.memory", str(problem)) from problem
    of_memory = _factor(cards.memory_scaling, source, f"{field}.memoryScaling")
    of_cores = _factor(cards.cores_scaling, source, f"{field}.coresScaling")
    bounded = (
        ("memory", CARD_BYTES, memory),
        ("scaled memory", CARD_BYTES, memory * of_memory // WHOLE_MILLI),
        ("splitCount", CARD_TENANTS, cards.split_count),
        ("length of the model", CARD_NAME, len(cards.model)),
        ("length of the uuid", CARD_NAME, len(cards.uuid or "-")),
    )
    problems = [f"{name} {found}" for name, bound, is_ in bounded if (found := bound.problem(is_))]
    if cards.uuid is not None and (form := uuid_problem(cards.uuid)):
        problems.append(f"uuid {form}")
    return CardLine(
        model=cards.model.replace(" ", "-"),
        memory_bytes=memory,
        problem=f"{source}: {field}: {problems[0]}: left out" if problems else "",
        count=cards.count,
        uuid=GpuUuid(cards.uuid) if cards.uuid is not None else None,
        healthy=cards.healthy,
        max_tenants=cards.split_count,
        memory_scaling=of_memory,
        cores_scaling=of_cores,
    )


def _factor(factor: float, source: str, field: str) -> int:
    try:
        return thousandths(factor)
    except ValueError as problem:
        raise DocumentProblem(source, field, str(problem)) from problem


def _is_pattern(names: Iterable[str]) -> bool:
    names = list(names)
    return len(names) != 1 or any(character in names[0] for character in "*?[")


def _cards_of(node: NodeName, groups: tuple[CardGroup, ...]) -> tuple[Gpu, ...]:
    for group in groups:
        if any(fnmatchcase(node, pattern) for pattern in group.patterns):
            each = [line for line in group.lines for _ in range(line.count)]
            cards = tuple(
                Gpu(
                    uuid=line.uuid or GpuUuid(synthetic_uuid(node, index)),
                    index=index,
                    model=line.model,
                    memory_bytes=line.memory_bytes,
                    healthy=line.healthy,
                    max_tenants=line.max_tenants,
                    memory_scaling=line.memory_scaling,
                    cores_scaling=line.cores_scaling,
                )
                for index, line in enumerate(each)
                if not line.problem
            )
            return wired(cards, group.wiring)
    return ()
