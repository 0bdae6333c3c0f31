"""The cards of one node as a table."""

from kubeshare_py.domain.card_reading import CardLink, JudgedCard, of_labels
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.terminal.gpu_tables import node_cards
from tests.making.golden import expect_golden
from tests.node_agent.readings import a_card

NODE = NodeName("n1")


def test_instances_are_below_their_card_and_faults_are_named() -> None:
    whole = a_card("GPU-a", divided=True, bus="0000:07:00.0", numa_node=1)
    part = a_card("MIG-1", parent="GPU-a", profile="1g.5gb", memory_bytes=5 * 2**30, used_bytes=0)
    ill = a_card("GPU-b", index=1, busy_percent=93)
    cards = [
        JudgedCard(reading=whole),
        JudgedCard(reading=part),
        JudgedCard(reading=ill, faults=("lost", "xid-79")),
    ]
    expect_golden("terminal/node-cards", node_cards(NODE, "550", cards, []))


def test_the_matrix_has_what_is_known() -> None:
    cards = [JudgedCard(reading=a_card(uuid, index=at)) for at, uuid in enumerate(("a", "b"))]
    link = CardLink(uuid=GpuUuid("a"), peer=GpuUuid("b"), kind="NV12", speed=0)
    shown = node_cards(NODE, "550", cards, [link])
    assert shown.splitlines()[-3:] == ["   0  1", "0  X  NV12", "1  -  X"]


def test_cards_that_are_alike_are_told_together_how_their_isolation_is() -> None:
    ready = of_labels((("driver", "old-driver"), ("mps", "ready")))
    dead = of_labels((("driver", "old-driver"), ("mps", "no-daemon")))
    told = (ready, dead, ready, ())
    cards = [
        JudgedCard(reading=a_card(f"GPU-{at}", index=at), readiness=one)
        for at, one in enumerate(told)
    ]
    assert node_cards(NODE, "550", cards, []).splitlines()[-2:] == [
        "isolation of 2 of them: driver old-driver, mps ready",
        "isolation of 1 of them: driver old-driver, mps no-daemon",
    ]


def test_a_node_without_cards_is_one_line() -> None:
    assert node_cards(NODE, "", [], []) == "n1: no driver, 0 cards and instances\n"
