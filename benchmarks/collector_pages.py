"""Thousands of collectors in one process, each at an address of its own: 127.0.0.0/8 is all ours.

    python benchmarks/collector_pages.py NODES CARDS

Prints its port. GET /turn on any address makes the first card of every node ill, or well again.
Pages have what schedulers read and no more, so that a Prometheus has room for all of them.
"""

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence

from aiohttp import web

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.collector_metrics import PATH, capacity_samples, exposition
from kubeshare_py.inventory.collector_page import INFO, LINK, NUMA
from kubeshare_py.inventory.series import CARDS, FAULT, HEALTHY, OF_NODE

GIB = 2**30


def node_name(number: int) -> NodeName:
    """Of one of the nodes."""
    return NodeName(f"node-{number:05}")


def address(number: int) -> str:
    """Where its collector is."""
    return f"127.1.{number // 250}.{number % 250 + 1}"


class Pages:
    """What all collectors say."""

    def __init__(self, nodes: int, cards: int) -> None:
        self._cards = cards
        self._number = {address(number): number for number in range(nodes)}
        self._ill = False
        self._wirings: dict[NodeName, str] = {}

    async def page(self, request: web.Request) -> web.Response:
        """One collector's page."""
        node = node_name(self._number[request.host.partition(":")[0]])
        return web.Response(text=self._text(node), content_type="text/plain")

    async def turn(self, _request: web.Request) -> web.Response:
        """Let the first card of each node change."""
        self._ill = not self._ill
        return web.Response()

    def _text(self, node: NodeName) -> str:
        cards = [
            Gpu(
                uuid=GpuUuid(f"GPU-{node}-{index:04}-0000-000000000000"),
                index=index,
                model="NVIDIA-A100-SXM4-40GB",
                memory_bytes=40 * GIB,
            )
            for index in range(self._cards)
        ]
        lines = [exposition(capacity_samples(node, cards, time.time()))]
        if self._ill:
            lines.append(f'{FAULT}{{node="{node}",uuid="{cards[0].uuid}",fault="made-up"}} 1\n')
        lines.append(f'{CARDS}{{node="{node}"}} {len(cards)}\n')
        lines.append(f'{HEALTHY}{{node="{node}"}} {len(cards) - self._ill}\n')
        lines.append(f'{OF_NODE}{{node="{node}",driver="old-driver",mps="ready"}} {len(cards)}\n')
        return "".join((*lines, self._wiring(node, cards)))

    def _wiring(self, node: NodeName, cards: Sequence[Gpu]) -> str:
        """Written once, as real collectors do: it is most of a page."""
        if node not in self._wirings:
            self._wirings[node] = "".join(_wiring(node, cards))
        return self._wirings[node]


def _wiring(node: NodeName, cards: Sequence[Gpu]) -> Iterator[str]:
    """Switches join all, half of the cards are near each processor."""
    for one in cards:
        this = f'node="{node}",uuid="{one.uuid}"'
        named = f'index="{one.index}",model="{one.model}",bus="",parent="",profile="",clique=""'
        yield f"{INFO}{{{this},{named}}} 1\n"
        yield f"{NUMA}{{{this}}} {int(one.index >= len(cards) // 2)}\n"
        for other in cards:
            if other is not one:
                yield f'{LINK}{{{this},peer="{other.uuid}",type="NV12"}} 600\n'


async def main(nodes: int, cards: int) -> None:
    """Serve until standard input ends."""
    pages = Pages(nodes, cards)
    application = web.Application()
    application.add_routes([web.get(PATH, pages.page), web.get("/turn", pages.turn)])
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "0.0.0.0", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
