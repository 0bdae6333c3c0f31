"""Series of collectors: one as a card, and those that a selector selects."""

import pytest

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.collector_metrics import capacity_samples
from kubeshare_py.inventory.series import (
    CardOfNode,
    SampleProblem,
    SelectorProblem,
    parse_matchers,
    parse_selector,
    read_series,
    selects,
)

# --- One series as a card -------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("label", "text", "rule"),
    [
        ("memory", str(2**48 + 1), f"{2**48 + 1} is not within 1…{2**48}"),
        ("memory", str(2**53), f"{2**53} is not within 1…{2**48}"),
        ("memory", "9" * 5000, f"'{'9' * 40}…' is not a number of bytes above 0"),
        ("index", "4096", "4096 is not within 0…4095"),
        ("uuid", "x" * 254, "has 254 characters, 253 are allowed"),
        ("model", "x" * 1000, "has 1000 characters, 253 are allowed"),
    ],
)
def test_an_amount_beyond_its_bound_is_named_with_what_is_allowed(
    label: str, text: str, rule: str
) -> None:
    found = read_series({**GOOD, "instance": "10.0.0.1:9004", label: text})
    assert isinstance(found, SampleProblem)
    assert str(found).endswith(f" of node a (reported by 10.0.0.1:9004): label {label} {rule}")


def test_the_largest_amounts_are_a_card() -> None:
    found = read_series({**GOOD, "memory": str(2**48), "index": "4095", "uuid": f"GPU-{'x' * 249}"})
    assert isinstance(found, CardOfNode)


def test_missing_labels_are_problems_not_errors() -> None:
    assert isinstance(read_series({}), SampleProblem)


@pytest.mark.parametrize("uuid", ["all", "none", "void", "0", "GPU-1,GPU-2", "nvidia.com/gpu=all"])
def test_what_selects_other_cards_is_no_uuid(uuid: str) -> None:
    found = read_series({**GOOD, "uuid": uuid})
    assert isinstance(found, SampleProblem)
    assert (found.label, found.node) == ("uuid", "a")
    assert "is not GPU-… or MIG-…" in str(found)


# --- Prometheus selectors: what they select, and what is refused ----------------------------------


SERIES = {"__name__": "gpu_capacity", "job": "kubeshare-collector", "node": "a-1"}


@pytest.mark.parametrize(
    ("query", "selected"),
    [
        ("gpu_capacity", True),
        ("up", False),
        ('gpu_capacity{job="kubeshare-collector"}', True),
        ('gpu_capacity{job="other"}', False),
        ("gpu_capacity{job!='other', node=~`a-.`,}", True),
        ('gpu_capacity{node=~"a"}', False),
        ('gpu_capacity{node!~"b.*"}', True),
        ('gpu_capacity{absent=""}', True),
        ('gpu_capacity{absent!=""}', False),
        ('{__name__=~"gpu_capacity|up",job="kubeshare-collector"}', True),
        (' { __name__ =~ "gpu_.*" } ', True),
        ('gpu_capacity{node="a\\u002d1"}', True),
    ],
)
def test_selects(query: str, selected: bool) -> None:
    assert selects(parse_selector(query), SERIES) is selected


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("", "1:1: parse error: no query"),
        ("{}", "1:1: parse error: vector selector must contain"),
        ('{job=~".*"}', "1:1: parse error: vector selector must contain"),
        ("gpu_capacity{", "1:13: parse error: unexpected end of input"),
        ("gpu_capacity{job=x}", "1:14: parse error: expected label"),
        ('gpu_capacity{job="x" node="y"}', "1:22: parse error: unexpected 'n'"),
        ('gpu_capacity{job=~"("}', "1:19: parse error: error parsing regexp"),
        ("sum(gpu_capacity)", "1:4: parse error: unexpected '('"),
    ],
)
def test_refuses_what_prometheus_refuses_and_what_is_no_selector(query: str, problem: str) -> None:
    with pytest.raises(SelectorProblem) as raised:
        parse_selector(query)
    assert str(raised.value).startswith(problem)


def test_the_conditions_alone_may_be_none() -> None:
    assert parse_matchers("") == ()
