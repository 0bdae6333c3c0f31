"""What is known of all nodes' cards, from one reading to the next."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import NodeName

#: Seconds that a collector's scrape time may stand still before its node is silent.
LATE_AFTER_S = 120.0


@dataclass(frozen=True, slots=True)
class Scrape:
    """The newest scrape time (Unix, s) of a node's series, and when (s) it was first read."""

    value: float
    first_read_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What is known of all nodes. `collectors` maps an `instance` to the node that it is on."""

    cards: Mapping[NodeName, tuple[Gpu, ...]] = field(default_factory=dict)
    collectors: Mapping[str, NodeName] = field(default_factory=dict)
    silent_since: Mapping[NodeName, float] = field(default_factory=dict)
    scrapes: Mapping[NodeName, Scrape] = field(default_factory=dict)
