"""Numbers of models, for many cards at once."""

from kubeshare_py.cluster.numbering import SPARE_VALUES
from kubeshare_py.cluster.rows import AllRows
from kubeshare_py.framework.number_table import ModelTable
from kubeshare_py.testing import SmallCluster
from tests.builders import a_gpu


def test_each_model_is_worked_out_once_and_new_ones_when_they_come() -> None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    asked: list[str] = []

    def length(model: str) -> int:
        asked.append(model)
        return len(model)

    table = ModelTable(length, empty=-1)
    rows = AllRows(cluster.ledger.columns)
    assert table.of(rows)[0].tolist() == [2, 4]
    cluster.node("n2", a_gpu("c", model="L40S-48GB"))
    assert table.of(AllRows(cluster.ledger.columns))[1].tolist() == [9, -1]
    assert asked == ["T4", "A100", "L40S-48GB"]


def test_models_that_are_numbered_anew_are_told_apart() -> None:
    cluster = SmallCluster()
    cluster.node("n1", a_gpu("a", model="T4"), a_gpu("b", index=1, model="A100"))
    table = ModelTable(len, empty=-1)
    for number in range(2 * SPARE_VALUES):
        model = "x" * (1 + number % 200) + str(number)
        cluster.node("n2", a_gpu("c", model=model))
        found = table.of(AllRows(cluster.ledger.columns))
        assert [*found[0].tolist(), found[1, 0]] == [2, 4, len(model)]
