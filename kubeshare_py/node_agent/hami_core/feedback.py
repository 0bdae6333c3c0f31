"""Which containers HAMi-core has to hold back now, so that cards are not idle without need.

The rules are those of HAMi's monitor (cmd/vGPUmonitor/feedback.go of github.com/Project-HAMi/HAMi,
v2.10.0): a container waits while one of higher priority uses one of its cards, and keeps to its
core limit while another one does. A smaller number is a higher priority. The monitor knows by
`recent_kernel` who uses a card, which the library of v1.2 no longer writes while it is not told to
keep to limits; so the time of the last kernel counts as well.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

import msgspec

from kubeshare_py.node_agent.hami_core.shared_region import SharedRegion

#: A container that started a kernel within so many seconds uses its cards: two looks of 5 s.
RECENT_S = 10
#: What makes the library's processes wait before their next kernel, and what lets them go on.
WAITING, GOING_ON = -1, 0

FolderKey = TypeVar("FolderKey", bound=Hashable)


class Feedback(msgspec.Struct, frozen=True, gc=False):
    """What a region is to say. `recent_kernel` counts down from 2 to 0, one at each look."""

    recent_kernel: int
    is_limiting: bool


def feedback(regions: Mapping[FolderKey, SharedRegion], now: float) -> dict[FolderKey, Feedback]:
    """What each region is to say; `now` is Unix time (s)."""
    users = Counter(
        (card.uuid, region.priority)
        for region in regions.values()
        if _is_using(region, now)
        for card in region.cards
    )
    return {key: _told(region, users) for key, region in regions.items()}


def without_feedback(regions: Mapping[FolderKey, SharedRegion]) -> dict[FolderKey, Feedback]:
    """What each region is to say while no agent looks: none waits, all keep to their limits."""
    return {
        key: Feedback(max(region.recent_kernel, GOING_ON), is_limiting=True)
        for key, region in regions.items()
    }


def _is_using(region: SharedRegion, now: float) -> bool:
    last = region.last_kernel_at
    return region.recent_kernel > 1 or (last is not None and 0 <= now - last <= RECENT_S)


def _told(region: SharedRegion, users: Counter[tuple[str, int]]) -> Feedback:
    cards = {card.uuid for card in region.cards}
    on_cards = [(one, count) for (uuid, one), count in users.items() if uuid in cards]
    must_wait = any(one < region.priority for one, _ in on_cards)
    shares = any(one == region.priority and count > 1 for one, count in on_cards)
    recent = WAITING if must_wait else max(region.recent_kernel - 1, GOING_ON)
    return Feedback(recent, must_wait or shares)
