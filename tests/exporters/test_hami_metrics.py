"""HAMi's metrics from our ledger: names, labels, units, and what its board reads of them."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.values import replace
from kubeshare_py.exporters.hami_metrics import CATALOGUE, LEGACY_NAMES, HamiSchedulerPage
from kubeshare_py.exporters.hami_node_metrics import CATALOGUE as NODE_CATALOGUE
from kubeshare_py.exporters.metric import Build
from kubeshare_py.views.figures import HeldPart, QuotaUse, SharedCard
from tests.making import GIB

PAGE = (Path(__file__).parents[2] / "docs/monitoring.md").read_text()
MIB = 1 << 20
#: A card of 16 GiB of which two pods have 2000 MiB and an eighth together.
CARD = SharedCard(
    node="n1",
    uuid="GPU-a",
    index=3,
    model="NVIDIA-T4",
    capacity_bytes=16 * GIB,
    capacity_milli=1000,
    allocated_bytes=2000 * MIB,
    allocated_milli=125,
    tenants=2,
)
BUILD = Build(version="1.2.3", python_version="3.11.7")
PART = HeldPart(namespace="team", pod="p", of=CARD, memory_bytes=1500 * MIB, milli=100)
#: What the board queries of the scheduler, and the labels that its legends show: expressions of
#: dashboards/hami-vgpu-dashboard.json in Project-HAMi/HAMi, 4707fb02 (August 2026).
OF_THE_SCHEDULER = (
    ('count(hami_gpu_memory_limit_bytes{node=~"$node"})', ""),
    ('sum(hami_gpu_memory_limit_bytes{node=~"$node"})', ""),
    ('sum(hami_gpu_memory_allocated_bytes{node=~"$node"})', ""),
    ('sum(hami_gpu_shared_count{node=~"$node"})', ""),
    ('sum by (node) (hami_gpu_memory_allocated_bytes{node=~"$node"})', "{{node}}"),
    ('sum by (node) (hami_gpu_memory_limit_bytes{node=~"$node"})', "{{node}}"),
    ('hami_node_gpu_memory_allocated_ratio{node=~"$node"}', "{{node}} {{device_index}}"),
    (
        'hami_gpu_core_allocated_ratio{node=~"$node"}',
        "{{node}} idx{{device_index}} ({{device_uuid}})",
    ),
    ('hami_gpu_shared_count{node=~"$node"}', "{{node}} idx{{device_index}} ({{device_uuid}})"),
    ("label_values(hami_gpu_memory_limit_bytes, node)", "{{node}}"),
    # Beside these, what node agents export is joined by the card.
    (
        "hami_host_gpu_memory_used_bytes and on (device_uuid) "
        'hami_gpu_memory_limit_bytes{node=~"$node"}',
        "",
    ),
)
#: What it queries of node agents, and the labels that these queries and their legends have.
_ON_HOST = {"device_uuid", "device_index", "device_type"}
_IN_CONTAINER = {"namespace", "pod", "container", "vdevice_index"}
OF_NODES = {
    "hami_host_gpu_memory_used_bytes": _ON_HOST,
    "hami_host_gpu_utilization_ratio": _ON_HOST,
    "hami_vgpu_memory_used_bytes": _IN_CONTAINER,
    "hami_vgpu_memory_limit_bytes": _IN_CONTAINER,
    "hami_container_device_utilization_ratio": _IN_CONTAINER,
}

FoundSeries = dict[tuple[str, frozenset[tuple[str, str]]], float]


def series(
    *quotas: QuotaUse, legacy: bool = False, card: SharedCard = CARD, part: HeldPart | None = PART
) -> FoundSeries:
    """What a page says, without the label zone."""
    page = HamiSchedulerPage(BUILD, legacy=legacy)
    page.add([card], [] if part is None else [part])
    page.add_quotas(quotas)
    found: FoundSeries = {}
    text = b"".join(page.chunks()).decode()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name != "hami_build_info":
                assert sample.labels.pop("zone") == "vGPU"
            assert (sample.name, frozenset(sample.labels.items())) not in found
            found[sample.name, frozenset(sample.labels.items())] = sample.value
    return found


def one(found: FoundSeries, name: str) -> tuple[dict[str, str], float]:
    """The labels and the value of the only series of this name."""
    [(labels, value)] = [(dict(key[1]), value) for key, value in found.items() if key[0] == name]
    return labels, value


OF_CARD = {
    "node": "n1",
    "device_uuid": "GPU-a",
    "device_index": "3",
    "device_type": "NVIDIA-T4",
}
OF_PART = {
    "namespace": "team",
    "node": "n1",
    "pod": "p",
    "container_index": "0",
    "device_uuid": "GPU-a",
}


@pytest.mark.parametrize(
    ("name", "more", "value"),
    [
        ("hami_gpu_memory_limit_bytes", {}, 16 * GIB),
        ("hami_gpu_memory_allocated_bytes", {"device_cores": "100"}, 2097152000),
        ("hami_gpu_core_limit_ratio", {}, 100),
        ("hami_gpu_core_allocated_ratio", {}, 12.5),
        ("hami_gpu_shared_count", {}, 2),
        (
            "hami_node_gpu_overview",
            {"device_cores": "100", "device_memory_limit": "16384"},
            2097152000,
        ),
        ("hami_node_gpu_memory_allocated_ratio", {}, 2000 / 16384),
    ],
)
def test_h86_a_card_has_hamis_series_in_hamis_units(
    name: str, more: dict[str, str], value: float
) -> None:
    """2000 MiB are 2097152000 bytes."""
    labels, found = one(series(), name)
    assert labels == {**OF_CARD, **more}
    assert found == pytest.approx(value)


def test_h86_a_part_of_a_card_has_the_pod_that_holds_it() -> None:
    found = series()
    assert one(found, "hami_vgpu_memory_allocated_bytes") == (OF_PART, 1500 * MIB)
    assert one(found, "hami_vgpu_core_allocated_ratio") == (OF_PART, 10)


def test_h86_older_names_come_by_option_with_the_same_values() -> None:
    """GPUDeviceMemoryAllocated has the value of its successor."""
    found = series(QUOTA, legacy=True)
    labels, value = one(found, "GPUDeviceMemoryAllocated")
    assert value == 2097152000
    assert labels == {
        "nodeid": "n1",
        "deviceuuid": "GPU-a",
        "deviceidx": "3",
        "devicecores": "100",
        "devicetype": "NVIDIA-T4",
    }
    assert one(found, "nodeGPUMemoryPercentage")[0].keys() == {"nodeid", "deviceuuid", "deviceidx"}
    labels, value = one(found, "vGPUPodsDeviceAllocated")
    assert (labels["podname"], labels["deviceusedcore"], value) == ("p", "10", 1500 * MIB)
    assert one(found, "vGPUMemoryPercentage")[1] == pytest.approx(1500 / 16384)
    assert {name for name, _ in found} >= LEGACY_NAMES
    assert not {name for name, _ in series(QUOTA)} & LEGACY_NAMES


def test_what_is_not_known_has_no_series_and_is_never_0() -> None:
    """A card that pods hold and the inventory does not show: its size is not known."""
    lost = replace(CARD, index=None, capacity_bytes=0, capacity_milli=0)
    names = {name for name, _ in series(legacy=True, card=lost, part=replace(PART, of=lost))}
    assert names >= {"hami_gpu_memory_allocated_bytes", "hami_gpu_shared_count"}
    unknown = {"hami_gpu_memory_limit_bytes", "hami_gpu_core_limit_ratio", "hami_node_gpu_overview"}
    unknown |= {"hami_node_gpu_memory_allocated_ratio", "vGPUMemoryPercentage"}
    assert not names & unknown


@pytest.mark.parametrize("profile", ["1g.5gb", "2g.10gb", "1c.3g.20gb", "1g.10gb+me", "other"])
def test_a_mig_instance_is_named_with_its_card_and_its_profile(profile: str) -> None:
    """The ids of an instance, by which nodeGPUMigInstance names it, are not known."""
    model = f"NVIDIA-A100-SXM4-40GB-MIG-{profile}"
    instance = replace(CARD, uuid="MIG-b", model=model, parent="GPU-a")
    found = series(card=instance, legacy=True)
    labels, value = one(found, "hami_node_gpu_mig_instance_info")
    assert (labels["device_uuid"], labels["mig_uuid"], value) == ("GPU-a", "MIG-b", 1)
    assert labels["profile"] == (model if profile == "other" else profile)
    assert "nodeGPUMigInstance" not in {name for name, _ in found}


#: 12.5 hundredths of a card of 200.
QUOTA = QuotaUse(namespace="team", resource="nvidia.com/gpucores", used=125, unit=10, limit=200)


def test_a_quotas_use_and_limit_are_in_units_of_the_quota() -> None:
    """With a memory factor of 2 HAMi's use is in MiB, and its limit in 2 MiB."""
    memory = replace(QUOTA, resource="nvidia.com/gpumem", used=3000 * MIB, unit=2 * MIB, limit=4000)
    found = series(memory, legacy=True)
    name = {"namespace": "team", "quota_name": "nvidia.com/gpumem"}
    assert one(found, "hami_resource_quota_used") == ({**name, "limit": "4000"}, 1500)
    assert one(found, "hami_resource_quota_limit") == (name, 4000)
    old = {"quotanamespace": "team", "quotaName": "nvidia.com/gpumem", "limit": "4000"}
    assert one(found, "QuotaUsed") == (old, 1500)
    assert one(series(QUOTA), "hami_resource_quota_used")[1] == 12.5


