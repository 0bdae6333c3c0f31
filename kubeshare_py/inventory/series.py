"""The metrics of collectors about cards, as series of an instant vector."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.inventory import gpu_capacity
from kubeshare_py.inventory.own_labels import own_label

UP = "up"
CAPACITY = gpu_capacity.NAME
#: Exists only for a card's present faults.
FAULT = "kubeshare_gpu_fault"
#: How many cards a collector lists; also 0.
CARDS = "kubeshare_collector_cards"
#: How many of them have no fault; a series for each healthy card would be half of an answer.
HEALTHY = "kubeshare_collector_healthy_cards"
#: What isolation back-ends lack: for how many cards of a node, and for which single cards.
OF_NODE = "kubeshare_collector_isolation"
OF_CARD = "kubeshare_gpu_isolation"
#: The collectors' metrics about cards; `up` is written by the scraper.
CARD_SERIES = (CAPACITY, FAULT, CARDS, HEALTHY, OF_NODE, OF_CARD)
#: A PromQL matcher of all metrics that are read, and no others.
NAME_MATCHER = f'__name__=~"{"|".join((UP, *CARD_SERIES))}"'


@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector; its labels include `__name__`."""

    labels: Mapping[str, str]
    value: float

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.labels.get("__name__", "")

    @property
    def instance(self) -> str:
        """The collector's address, `host:port`."""
        return self.labels.get("instance", "")

    def own(self, label: str) -> str:
        """The collector's own value of a label; "" if it has none."""
        return own_label(self.labels, label)
