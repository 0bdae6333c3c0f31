"""The inventory from the collectors themselves: a real child process, HTTP, and all that fails."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kubeshare_py.domain.events import InventoryFailed, InventoryRead
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.inventory.collector_scrape import CollectorTargets, readings
from kubeshare_py.edges.inventory.inventory_reports import ScrapeAccess
from kubeshare_py.edges.kube.certificates import make_certificates
from kubeshare_py.edges.process.backoff import Backoff
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import SimulatedNode, read_cluster
from kubeshare_py.manifests.common_definitions import ObjectMeta
from kubeshare_py.manifests.partial_objects import CollectorPod, PlaceSpec, PlaceStatus
from kubeshare_py.manifests.watch import (
    ADDED,
    DELETED,
    MODIFIED,
    Changes,
    ListResult,
    Problem,
    WatchLine,
)
from tests.edges.bare_server import NoSleep
from tests.edges.collector_place import Place, serving
from tests.edges.inventory.children import children
from tests.patience import PATIENCE_S

A, B = NodeName("a"), NodeName("b")
HOSTS = {"127.0.0.2": A, "127.0.0.3": B}
Inventory = AsyncGenerator[InventoryRead | InventoryFailed, None]


@pytest.fixture
async def place(nodes: tuple[SimulatedNode, ...]) -> AsyncIterator[Place]:
    place = Place(nodes, dict(HOSTS))
    async with serving(place):
        yield place


def pod(name: str, node: str, host: str, **status: Any) -> CollectorPod:
    return CollectorPod(
        metadata=ObjectMeta(name=name),
        spec=PlaceSpec(node_name=node),
        status=PlaceStatus(phase="Running", pod_ip=host, **status),
    )


def listed(*pods: CollectorPod) -> ListResult[CollectorPod]:
    return ListResult(items=[*pods], problems=[], asked_at=0.0)


def changed(kind: str, one: CollectorPod) -> Changes[CollectorPod]:
    return Changes(changed=[WatchLine(type=kind, item=one)])


PODS = (pod("on-a", "a", "127.0.0.2"), pod("on-b", "b", "127.0.0.3"))


JOINED = """
nodes:
  - name: a
    gpus: [{model: T4, memory: 1GiB, count: 2}]
    topology: |
      GPU0 GPU1
      GPU0 X PIX
      GPU1 PIX X
  - {name: b, gpus: [{model: T4, memory: 1GiB}]}
