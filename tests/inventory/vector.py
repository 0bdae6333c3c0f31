"""Instant vectors of collectors, and what a reading makes of them."""

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.inventory.changes import InventoryStep, next_reading
from kubeshare_py.inventory.sample_merge import Reading
from kubeshare_py.inventory.series import Series, parse_matchers

A, B = NodeName("a"), NodeName("b")


def capacity(node: str, uuid: str, *, value: float = 1.0, **labels: str) -> Series:
    return Series(
        {
            "__name__": "gpu_capacity",
            "instance": f"{node}:9004",
            "job": "kubeshare-collector",
            "node": node,
            "uuid": uuid,
            "model": "Tesla-T4",
            "memory": "100",
            "index": uuid[-1],
            **labels,
        },
        value,
    )


def up(node: str, value: float = 1) -> Series:
    labels = {"__name__": "up", "instance": f"{node}:9004", "job": "kubeshare-collector"}
    return Series(labels, value)


def read(previous: Reading, *vector: Series, now: float = 0.0) -> InventoryStep:
    return next_reading(previous, vector, now, parse_matchers('job="kubeshare-collector"'))


def uuids(step: InventoryStep) -> dict[str, list[str]]:
    return {node: [card.uuid for card in cards] for node, cards in step.changed}


def told(name: str, node: str, value: float, **labels: str) -> Series:
    """Something else that a collector says."""
    given = {"__name__": name, "instance": f"{node}:9004", "job": "kubeshare-collector"}
    return Series({**given, "node": node, **labels}, value)


def fault(node: str, uuid: str, value: float = 1, **labels: str) -> Series:
    labels = {"fault": "memory-errors", **labels}
    return told("kubeshare_gpu_fault", node, value, uuid=uuid, **labels)


def well(node: str, value: float, **labels: str) -> Series:
    return told("kubeshare_collector_healthy_cards", node, value, **labels)


def count(node: str, value: float, **labels: str) -> Series:
    return told("kubeshare_collector_cards", node, value, **labels)


def without(series: Series, *labels: str) -> Series:
    """The same with fewer labels."""
    return Series(
        {name: text for name, text in series.labels.items() if name not in labels}, series.value
    )


def states(step: InventoryStep) -> dict[str, dict[str, bool]]:
    """Which cards are healthy, of the nodes that changed."""
    return {node: {card.uuid: card.healthy for card in cards} for node, cards in step.changed}
