"""The messages between the scheduler and a process that reads the inventory, as JSON lines."""

import sys
from collections.abc import Iterable, Sequence

import msgspec

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.card_use import NodeUse
from kubeshare_py.inventory.changes import InventoryStep
from kubeshare_py.inventory.collector_page import ScrapeTarget
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.topology.wiring import Wiring

#: With 8 cards each, decoding a line takes about 2 ms, and adding the wiring 5 ms.
NODES_PER_LINE = 125
#: The most diagnostics that are sent; further ones are only counted.
MAX_DIAGNOSTICS = 50


class ScrapeAccess(msgspec.Struct, frozen=True, kw_only=True):
    """Access to a server: files with a bearer token and with the CA of its certificate.

    `server_name` is the name in the certificate, "" for the host that is asked.
    """

    token_file: str = ""
    ca_file: str = ""
    server_name: str = ""


class Start(msgspec.Struct, kw_only=True):
    """The query, and what was known before, so that cards that left in between are noticed."""

    url: str
    selector: str
    interval_s: float
    access: ScrapeAccess
    known: Reading


class ScrapeStart(msgspec.Struct, kw_only=True):
    """How to ask collectors; `scheme` and `port` are the same for all."""

    scheme: str
    port: int
    interval_s: float
    access: ScrapeAccess
    known: Reading


class TargetsUpdate(msgspec.Struct, kw_only=True):
    """The collectors, by pod; None for one that is gone.

    `all`: there are no others.
    """

    targets: dict[str, ScrapeTarget | None]
    all: bool = False


class ReadingUpdate(msgspec.Struct, kw_only=True, tag="reading"):
    """A reading's result: nodes whose cards changed, all silent nodes, and each collector's node.

    `more`: only some of the changed nodes; the rest follows in the next message.
    """

    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    silent_since: dict[NodeName, float]
    collectors: dict[str, NodeName] | None
    diagnostics: tuple[str, ...]
    more: bool = False


class Wired(msgspec.Struct, kw_only=True, tag="wired"):
    """The new wiring of some nodes: the different values, and the index of each node's."""

    kinds: tuple[Wiring, ...]
    nodes: tuple[tuple[NodeName, int], ...]


class Used(msgspec.Struct, kw_only=True, tag="used"):
    """What is really used of the cards of some nodes."""

    nodes: tuple[NodeUse, ...]


class Failure(msgspec.Struct, kw_only=True, tag="failure"):
    """An attempt without a result."""

    message: str


InventoryReport = ReadingUpdate | Wired | Used | Failure


def update_lines(
    step: InventoryStep, known: Reading, diagnostics: tuple[str, ...] = ()
) -> list[bytes]:
    """A reading's changes since `known`, split so that decoding a line never takes long."""
    rest = step.changed
    parts = []
    while len(rest) > NODES_PER_LINE:
        parts.append(
            ReadingUpdate(
                changed=rest[:NODES_PER_LINE],
                silent_since={},
                collectors=None,
                diagnostics=(),
                more=True,
            )
        )
        rest = rest[NODES_PER_LINE:]
    moved = step.reading.collectors != known.collectors
    last = ReadingUpdate(
        changed=rest,
        silent_since=dict(step.reading.silent_since),
        collectors=dict(step.reading.collectors) if moved else None,
        diagnostics=_most_of((*diagnostics, *step.diagnostics)),
    )
    return [line(part) for part in (*parts, last)]


def wired_line(wirings: Iterable[tuple[NodeName, Wiring]]) -> list[bytes]:
    """A portion of wirings in one line; no line if there are none."""
    kinds: dict[Wiring, int] = {}
    nodes = tuple((node, kinds.setdefault(wiring, len(kinds))) for node, wiring in wirings)
    return [line(Wired(kinds=tuple(kinds), nodes=nodes))] if nodes else []


def used_lines(nodes: Sequence[NodeUse]) -> list[bytes]:
    """What is used of these nodes' cards, some nodes in each line."""
    firsts = range(0, len(nodes), NODES_PER_LINE)
    return [line(Used(nodes=tuple(nodes[one : one + NODES_PER_LINE]))) for one in firsts]


def line(message: InventoryReport | Start | ScrapeStart | TargetsUpdate) -> bytes:
    """One message as a line."""
    return msgspec.json.encode(message) + b"\n"


def write_out(lines: Iterable[bytes]) -> None:
    """Send lines to the scheduler, which reads this process's standard output."""
    sys.stdout.buffer.writelines(lines)
    sys.stdout.buffer.flush()


def _most_of(diagnostics: tuple[str, ...]) -> tuple[str, ...]:
    left = len(diagnostics) - MAX_DIAGNOSTICS
    if left <= 0:
        return diagnostics
    return (*sorted(diagnostics)[:MAX_DIAGNOSTICS], f"{left} more like these")
