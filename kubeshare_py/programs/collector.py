"""kubeshare-collector: reports this node's cards to Prometheus, or prints them once."""

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.node.card_sampler import ROOT, CardSampler, CardsUnreadable
from kubeshare_py.edges.node.collector_server import CannotListen, CollectorPage, serve
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal

OK, UNREADABLE, NOT_STARTED = 0, 1, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorSettings:
    """`address` "" is all. Times in seconds; `stale_after_s` is more than an interval."""

    node: NodeName
    address: str
    port: int
    interval_s: float
    stale_after_s: float
    log_level: str = "info"
    #: Whether the cards are written on the Node, too.
    annotates: bool = False
    root: Path = ROOT  # below which the node's own folders are mounted

    def sampler(self) -> CardSampler:
        """A sampler with these settings."""
        return CardSampler(self.node, self.interval_s, self.stale_after_s, root=self.root)


def run(settings: CollectorSettings) -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    decision_log.set_up(settings.log_level)
    try:
        asyncio.run(until_signal(collect(settings)))
    except (CannotListen, KubeConfigError) as error:
        decision_log.warn("server", message=str(error))
        return NOT_STARTED
    return OK


async def collect(settings: CollectorSettings) -> None:
    """Read and serve for ever. Raises CannotListen and KubeConfigError."""
    sampler = settings.sampler()
    if settings.annotates:
        # Imported late: 30 MiB on every node, and few need it.
        from kubeshare_py.edges.node import node_annotation  # noqa: PLC0415

        writer = node_annotation.credentials()
    async with serve(sampler, settings.address, settings.port), asyncio.TaskGroup() as group:
        if settings.annotates:
            group.create_task(node_annotation.annotate(sampler, writer))
        group.create_task(sampler.run())


def show(settings: CollectorSettings, output: str) -> int:
    """Print one reading: text, json or prometheus; the exit code."""
    decision_log.set_up("error")
    sampler = settings.sampler()
    try:
        asyncio.run(until_signal(sampler.once()))
    except CardsUnreadable as error:
        print(f"kubeshare-collector: {error}", file=sys.stderr)
        return UNREADABLE
    print(_FORMS[output](sampler), end="")
    return OK


def _text(sampler: CardSampler) -> str:
    # Imported late: a server prints no table, and `rich` costs memory on every node.
    from kubeshare_py.terminal.gpu_tables import node_cards  # noqa: PLC0415

    figures = sampler.figures()
    return node_cards(figures.node, figures.driver, figures.cards, figures.links)


def _json(sampler: CardSampler) -> str:
    figures = sampler.figures()
    document = {
        "node": figures.node,
        "driver": figures.driver,
        "cards": figures.cards,
        "links": figures.links,
        "unanswered": sampler.history.reading.unanswered if sampler.history.reading else (),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _prometheus(sampler: CardSampler) -> str:
    return CollectorPage(sampler).text("")[0].decode()


_FORMS = {"text": _text, "json": _json, "prometheus": _prometheus}
