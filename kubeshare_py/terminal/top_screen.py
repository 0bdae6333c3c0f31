"""`kubectl kubeshare top` as an application: which keys do what, and what is on the screen.

Three panels: the cards as bars, the pods as a list with one of them chosen, and why that one is
where it is. It knows neither the terminal nor the scheduler: keys come in, a request may come out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from rich.text import Text

from kubeshare_py.domain.printable import printable
from kubeshare_py.domain.values import replace
from kubeshare_py.terminal.cards import NAME_ORDER, SORTS
from kubeshare_py.terminal.grid import grouped, joined
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.terminal.pod_table import pod_table
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import ClusterView, NodeView, PodView, WhyView

#: Keys as terminals send them; arrows and page keys are sequences of several characters.
ENTER, ESCAPE, TAB, BACKSPACE = ("\r", "\n"), "\x1b", "\t", ("\x7f", "\b")
_MOVES = {
    **dict.fromkeys(("j", "\x1b[B", "\x1bOB"), 1),
    **dict.fromkeys(("k", "\x1b[A", "\x1bOA"), -1),
    **dict.fromkeys((" ", "\x1b[6~"), 10),
    **dict.fromkeys(("b", "\x1b[5~"), -10),
    **dict.fromkeys(("g", "\x1b[H", "\x1b[1~"), -1_000_000),
    **dict.fromkeys(("G", "\x1b[F", "\x1b[4~"), 1_000_000),
}
_POD_SORTS = ("waiting", "name", "node")
_BOUND = frozenset({"assumed", "unconfirmed", "bound"})
_MOST_FILTER = 60


class Panel(Enum):
    """What fills the screen."""

    CARDS = auto()
    PODS = auto()
    WHY = auto()


class KeyRequest(Enum):
    """What a key asks of the program: to end, or why the chosen pod is where it is."""

    QUIT = auto()
    WHY = auto()


@dataclass(slots=True)
class TopScreen:
    """The application's state. `now` is the Unix time (s) of the view, for ages of pods."""

    view: ClusterView
    sort: str = NAME_ORDER
    now: float = 0.0
    panel: Panel = Panel.CARDS
    filter: str = ""
    is_typing: bool = False
    pod_sort: str = _POD_SORTS[0]
    why: WhyView | None = None
    #: How many nodes are above the screen, the place of the chosen pod among those that the filter
    #: lets through, and how many lines of the reason are above the screen.
    skip: int = 0
    chosen_at: int = 0
    lines_skipped: int = 0

    def press(self, key: str) -> KeyRequest | None:
        """Take a key."""
        if self.is_typing:
            self._type(key)
            return None
        if key in ("q", "Q", ESCAPE):
            return self._back(is_quit=key != ESCAPE)
        if key in _MOVES:
            self._move(_MOVES[key])
        elif key == "/":
            self.is_typing = self.panel is not Panel.WHY
        elif key == "s":
            self._sort_otherwise()
        elif key == TAB or (key in ENTER and self.panel is Panel.CARDS):
            self.panel = Panel.PODS if self.panel is Panel.CARDS else Panel.CARDS
        elif key in ENTER and self.panel is Panel.PODS and self.chosen is not None:
            return KeyRequest.WHY
        return None

    @property
    def chosen(self) -> PodView | None:
        """The chosen pod; None if there is none to choose."""
        pods = self.pods()
        return pods[min(self.chosen_at, len(pods) - 1)] if pods else None

    def refresh(self, view: ClusterView, now: float) -> None:
        """Show a newer view; the chosen pod stays chosen while it is there."""
        before = self.chosen
        self.view, self.now = view, now
        uids = [pod.uid for pod in self.pods()]
        if before is not None and before.uid in uids:
            self.chosen_at = uids.index(before.uid)

    def explain(self, why: WhyView) -> None:
        """Show why the chosen pod is where it is."""
        self.why, self.panel, self.lines_skipped = why, Panel.WHY, 0

    def pods(self) -> list[PodView]:
        """The pods that the filter lets through, in their order."""
        found = [pod for pod in self.view.pods if self._lets_through(_words_of_pod(pod))]
        orders = {
            "waiting": lambda pod: (pod.state in _BOUND, pod.namespace, pod.name),
            "name": lambda pod: (pod.namespace, pod.name),
            "node": lambda pod: (not pod.node, pod.node, pod.namespace, pod.name),
        }
        return sorted(found, key=orders[self.pod_sort])

    def show(self, width: int, height: int) -> Text:
        """The screen, at most `height` lines of at most `width` columns, without the last line."""
        lines = self._lines(width, height)
        for line in lines:
            line.truncate(width, overflow="crop")
        return joined(lines)

    def _lines(self, width: int, height: int) -> list[Text]:
        if self.panel is Panel.WHY and self.why is not None:
            lines = list(why_report(self.why, width).split("\n"))
            self.lines_skipped = min(self.lines_skipped, max(0, len(lines) - 1))
            return lines[self.lines_skipped : self.lines_skipped + height]
        if self.panel is Panel.PODS:
            return self._pod_lines(width, height)
        nodes = tuple(node for node in self.view.nodes if self._lets_through(_words_of_node(node)))
        self.skip = min(self.skip, max(0, len(nodes) - 1))
        pods = tuple(pod for pod in self.view.pods if self._lets_through(_words_of_pod(pod)))
        shown = replace(self.view, nodes=nodes, pods=pods) if self.filter else self.view
        drawn = live_view(shown, width=width, height=height, sort=self.sort, skip=self.skip)
        return list(drawn.split("\n"))

    def help(self) -> str:
        """What the keys do now, for the last line."""
        if self.is_typing:
            return f"filter: {self.filter}_   Enter keeps it, Escape drops it"
        if self.panel is Panel.WHY:
            return "arrows scroll, Escape or q goes back"
        filtered = f"   filter: {self.filter}" if self.filter else ""
        if self.panel is Panel.PODS:
            return (
                f"arrows choose, Enter: why, s: by {self.pod_sort}, /: filter, Tab: cards, q ends"
                + filtered
            )
        return f"arrows scroll, Tab: pods, s: by {self.sort}, /: filter, q ends{filtered}"

    def _pod_lines(self, width: int, height: int) -> list[Text]:
        pods = self.pods()
        if not pods:
            return [Text("no pods of the scheduler match" if self.filter else "no pods")]
        self.chosen_at = min(self.chosen_at, len(pods) - 1)
        # The chosen pod is in the middle, except near both ends.
        room = max(1, height - 1)
        first = max(0, min(self.chosen_at - room // 2, len(pods) - room))
        table = pod_table(pods[first : first + room], self.now, with_namespace=True)
        header, *groups = grouped(table.columns, table.rows, width, table.flow_header)
        lines = [header[0], *(group[0] for group in groups)]
        lines[1 + self.chosen_at - first].stylize("reverse")
        return lines[:height]

    def _lets_through(self, words: Sequence[str]) -> bool:
        text = self.filter.lower()
        return not text or any(text in word.lower() for word in words)

    def _type(self, key: str) -> None:
        if key in ENTER:
            self.is_typing = False
        elif key == ESCAPE:
            self.is_typing, self.filter = False, ""
        elif key in BACKSPACE:
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter = (self.filter + key)[:_MOST_FILTER]
        self.chosen_at = self.skip = 0

    def _back(self, *, is_quit: bool) -> KeyRequest | None:
        """Escape drops the filter first; from a reason both keys go back to the pods."""
        if self.panel is Panel.WHY:
            self.panel, self.why = Panel.PODS, None
            return None
        if self.filter and not is_quit:
            self.filter = ""
            return None
        return KeyRequest.QUIT

    def _move(self, by: int) -> None:
        match self.panel:
            case Panel.CARDS:
                self.skip = min(max(self.skip + by, 0), max(len(self.view.nodes) - 1, 0))
            case Panel.PODS:
                last = max(len(self.pods()) - 1, 0)
                self.chosen_at = min(max(self.chosen_at + by, 0), last)
            case Panel.WHY:
                self.lines_skipped = max(self.lines_skipped + by, 0)

    def _sort_otherwise(self) -> None:
        if self.panel is Panel.CARDS:
            self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
        elif self.panel is Panel.PODS:
            at = _POD_SORTS.index(self.pod_sort)
            self.pod_sort = _POD_SORTS[(at + 1) % len(_POD_SORTS)]


def _words_of_pod(pod: PodView) -> Sequence[str]:
    return f"{pod.namespace}/{pod.name}", pod.node, pod.state, *pod.models


def _words_of_node(node: NodeView) -> Sequence[str]:
    tenants = (
        f"{tenant.namespace}/{tenant.name}" for card in node.cards for tenant in card.tenants
    )
    return node.name, *(card.model for card in node.cards), *tenants


def last_line(text: str, width: int, *, alarm: bool) -> Text:
    """The last line of the screen."""
    return Text(printable(text)[:width], style="red" if alarm else "dim")
