"""The ring of rows that changed."""

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.changes import ChangeLog


def since(log: ChangeLog, position: int, at_most: int = 1000) -> list[int] | None:
    rows = log.since(position, at_most)
    return None if rows is None else rows.tolist()


def test_a_reader_gets_what_came_since_it_last_looked() -> None:
    log = ChangeLog(8)
    for row in (3, 1, 3):
        log.add(row)
    seen = log.end
    log.add(7)
    assert since(log, 0) == [3, 1, 3, 7]
    assert since(log, seen) == [7]
    assert since(log, log.end) == []


def test_more_than_the_reader_wants_is_everything() -> None:
    log = ChangeLog(8)
    for row in range(3):
        log.add(row)
    assert since(log, 0, 3) == [0, 1, 2]
    assert since(log, 0, 2) is None


def test_a_reader_that_comes_too_late_must_look_at_everything() -> None:
    log = ChangeLog(4)
    for row in range(5):
        log.add(row)
    assert since(log, 1) == [1, 2, 3, 4]
    assert since(log, 0) is None


@given(st.integers(1, 6), st.lists(st.integers(0, 99), max_size=30), st.integers(0, 30))
def test_it_forgets_but_never_misleads(size: int, rows: list[int], position: int) -> None:
    log = ChangeLog(size)
    for row in rows:
        log.add(row)
    position = min(position, len(rows))
    expected = rows[position:] if len(rows) - position <= size else None
    assert since(log, position) == expected
