"""A number for each card model, worked out once per name: answers about models for many cards."""

from collections.abc import Callable, Sequence

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import Rows
from kubeshare_py.framework.number_table import NumberTable


class ModelTable(NumberTable[str]):
    """For one question of one ledger."""

    __slots__ = ()

    def __init__(self, number_of: Callable[[str], int], empty: int = 0) -> None:
        """`number_of` is put to each model's full name; `empty` is the number of empty slots."""
        super().__init__(_models, number_of, empty)


def _models(rows: Rows) -> tuple[IntArray, Sequence[str]]:
    return rows.models()
