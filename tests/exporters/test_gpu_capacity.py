"""What a scrape of the collector reads."""

from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.exporters.gpu_capacity import capacity_samples, exposition

CARD = Gpu(uuid=GpuUuid("GPU-1"), index=3, model="NVIDIA GeForce GTX 1080", memory_bytes=8 * 2**30)


def test_one_line_per_card_as_kubeshare_declares_it() -> None:
    text = exposition(capacity_samples(NodeName("a"), [CARD], 1700000000.9))
    assert text.splitlines()[1:] == [
        "# TYPE gpu_capacity counter",
        'gpu_capacity{node="a",uuid="GPU-1",model="NVIDIA-GeForce-GTX-1080",'
        'memory="8589934592",index="3"} 1700000000',
    ]


def test_58_a_v100_has_the_series_of_kubeshares_collector() -> None:
    """kubeshare.md I.58."""
    v100 = Gpu(
        uuid=GpuUuid("GPU-1"), index=0, model="Tesla V100-PCIE-32GB", memory_bytes=34_089_730_048
    )
    [_, kind, line] = exposition(capacity_samples(NodeName("a"), [v100], 1.7e9)).splitlines()
    assert kind == "# TYPE gpu_capacity counter"
    assert line == (
        'gpu_capacity{node="a",uuid="GPU-1",model="Tesla-V100-PCIE-32GB",'
        'memory="34089730048",index="0"} 1700000000'
    )


def test_a_reader_of_the_text_format_gets_labels_and_value_back() -> None:
    text = exposition(capacity_samples(NodeName('odd"\\\n'), [CARD], 1700000000))
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (family.name, family.type, sample.value) == ("gpu_capacity", "counter", 1700000000)
    assert sample.labels["node"] == 'odd"\\\n'


def test_a_node_without_cards_has_no_series() -> None:
    text = exposition(capacity_samples(NodeName("a"), [], 1700000000))
    assert all(line.startswith("#") for line in text.splitlines())