def test_a_namespace_without_a_limit_has_its_use_alone_and_a_limit_of_0_is_one() -> None:
    found = series(replace(QUOTA, limit=None))
    assert one(found, "hami_resource_quota_used")[0]["limit"] == ""
    assert "hami_resource_quota_limit" not in {name for name, _ in found}
    assert one(series(replace(QUOTA, limit=0)), "hami_resource_quota_limit")[1] == 0


def test_the_build_is_named_as_ours() -> None:
    assert one(series(), "hami_build_info") == ({"version": "kubeshare-py 1.2.3"}, 1)


def test_labels_of_users_cannot_break_a_line() -> None:
    odd = replace(CARD, model='a"b\\c\nd')
    labels, _ = one(series(card=odd), "hami_gpu_shared_count")
    assert labels["device_type"] == 'a"b\\c\nd'


@pytest.mark.parametrize(("query", "legend"), OF_THE_SCHEDULER)
def test_every_metric_and_label_that_hamis_board_queries_is_there(query: str, legend: str) -> None:
    names = set(re.findall(r"hami_\w+", query)) - OF_NODES.keys()
    assert names
    labels = set(re.findall(r"(\w+)=~", query)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
    labels |= set(re.findall(r"(?:by|on) \((\w+)\)", query))
    there = {metric.name: {*metric.labels} for metric in CATALOGUE}
    found = {name: {*dict(key)} for name, key in series()}
    for name in names:
        assert labels <= there[name]
        assert labels <= found[name]


@pytest.mark.parametrize("name", OF_NODES)
def test_what_the_board_queries_of_nodes_is_there_with_its_labels(name: str) -> None:
    there = {metric.name: {*metric.labels} for metric in NODE_CATALOGUE}
    assert OF_NODES[name] <= there[name]


def test_the_table_of_hamis_metrics_is_that_of_the_code() -> None:
    section = PAGE.split("## HAMi's metrics\n")[1].split("\n## ")[0]
    shown = [line for line in section.splitlines() if line.startswith("| `")]
    assert shown == [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in CATALOGUE
    ]
