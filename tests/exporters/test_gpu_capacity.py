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


def test_a_reader_of_the_text_format_gets_labels_and_value_back() -> None:
    text = exposition(capacity_samples(NodeName('odd"\\\n'), [CARD], 1700000000))
    (family,) = text_string_to_metric_families(text)
    (sample,) = family.samples
    assert (family.name, family.type, sample.value) == ("gpu_capacity", "counter", 1700000000)
    assert sample.labels["node"] == 'odd"\\\n'


def test_a_node_without_cards_has_no_series() -> None:
    text = exposition(capacity_samples(NodeName("a"), [], 1700000000))
    assert all(line.startswith("#") for line in text.splitlines())
