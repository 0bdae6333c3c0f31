"""The messages of the process that asks the driver to the collector, one JSON line each."""

from dataclasses import dataclass

from kubeshare_py.domain.card_reading import NodeReading


@dataclass(frozen=True, slots=True)
class CardReport:
    """A reading, or why nothing could be read."""

    reading: NodeReading | None = None
    failure: str = ""
