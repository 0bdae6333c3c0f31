"""What the scheduler and a process that reads the inventory say to each other, as JSON lines."""

from collections.abc import Iterable

import msgspec

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.changes import Step
from kubeshare_py.inventory.reading import Reading
from kubeshare_py.inventory.targets import Target
from kubeshare_py.topology.wiring import Wiring

#: With 8 cards each, decoding a line takes about 2 ms, and joining what surrounds them 5 ms.
NODES_PER_LINE = 125
#: More than so many diagnostics at once are counted, not told.
MOST_DIAGNOSTICS = 50


class Access(msgspec.Struct, frozen=True, kw_only=True):
    """How to be let in: files with a bearer token and with the CA of the server's certificate.

    `server_name` is what the certificate must be for, "" for the host that is asked.
    """

    token_file: str = ""
    ca_file: str = ""
    server_name: str = ""


class Start(msgspec.Struct, kw_only=True):
    """What to ask, and what was known before, so that cards that went in between are noticed."""

    url: str
    selector: str
    interval_s: float
    access: Access
    known: Reading


class ScrapeStart(msgspec.Struct, kw_only=True):
    """How to ask collectors; `scheme` and `port` are those of all of them."""

    scheme: str
    port: int
    interval_s: float
    access: Access
    known: Reading


class Told(msgspec.Struct, kw_only=True):
    """Which collectors there are, by pod; None for one that is gone.

    `all`: there are no others.
    """

    targets: dict[str, Target | None]
    all: bool = False


class News(msgspec.Struct, kw_only=True, tag="news"):
    """A reading's result: nodes whose cards changed, all silent nodes, who speaks for whom.

    `more`: only a part of the changed nodes; the rest and everything else follows in the next one.
    """

    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    silent_since: dict[NodeName, float]
    collectors: dict[str, NodeName] | None
    diagnostics: tuple[str, ...]
    more: bool = False


class Wired(msgspec.Struct, kw_only=True, tag="wired"):
    """What is news of some nodes' wiring: the kinds that there are, and which node has which."""

    kinds: tuple[Wiring, ...]
    nodes: tuple[tuple[NodeName, int], ...]


class Failure(msgspec.Struct, kw_only=True, tag="failure"):
    """An attempt that brought no result."""

    message: str


Report = News | Wired | Failure


def news_lines(step: Step, known: Reading, diagnostics: tuple[str, ...] = ()) -> list[bytes]:
    """What a reading brought since `known`, cut so that reading a line never takes long."""
    rest = step.changed
    parts = []
    while len(rest) > NODES_PER_LINE:
        parts.append(
            News(
                changed=rest[:NODES_PER_LINE],
                silent_since={},
                collectors=None,
                diagnostics=(),
                more=True,
            )
        )
        rest = rest[NODES_PER_LINE:]
    moved = step.reading.collectors != known.collectors
    last = News(
        changed=rest,
        silent_since=dict(step.reading.silent_since),
        collectors=dict(step.reading.collectors) if moved else None,
        diagnostics=_most_of((*diagnostics, *step.diagnostics)),
    )
    return [line(part) for part in (*parts, last)]


def wired_line(news: Iterable[tuple[NodeName, Wiring]]) -> list[bytes]:
    """A portion of wirings in one line, none where there is no news."""
    kinds: dict[Wiring, int] = {}
    nodes = tuple((node, kinds.setdefault(wiring, len(kinds))) for node, wiring in news)
    return [line(Wired(kinds=tuple(kinds), nodes=nodes))] if nodes else []


def line(message: Report | Start | ScrapeStart | Told) -> bytes:
    """One message."""
    return msgspec.json.encode(message) + b"\n"


def _most_of(diagnostics: tuple[str, ...]) -> tuple[str, ...]:
    left = len(diagnostics) - MOST_DIAGNOSTICS
    if left <= 0:
        return diagnostics
    return (*sorted(diagnostics)[:MOST_DIAGNOSTICS], f"{left} more like these")
