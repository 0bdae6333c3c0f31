"""A number for each card model, computed once per model name, for questions about many cards."""

from collections.abc import Callable, Sequence

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.framework.number_table import NumberTable


class ModelTable(NumberTable[str]):
    """The numbers of card models, for one question of one ledger."""

    __slots__ = ()

    def __init__(self, number_of: Callable[[str], int], empty: int = 0) -> None:
        """`number_of` gets each model's full name; `empty` is the number of empty slots."""
        super().__init__(_models, number_of, empty)


def _models(rows: Rows) -> tuple[IntArray, Sequence[str]]:
    return rows.models()
