"""What a scrape of the scheduler reads, judged by prometheus-client's own parser."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.lease import LeaderFigures
from kubeshare_py.exporters.client_metrics import LATENCY_BOUNDS, RequestTallies, leader_values
from kubeshare_py.exporters.metric import (
    ATTEMPT_BOUNDS,
    SLI_BOUNDS,
    Build,
    Distribution,
    EventLogTallies,
    Metric,
    Tallies,
    build_values,
)
from kubeshare_py.exporters.scheduler_metrics import (
    CARD_METRICS,
    CATALOGUE,
    CardPage,
    ProcessFigures,
    WriteFigures,
    held_text,
    page,
    scheduler_values,
)
from kubeshare_py.views.figures import (
    CardFigures,
    DecisionFigures,
    HeldSeconds,
    LedgerFigures,
    PodFigures,
)

PROFILE = "kubeshare-scheduler"
BUILD = Build(version="1.2.3", python_version="3.11.7")
LEADER = LeaderFigures(name="kubeshare-scheduler", leads=True, slow_renewals=2)
CARDS = CardFigures(
    nodes=["a", "b"],
    uuids=["GPU-1", 'odd"\\\n'],
    models=["A100", ""],
    capacity_milli=[1000, 0],
    capacity_bytes=[40 * 2**30, 0],
    memory_scaling=[1500, 1000],
    allocated_milli=[300, 500],
    allocated_bytes=[12 * 2**30, 1],
    tenants=[2, 1],
    healthy=[1, 0],
)


def parsed(text: bytes) -> dict[str, Family]:
    """By the name that the series have; histograms by that of the metric."""
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        suffix = "_total" if family.type == "counter" else ""
        assert family.name + suffix not in found, "one metric in two places"
        found[family.name + suffix] = family
    return found


def scraped(
    ledger: LedgerFigures | None = None,
    pods: PodFigures | None = None,
    tallies: Tallies | None = None,
    *,
    age: float | None = 1.5,
    source: str = "scrape",
) -> dict[str, Family]:
    process = ProcessFigures(
        decisions=DecisionFigures(
            attempts={("scheduled", PROFILE): 7, ("error", PROFILE): 0},
            queue_moves={("active", "UnschedulablePodAdd"): 4},
            plugin_failures={("CheapNodes", "Score"): 3},
            preemption_attempts=4,
            preemptors_exhausted=2,
        ),
        inventory_age_s=age,
        event_log=EventLogTallies(is_writing=True, events=12, size=3456),
        writes=WriteFigures(queued=3, dropped=2, failed={("eviction", "403"): 5}),
        loop_lag_s=0.25,
        inventory_source=source,
    )
    values = scheduler_values(
        ledger or LedgerFigures(), pods or PodFigures(), process, tallies or busy()
    )
    return parsed(
        page({**values, **requests().values(), **leader_values(LEADER), **build_values(BUILD)})
    )


def requests() -> RequestTallies:
    made = RequestTallies("host:6443")
    made.waited("POST", 0.001)
    made.ended("POST", 201, 0.007)
    made.ended("PATCH", None, 5.0)
    made.ended("GET", 429, 0.001)
    made.sent_again("GET", 429)
    made.began("GET", 200)
    return made


def busy() -> Tallies:
    tallies = Tallies()
    tallies.attempt("scheduled", PROFILE, 0.004)
    tallies.attempt("unschedulable", PROFILE, 0.001, 3)
    tallies.bound(1, 0.5)
    tallies.bound(99, 700.0)
    tallies.event_seconds.observe(0.00002)
    tallies.reload(applied=False)
    tallies.slow_plugin("CheapNodes")
    tallies.slow_plugin("CheapNodes")
    return tallies


def value(families: dict[str, Family], series: str, /, **labels: str) -> float:
    [found] = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == series and sample.labels == labels
    ]
    return float(found)


def test_counts_come_with_result_and_profile() -> None:
    families = scraped()
    attempts = "scheduler_schedule_attempts_total"
    assert value(families, attempts, result="scheduled", profile=PROFILE) == 7
    assert value(families, attempts, result="error", profile=PROFILE) == 0


def test_failures_and_slow_turns_come_with_the_plugin() -> None:
    families = scraped()
    named = {"plugin": "CheapNodes"}
    assert value(families, "kubeshare_plugin_slow_turns_total", **named) == 2
    failed = value(families, "kubeshare_plugin_failures_total", extension_point="Score", **named)
    assert failed == 3


def test_histograms_have_kube_schedulers_buckets() -> None:
    families = scraped()
    for name, bounds in (
        ("scheduler_scheduling_attempt_duration_seconds", ATTEMPT_BOUNDS),
        ("scheduler_scheduling_algorithm_duration_seconds", ATTEMPT_BOUNDS),
        ("scheduler_pod_scheduling_sli_duration_seconds", SLI_BOUNDS),
        ("scheduler_pod_scheduling_attempts", (1, 2, 4, 8, 16)),
        ("rest_client_request_duration_seconds", LATENCY_BOUNDS),
    ):
        listed = {s.labels["le"] for s in families[name].samples if s.name.endswith("_bucket")}
        assert {float(one) for one in listed} == {*bounds, float("inf")}
    assert (ATTEMPT_BOUNDS[0], round(ATTEMPT_BOUNDS[-1], 3)) == (0.001, 16.384)
    assert (SLI_BOUNDS[0], round(SLI_BOUNDS[-1], 2)) == (0.01, 5242.88)


def test_what_a_pod_took_is_told_by_its_attempts() -> None:
    families, name = scraped(), "scheduler_pod_scheduling_sli_duration_seconds"
    assert value(families, f"{name}_sum", attempts="1") == 0.5
    assert value(families, f"{name}_count", attempts="15+") == 1
    assert value(families, f"{name}_bucket", attempts="1", le="0.32") == 0
    assert value(families, f"{name}_bucket", attempts="1", le="0.64") == 1


def test_bounds_are_written_as_go_writes_them() -> None:
    bounds = [bound for bound, _ in Distribution((1e-05, 0.001, 0.25, 1, 2.0, 16.384)).buckets()]
    assert bounds == ["1e-05", "0.001", "0.25", "1", "2", "16.384", "+Inf"]


def test_requests_are_told_as_client_go_tells_them() -> None:
    families, host = scraped(), "host:6443"
    total = "rest_client_requests_total"
    assert value(families, total, code="201", method="POST", host=host) == 1
    assert value(families, total, code="<error>", method="PATCH", host=host) == 1
    assert value(families, total, code="200", method="GET", host=host) == 1
    again = "rest_client_request_retries_total"
    assert value(families, again, code="429", verb="GET", host=host) == 1
    took = "rest_client_request_duration_seconds"
    assert value(families, f"{took}_sum", verb="PATCH", host=host) == 5.0
    assert value(families, f"{took}_count", verb="GET", host=host) == 1
    waited = "rest_client_rate_limiter_duration_seconds_count"
    assert value(families, waited, verb="POST", host=host) == 1


def test_who_leads_is_told_where_there_is_an_election() -> None:
    status = "leader_election_master_status"
    assert value(scraped(), status, name="kubeshare-scheduler") == 1
    assert value(scraped(), "leader_election_slowpath_total", name="kubeshare-scheduler") == 2
    assert leader_values(None) == {}


def test_waiting_pods_are_told_by_queue_and_by_plugin() -> None:
    pods = PodFigures(
        active=1, backoff=2, unschedulable=3, gated=4, unschedulable_by=(("GpuFit", PROFILE, 3),)
    )
    families = scraped(pods=pods)
    queues = {"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4}
    for queue, count in queues.items():
        assert value(families, "scheduler_pending_pods", queue=queue) == count
    labels = {"plugin": "GpuFit", "profile": PROFILE}
    assert value(families, "scheduler_unschedulable_pods", **labels) == 3


@pytest.mark.parametrize(("free", "broken", "ratio"), [(4000, 1000, 0.25), (0, 0, 0.0)])
def test_fragmentation_is_the_part_of_the_free_share_on_broken_cards(
    free: int, broken: int, ratio: float
) -> None:
    families = scraped(LedgerFigures(free_milli=free, broken_milli=broken))
    assert value(families, "kubeshare_fragmentation_ratio") == ratio


def test_an_inventory_that_was_never_read_has_no_age() -> None:
    assert "kubeshare_inventory_age_seconds" not in scraped(age=None)


def test_one_series_names_the_source_of_the_inventory() -> None:
    [sample] = scraped()["kubeshare_inventory_source"].samples
    assert (sample.labels, sample.value) == ({"source": "scrape"}, 1)
    assert "kubeshare_inventory_source" not in scraped(source="")


def test_what_namespaces_held_is_counted_by_model() -> None:
    odd = 'A"100'
    held = {("ml", odd): HeldSeconds(90.5, 3.0 * 2**80), ("", "other"): HeldSeconds(1.0, 0.0)}
    families = parsed(held_text(held))
    assert held_text({}) == b""
    of_ml = {"namespace": "ml", "model": odd}
    assert value(families, "kubeshare_held_card_seconds_total", **of_ml) == 90.5
    assert value(families, "kubeshare_held_byte_seconds_total", **of_ml) == 3 * 2**80
    assert value(families, "kubeshare_held_card_seconds_total", namespace="", model="other") == 1


def test_a_refused_configuration_is_seen() -> None:
    families = scraped()
    assert value(families, "kubeshare_config_last_reload_successful") == 0
    assert value(families, "kubeshare_config_reloads_total", result="refused") == 1


def test_a_metric_that_nobody_described_is_refused() -> None:
    with pytest.raises(KeyError, match="kubeshare_surprise"):
        page({"kubeshare_surprise": {(): 1}})


def cards_page(*portions: CardFigures) -> bytes:
    made = CardPage()
    for portion in portions:
        made.add(portion)
    return b"".join(made.chunks())


def test_each_card_is_told_with_its_labels() -> None:
    families = parsed(cards_page(CARDS))
    first = {"node": "a", "uuid": "GPU-1", "model": "A100"}
    odd = {"node": "b", "uuid": 'odd"\\\n', "model": ""}
    assert value(families, "kubeshare_card_allocated_milli", **first) == 300
    assert value(families, "kubeshare_card_capacity_bytes", **first) == 40 * 2**30
    assert value(families, "kubeshare_card_allocated_milli", **odd) == 500
    assert value(families, "kubeshare_card_healthy", **odd) == 0
    assert families.keys() == {metric.name for metric in CARD_METRICS}


def test_portions_of_cards_stay_together_by_metric() -> None:
    other = CardFigures(
        nodes=["c"],
        uuids=["GPU-9"],
        models=["T4"],
        capacity_milli=[1000],
        capacity_bytes=[1],
        memory_scaling=[2000],
        allocated_milli=[0],
        allocated_bytes=[0],
        tenants=[0],
        healthy=[1],
    )
    families = parsed(cards_page(CARDS, other))  # refuses a metric that comes twice
    scaled = families.pop("kubeshare_card_memory_scaling")
    assert [sample.value for sample in scaled.samples] == [1.5, 2.0]
    assert {len(family.samples) for family in families.values()} == {3}
    assert cards_page() == b""


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_names_follow_prometheus_rules(metric: Metric) -> None:
    # What `promtool check metrics` finds: https://prometheus.io/docs/practices/naming/
    assert re.fullmatch(r"(scheduler|kubeshare|rest_client|leader_election)(_[a-z]+)+", metric.name)
    assert metric.help.endswith(".")
    assert (metric.kind == "counter") == metric.name.endswith("_total")
    # Of `…_build_info`, `info` is part of the name that all programs use.
    about = metric.name.removesuffix("_build_info")
    assert not re.search(r"_(milliseconds|ms|minutes|mib|kb|percent|info|count|sum)$", about)
    assert not re.search("gauge|counter|histogram", metric.name)
    assert not {"le", "quantile", "job", "instance"} & {*metric.labels}
    if metric.kind == "histogram":
        assert metric.name.endswith(("_seconds", "_attempts", "_victims"))


def test_everything_described_is_told() -> None:
    busy_pods = PodFigures(unschedulable_by=(("GpuFit", PROFILE, 1),))
    told = scraped(pods=busy_pods).keys() | parsed(cards_page(CARDS)).keys()
    told |= parsed(held_text({("ml", "A100"): HeldSeconds(1.0, 2.0)})).keys()
    assert told == {metric.name for metric in CATALOGUE}


def test_a_value_at_a_bound_is_within_it() -> None:
    distribution = Distribution((1.0, 2.0))
    distribution.observe(1.0)
    distribution.observe(1.5, 2)
    distribution.observe(9.0)
    assert list(distribution.buckets()) == [("1", 1), ("2", 3), ("+Inf", 4)]
    assert (distribution.count, distribution.total) == (4, 13.0)


# --- docs/operations.md says of each metric what the code says ------------------------------------


PAGE = (Path(__file__).parents[2] / "docs/operations.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_table_of_metrics_is_that_of_the_code() -> None:
    shown = [line for line in section("Metrics").splitlines() if line.startswith("| `")]
    assert shown == [
        f"| `{one.name}` | {one.kind} | {', '.join(one.labels)} | {one.help} |" for one in CATALOGUE
    ]


def test_everything_on_the_page_is_named_there() -> None:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    library = {sample.name for family in registry.collect() for sample in family.samples}
    assert len(library) > 5
    assert library <= set(re.findall(r"`([a-z_]+)`", section("Metrics")))
