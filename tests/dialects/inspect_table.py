"""What `kubectl inspect gpushare` prints, written from its documented output and not from its code.

It reads nodes with `aliyun.com/gpu-mem` and all pods that have not ended, and no other object.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.dialects.decoder import units_by_card

Json = dict[str, Any]
MEM, COUNT = "aliyun.com/gpu-mem", "aliyun.com/gpu-count"
#: The column of pods with a limit and no index that can be read.
PENDING = -1
#: A card with more units than this counts in MiB.
MOST_GIB = 100


@dataclass
class NodeRow:
    """A node's row: units given of each card, by index."""

    name: str
    address: str
    cards: int
    units: int
    given: dict[int, int] = field(default_factory=dict)

    @property
    def each(self) -> int:
        """The units of one card; all cards count as equal."""
        return self.units // self.cards if self.cards else 0

    @property
    def shown(self) -> int:
        """Given units of the columns that are shown."""
        return sum(units for index, units in self.given.items() if index < self.cards)


def rows(nodes: Sequence[Json], pods: Sequence[Json]) -> list[NodeRow]:
    """The rows of the summary, in the order of the nodes."""
    found = []
    for node in nodes:
        offered = node["status"].get("allocatable", {})
        row = NodeRow(
            node["metadata"]["name"],
            address_of(node),
            int(offered.get(COUNT, 0)),
            int(offered.get(MEM, 0)),
        )
        if not row.units:
            continue
        for pod in pods:
            if pod["spec"].get("nodeName") == row.name and is_active(pod):
                for index, units in held(pod).items():
                    row.given[index] = row.given.get(index, 0) + units
        found.append(row)
    return found


def address_of(node: Json) -> str:
    addresses = node["status"].get("addresses", [])
    return next((one["address"] for one in addresses if one["type"] == "InternalIP"), "unknown")


def is_active(pod: Json) -> bool:
    """Pods that are being deleted count; those that have ended do not."""
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def held(pod: Json) -> dict[int, int]:
    """Units by card of a pod that asks for some."""
    limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    asked = sum(int(one.get(MEM, 0)) for one in limits)
    if not asked:
        return {}
    return units_by_card(pod["metadata"].get("annotations", {}), [asked])


def summary(nodes: Sequence[Json], pods: Sequence[Json]) -> str:
    """The whole output without `-d`, without spaces at the ends of lines."""
    found = rows(nodes, pods)
    cards = max((row.cards for row in found), default=0)
    waits = any(PENDING in row.given for row in found)
    unit = "" if not found else "MiB" if found[0].each > MOST_GIB else "GiB"
    head = ["NAME", "IPADDRESS", *(f"GPU{at}(Allocated/Total)" for at in range(cards))]
    table = [[*head, *(["PENDING(Allocated)"] if waits else []), f"GPU Memory({unit})"]]
    for row in found:
        of_cards = [
            f"{row.given.get(at, 0)}/{row.each}" if at < row.cards else "0/0" for at in range(cards)
        ]
        pending = [str(row.given[PENDING]) if PENDING in row.given else ""] if waits else []
        table.append([row.name, row.address, *of_cards, *pending, f"{row.shown}/{row.units}"])
    dashes = len("\t".join(table[1]) + "\n") + 20 if found else 0
    given, total = sum(row.shown for row in found), sum(row.units for row in found)
    percent = given * 100 // total if total else 0
    return "\n".join(
        [
            *aligned(table),
            "-" * dashes,
            "Allocated/Total GPU Memory In Cluster:",
            f"{given}/{total} ({percent}%)",
        ]
    )


def aligned(table: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]
