"""What a scrape of the collector reads, judged by prometheus-client's own parsers."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.card_reading import (
    CardLink,
    CardProcess,
    CardReading,
    Fabric,
    FarEnd,
    JudgedCard,
    MemoryErrors,
    OwnLink,
)
from kubeshare_py.domain.gpu import Gpu
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.domain.values import replace
from kubeshare_py.exporters.collector_metrics import (
    CATALOGUE,
    CollectorFigures,
    capacity_samples,
    cards_text,
    exposition,
    page,
)
from kubeshare_py.node_agent.history import APPLICATION_XIDS, NAMES
from tests.each import each

GIB = 2**30
OPENMETRICS = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
Series = dict[str, float]
PARSERS: dict[str, Callable[[str], Iterable[Family]]] = {
    "": text_string_to_metric_families,
    OPENMETRICS: openmetrics_families,
}
FULL = CardReading(
    uuid=GpuUuid('odd"\\'),
    index=3,
    model="NVIDIA A100 SXM4",
    memory_bytes=40 * GIB,
    reserved_bytes=GIB,
    used_bytes=2 * GIB,
    divided=False,
    bus="0000:3b:00.0",
    numa_node=1,
    links=(OwnLink(far_end=FarEnd.SWITCH, speed=50_000),) * 12,
    fabric=Fabric(cluster="c", clique=7, is_ready=True),
    errors=MemoryErrors(corrected=5, uncorrected=0, remapped_corrected=1, remapped_uncorrected=2),
    busy_percent=93,
    copying_percent=0,
    temperature_celsius=61,
    power_milliwatts=251_300,
    processes=(CardProcess(pid=1), CardProcess(pid=2)),
)
BARE = CardReading(uuid=GpuUuid("GPU-bare"), index=0, model="T4", memory_bytes=GIB)


def figures(*cards: JudgedCard, **fields: Any) -> CollectorFigures:
    given: dict[str, Any] = {"errors": {}, "unanswered": {}, "readings": {"read": 2}, **fields}
    return CollectorFigures(node=NodeName("n"), cards=cards, **given)


def text(found: CollectorFigures, accept: str = "") -> str:
    return page(found, cards_text(found), 1700000000.9, accept)[0].decode()


def series(found: CollectorFigures, accept: str = "") -> Series:
    """By name and labels, those of the catalogue in its order."""
    order = {one.name: one.labels for one in CATALOGUE}
    answer: Series = {}
    for family in PARSERS[accept](text(found, accept)):
        for sample in family.samples:
            # The parser of the text format gives every counter the suffix that this one has not.
            name = sample.name if sample.name in order else sample.name.removesuffix("_total")
            labels = ",".join(sample.labels[label] for label in order[name])
            assert len(sample.labels) == len(order[name])
            answer[f"{name}{{{labels}}}"] = sample.value
    return answer


@pytest.mark.parametrize("accept", PARSERS, ids=["text", "openmetrics"])
def test_a_card_that_says_everything(accept: str) -> None:
    card = 'n,odd"\\'
    found = series(figures(JudgedCard(reading=FULL)), accept)
    assert {name: value for name, value in found.items() if "_gpu_" in name} == {
        f"kubeshare_gpu_info{{{card},3,NVIDIA-A100-SXM4,0000:3b:00.0,,,c.7}}": 1,
        f"kubeshare_gpu_healthy{{{card}}}": 1,
        f"kubeshare_gpu_memory_bytes{{{card}}}": 40 * GIB,
        f"kubeshare_gpu_memory_reserved_bytes{{{card}}}": GIB,
        f"kubeshare_gpu_memory_used_bytes{{{card}}}": 2 * GIB,
        f"kubeshare_gpu_divided{{{card}}}": 0,
        f"kubeshare_gpu_numa_node{{{card}}}": 1,
        f"kubeshare_gpu_links{{{card},switch}}": 12,
        f"kubeshare_gpu_memory_errors{{{card},corrected}}": 5,
        f"kubeshare_gpu_memory_errors{{{card},uncorrected}}": 0,
        f"kubeshare_gpu_remapped_rows{{{card},corrected}}": 1,
        f"kubeshare_gpu_remapped_rows{{{card},uncorrected}}": 2,
        f"kubeshare_gpu_busy_ratio{{{card}}}": 0.93,
        f"kubeshare_gpu_memory_busy_ratio{{{card}}}": 0,
        f"kubeshare_gpu_temperature_celsius{{{card}}}": 61,
        f"kubeshare_gpu_power_watts{{{card}}}": 251.3,
        f"kubeshare_gpu_processes{{{card}}}": 2,
    }


def test_what_the_driver_does_not_say_has_no_series() -> None:
    found = series(figures(JudgedCard(reading=BARE)))
    assert [name for name in found if "_gpu_" in name] == [
        "kubeshare_gpu_info{n,GPU-bare,0,T4,,,,}",
        "kubeshare_gpu_healthy{n,GPU-bare}",
        "kubeshare_gpu_memory_bytes{n,GPU-bare}",
    ]


def test_of_a_card_that_was_not_read_only_its_health_is_told() -> None:
    lost = JudgedCard(reading=FULL, faults=("lost",), is_gone=True, is_read=False)
    found = series(figures(lost))
    names = [name.partition("{")[0] for name in found if "_gpu_" in name]
    assert names == ["kubeshare_gpu_info", "kubeshare_gpu_healthy", "kubeshare_gpu_fault"]
    assert found['kubeshare_gpu_healthy{n,odd"\\}'] == 0


def test_each_fault_is_a_series() -> None:
    found = series(figures(JudgedCard(reading=BARE, faults=("remap-waits", "xid-79"))))
    assert found["kubeshare_gpu_fault{n,GPU-bare,remap-waits}"] == 1
    assert found["kubeshare_gpu_fault{n,GPU-bare,xid-79}"] == 1


@pytest.mark.parametrize("accept", PARSERS, ids=["text", "openmetrics"])
def test_cards_links_and_counts(accept: str) -> None:
    card = Gpu(uuid=GpuUuid("GPU-1"), index=0, model="Tesla T4", memory_bytes=5)
    link = CardLink(uuid=GpuUuid("a"), peer=GpuUuid("b"), kind="NV12", speed=600_000)
    found = series(
        figures(
            listed=(card,),
            links=(link,),
            errors={(GpuUuid("a"), "xid-31"): 4},
            unanswered={("nvmlDeviceGetName", "Unknown"): 2},
            driver="550",
            age_s=1.5,
            took_s=0.25,
        ),
        accept,
    )
    assert found == {
        "gpu_capacity{n,GPU-1,Tesla-T4,5,0}": 1700000000,
        "gpu_link{n,a,b,NV12}": 600,
        "kubeshare_gpu_driver_errors_total{n,a,xid-31}": 4,
        "kubeshare_collector_driver_info{n,550}": 1,
        "kubeshare_collector_cards{n}": 1,
        "kubeshare_collector_healthy_cards{n}": 1,
        "kubeshare_collector_reading_age_seconds{n}": 1.5,
        "kubeshare_collector_reading_duration_seconds{n}": 0.25,
        "kubeshare_collector_readings_total{n,read}": 2,
        "kubeshare_collector_readings_total{n,failed}": 0,
        "kubeshare_collector_readings_total{n,hung}": 0,
        "kubeshare_collector_driver_failures_total{n,nvmlDeviceGetName,Unknown}": 2,
    }


def test_gpu_capacity_is_a_counter_as_kubeshare_has_it_and_a_gauge_in_openmetrics() -> None:
    assert "# TYPE gpu_capacity counter" in text(figures())
    assert "# TYPE gpu_capacity gauge" in text(figures(), OPENMETRICS)


@pytest.mark.parametrize(
    ("accept", "content_type", "end"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8", ""),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", ""),
        (OPENMETRICS, "application/openmetrics-text; version=1.0.0; charset=utf-8", "# EOF\n"),
    ],
)
def test_the_format_is_the_one_that_is_preferred(accept: str, content_type: str, end: str) -> None:
    body, told = page(figures(), "", 0.0, accept)
    assert told.partition("; escaping")[0] == content_type
    assert body.endswith(end.encode())
    assert body.count(b"# EOF") == len(end) // 6


def test_nothing_is_there_before_the_first_reading_but_how_reading_goes() -> None:
    assert [name for name in series(figures()) if "age" in name or "duration" in name] == []


def test_of_the_cards_that_are_listed_those_without_a_fault_are_well() -> None:
    ill = replace(BARE, uuid=GpuUuid("GPU-ill"))
    lost = JudgedCard(reading=FULL, faults=("lost",), is_gone=True, is_read=False)
    judged = (JudgedCard(reading=BARE), JudgedCard(reading=ill, faults=("xid-79",)), lost)
    listed = tuple(
        Gpu(uuid=one.uuid, index=one.index, model=one.model, memory_bytes=one.memory_bytes)
        for one in (BARE, ill)
    )
    found = series(figures(*judged, listed=listed))
    assert found["kubeshare_collector_cards{n}"] == 2
    assert found["kubeshare_collector_healthy_cards{n}"] == 1


# --- docs/inventory.md says of metrics and health what the code says ------------------------------


INVENTORY = (Path(__file__).parents[2] / "docs/inventory.md").read_text()
PAGE = INVENTORY.split("\n## The collector\n")[1].split("\n## ")[0]


def section(title: str) -> str:
    return PAGE.split(f"\n### {title}\n")[1].split("\n### ")[0]


def rows(title: str) -> list[str]:
    return [line for line in section(title).splitlines() if line.startswith("| `")]


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    assert rows("Metrics") == [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |" for one in CATALOGUE
    ]


def test_metrics_that_are_mentioned_exist() -> None:
    mentioned = set(re.findall(r"kubeshare_(?:gpu|collector)_[a-z_]+", PAGE))
    assert len(mentioned) > 20
    assert mentioned <= {one.name for one in CATALOGUE}


def test_every_fault_is_explained() -> None:
    explained = {name for row in rows("Health") for name in re.findall(r"`([a-zN-]+)`", row[:90])}
    assert explained >= {*NAMES, "xid-N"}


def test_the_errors_of_programs_are_named() -> None:
    (named,) = re.findall(r"XID ([\d, and]+),", section("Health"))
    assert {*map(int, re.findall(r"\d+", named))} == APPLICATION_XIDS


# --- What a scrape of the collector reads ---------------------------------------------------------


CARD = Gpu(uuid=GpuUuid("GPU-1"), index=3, model="NVIDIA GeForce GTX 1080", memory_bytes=8 * 2**30)


def test_one_line_per_card_as_kubeshare_declares_it() -> None:
    text = exposition(capacity_samples(NodeName("a"), [CARD], 1700000000.9))
    assert text.splitlines()[1:] == [
        "# TYPE gpu_capacity counter",
        'gpu_capacity{node="a",uuid="GPU-1",model="NVIDIA-GeForce-GTX-1080",'
        'memory="8589934592",index="3"} 1700000000',
    ]


def test_58_a_v100_has_the_series_of_kubeshares_collector() -> None:
    """Node, uuid, model, memory in bytes and index; the value is the Unix time in seconds."""
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
    assert all(line.startswith("#") for line in each(text.splitlines()))
