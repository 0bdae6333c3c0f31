"""One series as a card."""

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.gpu_capacity import capacity_samples
from kubeshare_py.inventory.gpu_capacity import CardOfNode, SampleProblem, read_series

GOOD = {"node": "a", "uuid": "GPU-1", "model": "Tesla-T4", "memory": "100", "index": "0"}


def test_what_the_collector_writes_is_read_back() -> None:
    card = Gpu(uuid=GpuUuid("GPU-7"), index=7, model="Tesla-T4", memory_bytes=15 * 2**30)
    (sample,) = capacity_samples(NodeName("a"), [card], 0)
    assert read_series(sample.labels) == CardOfNode(NodeName("a"), card)


def test_spaces_in_a_model_become_dashes() -> None:
    found = read_series({**GOOD, "model": "Tesla T4"})
    assert isinstance(found, CardOfNode)
    assert found.card.model == "Tesla-T4"


def test_the_exporters_own_node_wins_over_the_targets() -> None:
    found = read_series({**GOOD, "node": "target", "exported_node": "mine"})
    assert isinstance(found, CardOfNode)
    assert found.node == "mine"


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("node", ""),
        ("uuid", ""),
        ("model", ""),
        ("memory", "lots"),
        ("memory", "0"),
        ("memory", "-5"),
        ("memory", "1e9"),
        ("memory", "9" * 5000),
        ("index", ""),
        ("index", "²"),
    ],
)
def test_a_bad_label_is_named(label: str, text: str) -> None:
    found = read_series({**GOOD, label: text})
    assert isinstance(found, SampleProblem)
    assert found.label == label
    assert f"label {label} " in str(found)


def test_missing_labels_are_problems_not_errors() -> None:
    assert isinstance(read_series({}), SampleProblem)
