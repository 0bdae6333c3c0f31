"""Whether a device plugin of HAMi lives, by what its Node shows; and when it is asked.

The kubelet sets the allocatable amount of a resource to 0 when its device plugin is gone. A plugin
that has just registered may not be advertised yet, so that a sign of life counts for a while too: a
new `Reported …` in the handshake (the ancestor's plugin, every 30 s), or another text of the
register annotation. `Requesting_…`, which schedulers write, is no sign of life, so that a dead
plugin's cards do not come back because its scheduler asks for it again.

HAMi's scheduler writes `Requesting_2006-01-02 15:04:05` in its local time, its ancestor with dots
in the date; it removes the annotation when the plugin is found dead, and writes it again
(CheckHealth in pkg/device/devices.go of github.com/Project-HAMi/HAMi). Here it is written in UTC,
and stays.
"""

import math
import re
from dataclasses import dataclass
from datetime import UTC, datetime

#: A sign of life counts for so long (s), as in HAMi.
ALIVE_S = 60.0
REQUESTING, DELETED = "Requesting", "Deleted"
_TIME = re.compile(
    r"(?P<date>\d{4}[-.]\d{2}[-.]\d{2})[ T](?P<time>\d{2}:\d{2}:\d{2})"
    r"(?:\.\d+)?(?: ?(?P<zone>[+-]\d{4}))?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginSigns:
    """What a Node shows of one plugin: two annotations, and the allocatable amount; "" is none."""

    register: str = ""
    handshake: str = ""
    offered: int = 0


def requesting(now: float) -> str:
    """The text that asks the plugin for a sign of life at `now` (Unix, s), in UTC."""
    return f"{REQUESTING}_{datetime.fromtimestamp(int(now), UTC):%Y-%m-%d %H:%M:%S}"


def time_in(text: str) -> float | None:
    """The time (Unix, s) that a handshake names; in UTC unless it has an offset; None for none."""
    found = _TIME.search(text)
    if found is None:
        return None
    date = found["date"].replace(".", "-")
    try:
        zoned = f"{date} {found['time']} {found['zone'] or '+0000'}"
        return datetime.strptime(zoned, "%Y-%m-%d %H:%M:%S %z").timestamp()
    except (ValueError, OverflowError):
        return None


class Handshake:
    """What is known of one node's plugin. Times are Unix time (s), and never go back by much."""

    def __init__(self, signs: PluginSigns, now: float) -> None:
        """`signs` are the first ones that are seen."""
        self._signs = signs
        self._sign_at = _first_sign(signs.handshake, now)

    def take(self, signs: PluginSigns, now: float) -> None:
        """The Node shows these signs now."""
        before, self._signs = self._signs, signs
        if before.offered and not signs.offered:
            self._sign_at = -math.inf
        if _is_report(signs.handshake) and signs.handshake != before.handshake:
            self._sign_at = now
        if signs.register and signs.register != before.register:
            self._sign_at = now

    def is_alive(self, now: float) -> bool:
        """Whether pods may be sent to the plugin's cards."""
        return bool(self._signs.offered) or now < self._sign_at + ALIVE_S

    def is_silent(self, now: float) -> bool:
        """Whether the plugin is to be asked for a sign of life, by `requesting` as its handshake.

        Once if the annotation is not there, and when a plugin that reports has stopped to.
        """
        text = self._signs.handshake
        if not text:
            return True
        return _is_report(text) and now >= self._sign_at + ALIVE_S

    def changes_at(self, now: float) -> float:
        """When (s) time alone changes an answer; infinity if it does not."""
        at = self._sign_at + ALIVE_S
        return at if now < at else math.inf


def _is_report(text: str) -> bool:
    return bool(text) and REQUESTING not in text and DELETED not in text


def _first_sign(text: str, now: float) -> float:
    """The last sign of life, as far as the first text says; `now` where it does not.

    A time that has not come yet was written in another zone, or by another clock.
    """
    if DELETED in text:
        return -math.inf
    at = time_in(text)
    return now if at is None or at > now else at
