"""What the process that asks the driver tells the collector, a JSON line each."""

from dataclasses import dataclass

from kubeshare_py.domain.card_reading import NodeReading


@dataclass(frozen=True, slots=True)
class Report:
    """A reading, or why nothing could be read at all."""

    reading: NodeReading | None = None
    failure: str = ""
