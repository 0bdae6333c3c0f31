"""docs/inventory.md says which messages there are and how large amounts may be: it is true."""

import re
from pathlib import Path

import pytest

from kubeshare_py.domain import quantity
from kubeshare_py.inventory.card_file import read_card_file
from kubeshare_py.inventory.collector_page import Remark, wirings
from kubeshare_py.inventory.node_annotations import read_annotation
from kubeshare_py.inventory.sample_merge import Reading
from tests.inventory.vector import A, capacity, fault, read, told, up, well
from tests.making import a_gpu

PAGE = (Path(__file__).parents[2] / "docs" / "inventory.md").read_text()
BOUNDS = {
    "memory of a card, bytes": quantity.CARD_BYTES,
    "index of a card": quantity.CARD_INDEX,
    "cards of a node": quantity.CARDS_OF_NODE,
    "NUMA node": quantity.NUMA_NODE,
    "speed of a link, MB/s": quantity.LINK_SPEED,
    "characters of a UUID or model": quantity.CARD_NAME,
    "priority of a cell": quantity.CELL_PRIORITY,
}


def rows(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def templates() -> list[str]:
    """What the table says, with what differs from case to case taken out."""
    return [text for row in rows("What the log says") for text in re.findall("`([^`]+)`", row[0])]


def plain(message: str) -> str:
    """Words that stay: no names, no numbers, nothing after a general beginning."""
    names = r"\b(UUID|NODE|HOST:PORT|GPU-\w+|[ab]:9004|[aAbNBXYKLJ])\b|[\d.]+(e\+\d+)?"
    return re.sub(r"\s+", " ", re.sub(names, "", message))


def messages() -> list[str]:
    big, one, two = str(2**53), capacity("a", "GPU-1"), capacity("a", "GPU-2")
    first = read(Reading(), one, two, fault("a", "GPU-1"), up("a")).reading
    steps = [
        read(Reading(), capacity("a", "GPU-1", memory=big), up("a")),
        read(Reading(), *(capacity("a", f"GPU-{at}", index=str(at)) for at in range(600))),
        read(first, one, two, capacity("b", "GPU-2"), up("a")),
        read(Reading(), one, two, well("a", 1), up("a")),
        read(Reading(), one, capacity("a", "GPU-2", instance="b:9004")),
    ]
    remarks: list[Remark] = []
    link = told("gpu_link", "a", 1e300, uuid="GPU-1", peer="GPU-2", type="SYS")
    wirings([link], {A: (a_gpu("GPU-1"),)}, remarks.append)
    absurd = f'[{{"uuid":"GPU-1","index":0,"model":"m","memory":{big}}}]'
    annotated = [f"node a: {problem}" for problem in read_annotation(absurd).problems]
    line = f"nodes: [{{names: [a], cards: [{{model: m, memory: 1}}, {{model: m, memory: {big}}}]}}]"
    (group,) = read_card_file(line, "FILE")
    return [
        *(said for step in steps for said in step.diagnostics),
        *(said for _, said in remarks),
        *annotated,
        *group.problems,
    ]


@pytest.mark.parametrize("message", messages())
def test_a_message_is_in_the_table(message: str) -> None:
    begun = [plain(text.partition("...")[0]) for text in templates()]
    assert any(plain(message).startswith(text.rstrip()) for text in begun if text.strip())


def test_the_bounds_are_those_of_the_code() -> None:
    said = {
        row[0]: (int(row[1]), int(row[2].split()[0])) for row in rows("How large amounts may be")
    }
    assert said == {name: (bound.least, bound.most) for name, bound in BOUNDS.items()}
