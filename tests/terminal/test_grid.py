"""Columns of text."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.grid import GridColumn, Row, grid, names_in, shortened
from tests.each import each

COLUMNS = (GridColumn(header="NAME", least=8), GridColumn(header="STATE"))


def plain(rows: list[Row], width: int | None) -> list[str]:
    return [line.plain for line in grid(COLUMNS, rows, width, flow_header="MESSAGE")]


def test_columns_line_up_and_nothing_follows_the_last_word() -> None:
    rows = [Row(cells=("a", "bound")), Row(cells=("longer", "waiting"), flow="no room")]
    assert plain(rows, None) == [
        "NAME    STATE    MESSAGE",
        "a       bound",
        "longer  waiting  no room",
    ]


def test_flowing_text_wraps_beside_its_row_where_there_is_room() -> None:
    text = "0/3 nodes are available: 1 no GPU, 2 Insufficient GPU memory."
    assert plain([Row(cells=("a", "waiting"), flow=text)], 60) == [
        "NAME  STATE    MESSAGE",
        "a     waiting  0/3 nodes are available: 1 no GPU, 2",
        "               Insufficient GPU memory.",
    ]


def test_flowing_text_goes_below_its_row_where_there_is_none() -> None:
    text = "0/3 nodes are available: 1 no GPU, 2 Insufficient GPU memory."
    assert plain([Row(cells=("a", "waiting"), flow=text)], 40) == [
        "NAME  STATE",
        "    MESSAGE",
        "a     waiting",
        "    0/3 nodes are available: 1 no GPU, 2",
        "    Insufficient GPU memory.",
    ]


def test_long_names_lose_their_middle_only_as_far_as_needed() -> None:
    rows = [Row(cells=("trainer-7d9f8b6c5-x2x4z", "bound"))]
    assert plain(rows, 20)[-1] == "traine…-x2x4z  bound"
    assert plain(rows, 80)[-1] == "trainer-7d9f8b6c5-x2x4z  bound"


def test_a_list_of_names_says_how_many_more_there_are() -> None:
    names = "default/a, default/b, default/c"
    assert names_in(names, 40) == names
    assert names_in(names, 25) == "default/a, default/b +1"
    assert names_in(names, 14) == "default/a +2"
    assert names_in(names, 11) == "defa…t/a +2"


@given(st.text(alphabet="ab-/, ", max_size=60), st.integers(min_value=0, max_value=70))
def test_what_is_shortened_fits(text: str, room: int) -> None:
    assert len(shortened(text, room)) <= room
    assert len(names_in(text, room)) <= room


@given(
    st.lists(
        st.tuples(st.text(alphabet="ab-", max_size=90), st.text(alphabet="ab ", max_size=90)),
        min_size=1,
    ),
    st.integers(min_value=30, max_value=120),
)
def test_no_line_is_wider_than_the_terminal(cells: list[tuple[str, str]], width: int) -> None:
    rows = [Row(cells=(name, "waiting"), flow=flow) for name, flow in cells]
    assert all(len(line) <= width for line in each(plain(rows, width)))


def test_nothing_that_pods_say_can_steer_the_terminal() -> None:
    assert printable("\x1b[2Jred\n\x07") == "?[2Jred??"
    assert "\x1b" not in "".join(plain([Row(cells=("\x1b[31m", "x"), flow="\x1b]0;t\x07")], 80))
