"""The views that plugins get: typed columns that cannot be written, alike in every form."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubeshare_py.cluster.columns import COLUMNS, Column, Columns, RowColumns
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, OneRow, Rows, SomeRows
from kubeshare_py.domain.node import Taint
from kubeshare_py.testing import SmallCluster
from tests.making import a_gpu, a_node

NAMES = sorted(name for name, value in vars(RowColumns).items() if isinstance(value, Column))
TAINT = Taint(key="dedicated", value="x", effect="NoSchedule")


@pytest.fixture
def ledger() -> Ledger:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="A100"), a_gpu("b", index=1), labels={"zone": "x"})
    cluster.node("n2", a_gpu("c"), taints=(TAINT,), unschedulable=True)
    cluster.hold("n1", "a", 300)
    return cluster.ledger


def forms(ledger: Ledger, row: int) -> list[Rows]:
    """The same row in every form."""
    one = np.array([row])
    return [SomeRows(ledger.columns, one), OneRow(ledger.columns, row), ledger.what_if(one)]


def all_of(rows: Rows) -> dict[str, Any]:
    """All that rows say, as plain values."""
    found: dict[str, Any] = {name: getattr(rows, name).tolist() for name in NAMES}
    for name in ("taints", "models", "readiness"):
        numbers, values = getattr(rows, name)()
        found[name] = numbers.tolist(), list(values)
    for key in ("zone", "unknown"):
        numbers, values = rows.labels(key)
        codes, number_of = rows.label_numbers(key)
        found[key] = numbers.tolist(), values, codes.tolist(), dict(number_of)
    found["named"] = rows.named(["n2"]).tolist()
    found.update(index=rows.index.tolist(), names=rows.names, uuids=rows.uuids)
    return found


def test_every_form_of_a_row_says_the_same(ledger: Ledger) -> None:
    for row in range(2):
        some, one, tried = (all_of(rows) for rows in forms(ledger, row))
        assert some == one == tried
        every = all_of(AllRows(ledger.columns))
        assert [every[name][row] for name in NAMES] == [some[name][0] for name in NAMES]
        assert every["uuids"][row] == some["uuids"][0]
        assert every["names"][row] == some["names"][0]


def test_every_column_of_the_tables_has_a_property_of_its_name() -> None:
    assert {*COLUMNS} == {*NAMES, "readiness"}
    assert {*COLUMNS} <= {*Columns.__slots__}


def arrays_of(rows: Rows) -> list[Any]:
    """The arrays that rows share with others."""
    return [*(getattr(rows, name) for name in NAMES), rows.taints()[0], rows.models()[0]]


def test_an_array_that_a_plugin_gets_cannot_be_written(ledger: Ledger) -> None:
    before = all_of(AllRows(ledger.columns))
    for rows in (*forms(ledger, 0), AllRows(ledger.columns)):
        for array in arrays_of(rows):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 7
        for copied in (rows.labels("zone")[0], rows.label_numbers("zone")[0], rows.index):
            if copied.flags.writeable:
                copied[:] = 7
        rows.names.clear()
        rows.uuids.clear()
        rows.labels("zone")[1].clear()
        assert all_of(AllRows(ledger.columns)) == before


@pytest.mark.parametrize(
    ("of", "change"),
    [
        (lambda rows: rows.taints()[1], "append"),
        (lambda rows: rows.models()[1], "sort"),
        (lambda rows: rows.readiness()[1], "clear"),
        (lambda rows: rows.boards, "pop"),
        (lambda rows: rows.resources, "clear"),
        (lambda rows: rows.label_numbers("zone")[1], "update"),
    ],
)
def test_a_value_by_number_and_a_mapping_cannot_be_changed(
    ledger: Ledger, of: Callable[[Rows], object], change: str
) -> None:
    rows = AllRows(ledger.columns)
    assert not hasattr(of(rows), change)
    assert rows.models()[1][:2] == ["", "A100"]


def test_a_column_that_is_misspelt_or_set_is_an_error(ledger: Ledger) -> None:
    for rows in (*forms(ledger, 0), AllRows(ledger.columns)):
        loose: Any = rows
        with pytest.raises(AttributeError, match="fre_milli"):
            _ = loose.fre_milli
        for name in ("free_milli", "_columns", "other"):
            with pytest.raises(AttributeError, match="read-only"):
                setattr(loose, name, None)
        assert rows.free_milli[0, 0] == 700


def test_a_what_if_shows_its_own_amounts_after_they_were_read(ledger: Ledger) -> None:
    rows = ledger.what_if(np.array([0]))
    assert rows.free_milli.tolist() == [[700, 1000]]
    rows.empty()
    assert rows.free_milli.tolist() == [[1000, 1000]]
    assert rows.idle.tolist() == [[1, 1]]
    assert rows.take(np.array([0, 0])).headroom.tolist() == [[1000, 1000]] * 2
    assert OneRow(ledger.columns, 0).free_milli.tolist() == [[700, 1000]]


def test_a_view_of_one_row_follows_the_tables(ledger: Ledger) -> None:
    ledger.put_node(a_node("n1", unschedulable=True))
    assert OneRow(ledger.columns, 0).unschedulable.tolist() == [1]
    assert OneRow(ledger.columns, 0).boards[0].board.count == 0
