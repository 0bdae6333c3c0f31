"""Which of Gemini's daemons run on a node: `gem-schd` for each card, `gem-pmgr` for each pod.

Options, ports and variables are those of KubeShare 2.0's launcher (docker/gemini-scheduler of
github.com/NTHU-LSALab/KubeShare, release-2.0).
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubeshare_py.domain.identity import GpuUuid

SCHEDULER, POD_MANAGER = "gem-schd", "gem-pmgr"
#: The port of the first card's `gem-schd`; those of the others follow.
FIRST_PORT = 49901
#: Milliseconds: a pod's first quota of time, the least one, and the window of all limits.
QUOTA_MS, LEAST_QUOTA_MS, WINDOW_MS = 300, 20, 10_000
_LARGEST_PORT = 65_535


@dataclass(frozen=True, slots=True, order=True)
class GeminiDaemon:
    """A card's `gem-schd` at `card_port`, or a pod's `gem-pmgr` at `port`.

    `pod` is its namespace and name, "" for the former, and `port` is 0 then.
    """

    card: GpuUuid
    card_port: int
    pod: str = ""
    port: int = 0

    @property
    def program(self) -> str:
        """The name of its program."""
        return POD_MANAGER if self.pod else SCHEDULER

    def arguments(self, config_folder: str) -> tuple[str, ...]:
        """The arguments of its program; the pods' limits are in files of this folder."""
        if self.pod:
            return ()
        return (
            *("-p", config_folder, "-f", self.card, "-P", str(self.card_port)),
            *("-q", str(QUOTA_MS), "-m", str(LEAST_QUOTA_MS), "-w", str(WINDOW_MS)),
        )

    def environment(self) -> Mapping[str, str]:
        """The variables that its program reads."""
        if not self.pod:
            return {}
        return {
            "SCHEDULER_IP": "127.0.0.1",
            "SCHEDULER_PORT": str(self.card_port),
            "POD_MANAGER_IP": "0.0.0.0",
            "POD_MANAGER_PORT": str(self.port),
            "POD_NAME": self.pod,
        }


class GeminiPorts:
    """The ports of cards: the first free one, kept for as long as this process runs."""

    def __init__(self, first: int = FIRST_PORT) -> None:
        self._first = first
        self._by_card: dict[GpuUuid, int] = {}

    def of(self, cards: Iterable[GpuUuid]) -> Mapping[GpuUuid, int]:
        """The port of each of these cards. Those of cards that are gone are not given again."""
        cards = [*cards]
        for card in cards:
            self._by_card.setdefault(card, self._first + len(self._by_card))
        return {card: self._by_card[card] for card in cards}


def wanted(
    card_ports: Mapping[GpuUuid, int], port_files: Mapping[GpuUuid, str], ready: Container[GpuUuid]
) -> Sequence[GeminiDaemon]:
    """The daemons that should run now, for these port files.

    A pod manager connects only when it starts: it runs only while its card's `gem-schd` is `ready`.
    """
    found = [GeminiDaemon(card, port) for card, port in card_ports.items()]
    for card, port in card_ports.items():
        if card in ready:
            pods = read_ports(port_files.get(card, ""))
            found += [GeminiDaemon(card, port, pod, number) for pod, number in pods]
    return found


def read_ports(text: str) -> Sequence[tuple[str, int]]:
    """The pods of a port file with their ports, as far as its lines can be read."""
    count, *lines = text.splitlines() or [""]
    if not (count.isascii() and count.isdecimal()):
        return ()
    found = [line.split() for line in lines[: int(count)]]
    return tuple((pod, port) for pod, port in map(_pod_and_port, found) if port)


def _pod_and_port(words: Sequence[str]) -> tuple[str, int]:
    """A pod and its port; 0 for a line that is none."""
    pod, port = words if len(words) == 2 else ("", "")  # noqa: PLR2004
    is_port = port.isascii() and port.isdecimal() and int(port) <= _LARGEST_PORT
    return pod, int(port) if is_port else 0
