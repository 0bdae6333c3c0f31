"""What `kubectl inspect gpushare` reads of a pod, without any code of the dialect.

After cmd/inspect of github.com/AliyunContainerService/gpushare-device-plugin: the JSON annotation
of the second generation first, summed over containers; then the index of the first one with the sum
of the containers' limits; what has neither is pending, which is card -1.
"""

import json
import re
from collections.abc import Iterable, Mapping


def units_by_card(annotations: Mapping[str, str], limits: Iterable[int]) -> dict[int, int]:
    """The units of the pod on each card, by the card's index; -1 for a pod without a card."""
    text = annotations.get("scheduler.framework.gpushare.allocation", "")
    try:
        found: dict[int, int] = {}
        for cards in json.loads(text).values():
            for index, units in cards.items():
                found[int(index)] = found.get(int(index), 0) + units
    except (ValueError, AttributeError, TypeError):
        found = {}
    if found:
        return found
    index = annotations.get("ALIYUN_COM_GPU_MEM_IDX", "")
    return {int(index) if re.fullmatch("[0-9]+", index) else -1: sum(limits)}
