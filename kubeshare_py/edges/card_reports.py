"""What the collector and the process that asks the driver say to each other, as JSON lines."""

import msgspec

from kubeshare_py.domain.card_reading import NodeReading


class Start(msgspec.Struct, kw_only=True):
    """How often to read, and how often to open a driver again that has lost a card (s)."""

    interval_s: float
    reopen_s: float


class Read(msgspec.Struct, kw_only=True, tag="read"):
    """A reading."""

    reading: NodeReading


class Failed(msgspec.Struct, kw_only=True, tag="failed"):
    """Nothing could be read at all."""

    message: str


Report = Read | Failed
