"""What the scheduler and the process that asks Prometheus say to each other, as JSON lines."""

import msgspec

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.reading import Reading


class Start(msgspec.Struct, kw_only=True):
    """What to ask, and what was known before, so that cards that went in between are noticed."""

    url: str
    selector: str
    interval_s: float
    token_file: str | None
    ca_file: str | None
    known: Reading


class News(msgspec.Struct, kw_only=True, tag="news"):
    """A query's result: nodes whose cards changed, all silent nodes, who speaks for whom.

    `more`: only a part of the changed nodes; the rest and everything else follows in the next one.
    """

    changed: tuple[tuple[NodeName, tuple[Gpu, ...]], ...]
    silent_since: dict[NodeName, float]
    collectors: dict[str, NodeName] | None
    diagnostics: tuple[str, ...]
    more: bool = False


class Failure(msgspec.Struct, kw_only=True, tag="failure"):
    """A query that brought no result."""

    message: str


Report = News | Failure
