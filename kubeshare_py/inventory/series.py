"""What collectors tell of cards, as a Prometheus keeps it: series of an instant vector."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubeshare_py.inventory import gpu_capacity
from kubeshare_py.inventory.own_labels import own_label

UP = "up"
CAPACITY = gpu_capacity.NAME
#: Only there for what is wrong with a card now.
FAULT = "kubeshare_gpu_fault"
#: How many cards a collector lists; also where it lists none.
CARDS = "kubeshare_collector_cards"
#: How many of them have no fault: a word for each card that is well would be half of an answer.
WELL = "kubeshare_collector_healthy_cards"
#: What isolation back-ends lack: of how many cards of a node, and of which others what else.
OF_NODE = "kubeshare_collector_isolation"
OF_CARD = "kubeshare_gpu_isolation"
#: What collectors tell of cards; `up` comes from whoever scrapes them.
TOLD = (CAPACITY, FAULT, CARDS, WELL, OF_NODE, OF_CARD)
#: A PromQL matcher of all that is read, and nothing else.
NAME_MATCHER = f'__name__=~"{"|".join((UP, *TOLD))}"'


@dataclass(frozen=True, slots=True)
class Series:
    """One element of an instant vector; its labels include `__name__`."""

    labels: Mapping[str, str]
    value: float

    @property
    def name(self) -> str:
        """The metric."""
        return self.labels.get("__name__", "")

    @property
    def instance(self) -> str:
        """Where the collector is, `host:port`."""
        return self.labels.get("instance", "")

    def own(self, label: str) -> str:
        """What the collector itself says, whatever the scrape configuration adds; "" if nothing."""
        return own_label(self.labels, label)
