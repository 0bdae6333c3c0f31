"""The keys of `top`: panels, the chosen pod, filters and orders."""

from kubeshare_py.domain.values import replace
from kubeshare_py.terminal.top_screen import KeyRequest, Panel, TopScreen
from kubeshare_py.views.view import PodView
from tests.terminal.views import a_small_view, a_why

DOWN, UP, ENTER, ESCAPE, TAB = "\x1b[B", "\x1b[A", "\r", "\x1b", "\t"


def a_pod(name: str, state: str = "bound", node: str = "n1") -> PodView:
    return PodView(namespace="team", name=name, uid=f"uid-{name}", state=state, node=node)


def a_screen(*pods: PodView) -> TopScreen:
    return TopScreen(replace(a_small_view(), pods=pods))


def typed(screen: TopScreen, *keys: str) -> list[KeyRequest]:
    return [request for key in keys if (request := screen.press(key)) is not None]


def test_enter_asks_why_of_the_pod_that_the_arrows_chose() -> None:
    screen = a_screen(a_pod("a"), a_pod("b"), a_pod("late", "waiting", ""))
    assert typed(screen, ENTER) == []
    assert screen.panel is Panel.PODS
    assert screen.chosen is not None
    assert screen.chosen.name == "late", "those that wait come first"
    assert typed(screen, DOWN, DOWN, DOWN, UP, ENTER) == [KeyRequest.WHY]
    assert screen.chosen.name == "a"
    screen.explain(a_why())
    assert "It fits on n1" in screen.show(100, 40).plain
    before = screen.show(100, 40).plain.split("\n")
    typed(screen, DOWN)
    assert screen.show(100, 40).plain.split("\n")[0] == before[1]
    assert typed(screen, "q") == []
    assert screen.panel is Panel.PODS
    assert typed(screen, "q") == [KeyRequest.QUIT]


def test_a_filter_leaves_what_has_the_text_and_escape_drops_it() -> None:
    screen = a_screen(a_pod("train-0"), a_pod("serve", node="n2"))
    typed(screen, TAB, *"/Train", "\x7f", ENTER)
    assert screen.filter == "Trai"
    assert [pod.name for pod in screen.pods()] == ["train-0"]
    assert "serve" not in screen.show(100, 20).plain
    assert "filter: Trai" in screen.help()
    typed(screen, TAB)
    assert screen.panel is Panel.CARDS
    assert typed(screen, ESCAPE) == []
    assert (screen.filter, len(screen.pods())) == ("", 2)
    typed(screen, *"/q", ESCAPE)
    assert (screen.filter, screen.is_typing) == ("", False), "q is a letter while one types"
    typed(screen, TAB, *"/nothing", ENTER)
    assert screen.show(100, 20).plain == "no pods of the scheduler match"
    assert typed(screen, ENTER) == []


def test_nodes_are_filtered_by_name_model_and_pods() -> None:
    screen = TopScreen(a_small_view())
    for text, there in (("n1", True), ("a100", True), ("default/one", True), ("absent", False)):
        screen.filter = text
        names = [line.split()[0] for line in screen.show(120, 30).plain.split("\n") if line]
        assert ("n1" in names) == there, text


def test_orders_take_turns() -> None:
    screen = a_screen(a_pod("b", node="n1"), a_pod("a", node="n2"))
    typed(screen, "s")
    assert screen.sort == "free"
    typed(screen, TAB)
    assert [pod.name for pod in screen.pods()] == ["a", "b"]
    typed(screen, "s", "s")
    assert screen.pod_sort == "node"
    assert [pod.name for pod in screen.pods()] == ["b", "a"]


def test_the_chosen_pod_stays_chosen_when_others_come_and_is_in_sight() -> None:
    pods = [a_pod(f"p-{number:02}") for number in range(50)]
    screen = a_screen(*pods)
    typed(screen, TAB, *[DOWN] * 30)
    assert screen.chosen is not None
    assert screen.chosen.name == "p-30"
    screen.refresh(replace(screen.view, pods=(a_pod("new", "waiting", ""), *pods)), 1.0)
    assert (screen.chosen.name, screen.chosen_at) == ("p-30", 31)
    shown = screen.show(80, 10)
    assert len(shown.plain.split("\n")) == 10
    assert "p-30" in shown.plain
    screen.refresh(replace(screen.view, pods=tuple(pods[:3])), 2.0)
    assert screen.chosen.name == "p-02"
    typed(screen, "G", "g")
    assert screen.chosen.name == "p-00"


def test_the_screen_is_never_larger_than_the_terminal() -> None:
    screen = a_screen(*(a_pod(f"p-{number}", "waiting", "") for number in range(30)))
    screen.explain(a_why())
    for panel in Panel:
        screen.panel = panel
        for width, height in ((20, 3), (60, 10), (200, 50)):
            lines = screen.show(width, height).plain.split("\n")
            assert len(lines) <= height
            assert max(map(len, lines)) <= width