"""


@pytest.mark.slow
async def test_a_page_tells_how_cards_are_joined() -> None:
    nodes = read_cluster(JOINED)
    place = Place(nodes, dict(HOSTS))
    async with serving(place), aclosing(quick(both(), place.port)) as inventory:
        first = await following(inventory)
        assert first == InventoryRead(tuple((node.name, node.cards) for node in nodes))
        place.collectors.remove_card(A, 1)
        # That it is alone, and what it can reach, are two pieces of news.
        known: dict[NodeName, tuple[Gpu, ...]] = {}
        while known != {A: (replace(nodes[0].cards[0], links=()),)}:
            news = await following(inventory)
            assert isinstance(news, InventoryRead)
            known |= dict(news.changed)


def both() -> CollectorTargets:
    targets = CollectorTargets()
    targets.take(listed(*PODS))
    return targets


def quick(targets: CollectorTargets, port: int, **options: Any) -> Inventory:
    given: dict[str, Any] = {
        "scheme": "http",
        "interval_s": 0.3,
        "access": ScrapeAccess(),
        "backoff": Backoff(sleep=NoSleep()),
        **options,
    }
    return readings(targets, port=port, **given)


async def following(inventory: Inventory) -> InventoryRead | InventoryFailed:
    """What comes next; a test that waits in vain shall fail, not hang."""
    async with asyncio.timeout(PATIENCE_S):
        return await anext(inventory)


async def test_the_first_reading_has_every_card(
    place: Place, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(both(), place.port)) as inventory:
        first = await following(inventory)
    assert first == InventoryRead(tuple((node.name, node.cards) for node in nodes))
    assert children() == []


@pytest.mark.slow
async def test_gone_ill_and_down_are_told_apart(
    place: Place, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(both(), place.port)) as inventory:
        await following(inventory)
        place.collectors.remove_card(A, 0)
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards[1:]),))
        place.collectors.take_down(A)
        assert await following(inventory) == InventoryRead((), (A,))
        place.collectors.break_card(B, 0)
        ill = await following(inventory)
        assert isinstance(ill, InventoryRead)
        assert [(node, card.healthy) for node, (card,) in ill.changed] == [(B, False)]
        place.collectors.restore_card(A, 0)
        place.collectors.bring_up(A)
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards),))


@pytest.mark.slow
async def test_one_that_hangs_costs_only_its_own_node(
    place: Place, nodes: tuple[SimulatedNode, ...]
) -> None:
    place.hung.add(A)
    async with aclosing(quick(both(), place.port)) as inventory:
        assert await following(inventory) == InventoryRead(((B, nodes[1].cards),))
        place.collectors.remove_card(B, 0)
        assert await following(inventory) == InventoryRead(((B, ()),))
        place.hung.clear()
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards),))


@pytest.mark.slow
async def test_collectors_come_go_and_move(place: Place, nodes: tuple[SimulatedNode, ...]) -> None:
    targets = CollectorTargets()
    async with aclosing(quick(targets, place.port)) as inventory:
        failed = await following(inventory)
        assert failed == InventoryFailed("the collectors' pods are not known yet")
        targets.take(listed())
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert failed.message.startswith("no collector's pod has an address")
        targets.take(changed(ADDED, pod("starting", "a", "")))
        targets.take(changed(ADDED, PODS[0]))
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards),))
        targets.take(changed(ADDED, PODS[1]))
        assert await following(inventory) == InventoryRead(((B, nodes[1].cards),))
        # Its pod is replaced: no news until the next one answers, which has one card less.
        targets.take(changed(DELETED, PODS[0]))
        assert await following(inventory) == InventoryRead((), (A,))
        place.hosts["127.0.0.9"] = A
        place.collectors.remove_card(A, 1)
        targets.take(changed(ADDED, pod("next", "a", "127.0.0.9")))
        assert await following(inventory) == InventoryRead(((A, nodes[0].cards[:1]),))


def test_a_collector_whose_pod_cannot_be_decoded_is_asked_on_and_its_deletion_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    targets, sent = both(), list[bytes]()
    targets.attach(sent.append)
    odd = Problem(text="Expected `str`", namespace="kubeshare", name="on-b", uid="u")
    targets.take(ListResult(items=[PODS[0]], problems=[odd], asked_at=0.0))
    assert [sorted(one["targets"]) for one in map(json.loads, sent)] == [["on-a", "on-b"]] * 2
    targets.take(Changes(changed=[WatchLine(type=MODIFIED, problem=odd)]))
    assert len(sent) == 2
    targets.take(Changes(changed=[WatchLine(type=DELETED, problem=odd)]))
    assert json.loads(sent[2])["targets"] == {"on-b": None}
    said = [record.__dict__["fields"] for record in caplog.records]
    assert said == [{"object": "on-b", "message": "Expected `str`"}] * 3


@pytest.mark.slow
async def test_when_nobody_answers_that_is_a_failure_and_says_why(place: Place) -> None:
    for node in (A, B):
        place.collectors.take_down(node)
    async with aclosing(quick(both(), place.port)) as inventory:
        failed = await following(inventory)
        assert failed == InventoryFailed(
            "none of 2 collectors answers; one: HTTP 503 no reading yet"
        )
        place.collectors.bring_up(A)
        assert isinstance(await following(inventory), InventoryRead)
    async with aclosing(quick(both(), 1)) as inventory:
        failed = await following(inventory)
        assert isinstance(failed, InventoryFailed)
        assert "Connect call failed" in failed.message


@pytest.mark.slow
async def test_a_collector_that_says_it_is_elsewhere_is_not_believed(
    place: Place, nodes: tuple[SimulatedNode, ...], caplog: pytest.LogCaptureFixture
) -> None:
    place.hosts["127.0.0.2"] = B
    async with aclosing(quick(both(), place.port)) as inventory:
        assert await following(inventory) == InventoryRead(((B, nodes[1].cards),))
    place_of_a = f"the collector at 127.0.0.2:{place.port}"
    assert f"node a: no answer of {place_of_a}: it says that it is on b" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (web.Response(status=302, headers={"Location": "http://127.0.0.3/"}), "HTTP 302"),
        (web.Response(body=b"\xff\xfe"), "UnicodeDecodeError"),
        (web.Response(body=b"x" * (8 * 2**20 + 1)), "a page of more than 8388608 bytes"),
        (web.Response(body=b"x", headers={"Content-Encoding": "gzip"}), "its page has neither"),
    ],
    ids=["redirect", "bytes", "huge", "gzip"],
)
async def test_an_odd_answer_is_none(
    place: Place, odd: web.Response, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    place.odd[A] = odd
    async with aclosing(quick(both(), place.port)) as inventory:
        first = await following(inventory)
        assert isinstance(first, InventoryRead)
        assert [node for node, _ in first.changed] == [B]
        assert why in caplog.text
        second = await following(inventory)
        assert isinstance(second, InventoryRead)
        assert [node for node, _ in second.changed] == [A]


@pytest.mark.slow
async def test_a_child_that_dies_is_replaced_and_remembers(
    place: Place, nodes: tuple[SimulatedNode, ...]
) -> None:
    async with aclosing(quick(both(), place.port)) as inventory:
        await following(inventory)
        (child,) = children()
        os.kill(child, signal.SIGKILL)
        assert isinstance(await following(inventory), InventoryFailed)
        place.collectors.remove_card(B, 0)
        assert await following(inventory) == InventoryRead(((B, ()),))
    assert children() == []


@pytest.mark.slow
async def test_tls_needs_the_right_authority_and_name_and_carries_the_token(
    nodes: tuple[SimulatedNode, ...], tmp_path: Path
) -> None:
    made = make_certificates(tmp_path / "tls", ("collectors.example",))
    token = tmp_path / "token"
    token.write_text("secret\n")
    place = Place(nodes, dict(HOSTS))
    async with serving(place, made.server_context()):
        for access, why in (
            (ScrapeAccess(ca_file=str(made.ca_file)), "IP address mismatch"),
            (ScrapeAccess(server_name="collectors.example"), "unable to get local issuer"),
            (ScrapeAccess(ca_file=str(tmp_path / "no-file")), "No such file"),
        ):
            async with aclosing(
                quick(both(), place.port, scheme="https", access=access)
            ) as inventory:
                failed = await following(inventory)
                assert isinstance(failed, InventoryFailed)
                assert why in failed.message
        assert place.asked.empty()
        access = ScrapeAccess(
            ca_file=str(made.ca_file), server_name="collectors.example", token_file=str(token)
        )
        async with aclosing(quick(both(), place.port, scheme="https", access=access)) as inventory:
            assert isinstance(await following(inventory), InventoryRead)
        assert await place.asked.get() == "Bearer secret"
