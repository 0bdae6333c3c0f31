"""The simulated collectors through Prometheus' API, without a network."""

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.nodes.collectors import (
    Collectors,
    PrometheusAnswer,
    query,
    query_range,
    series_list,
)
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster

A, CPU = NodeName("a-1"), NodeName("cpu")


@pytest.fixture
def collectors() -> Collectors:
    return Collectors(
        read_cluster("""
nodes:
  - {name: "a-{n}", count: 2, gpus: [{model: T4, memory: 1GiB, count: 2}]}
  - {name: cpu}
""")
    )


def uuids(answer: PrometheusAnswer) -> list[str]:
    return [found["metric"]["uuid"] for found in answer.body["data"]["result"]]


def test_an_instant_vector_has_labels_of_target_and_exporter(collectors: Collectors) -> None:
    answer = query('gpu_capacity{node="a-2",index="1"}', collectors.series(100.5), 100.5)
    (found,) = answer.body["data"]["result"]
    assert answer.status == 200
    assert answer.body["data"]["resultType"] == "vector"
    assert found["value"] == [100.5, "100"]
    assert {**found["metric"], "uuid": ""} == {
        "__name__": "gpu_capacity",
        "job": "kubeshare-collector",
        "instance": "a-2:9004",
        "node": "a-2",
        "uuid": "",
        "model": "T4",
        "memory": "1073741824",
        "index": "1",
    }


def test_a_removed_card_is_missing_while_its_collector_is_up(collectors: Collectors) -> None:
    gone = collectors.remove_card(A, 0)
    assert gone not in uuids(query("gpu_capacity", collectors.series(1), 1))
    assert up(collectors) == {"a-1:9004": "1", "a-2:9004": "1"}
    assert collectors.restore_card(A, 0) == gone
    assert gone in uuids(query("gpu_capacity", collectors.series(1), 1))


def test_a_collector_that_is_down_has_up_0_and_no_cards(collectors: Collectors) -> None:
    collectors.take_down(A)
    assert up(collectors) == {"a-1:9004": "0", "a-2:9004": "1"}
    assert len(uuids(query("gpu_capacity", collectors.series(1), 1))) == 2
    collectors.stop_scraping(A)
    assert up(collectors) == {"a-2:9004": "1"}
    collectors.bring_up(A)
    assert up(collectors) == {"a-1:9004": "1", "a-2:9004": "1"}


def test_a_node_without_cards_has_no_collector(collectors: Collectors) -> None:
    assert collectors.page(CPU, 1) is None
    for act in (collectors.take_down, collectors.stop_scraping, collectors.bring_up):
        with pytest.raises(LookupError):
            act(CPU)
    with pytest.raises(LookupError):
        collectors.remove_card(CPU, 0)


@pytest.mark.parametrize("text", [None, "", "gpu_capacity{", "sum(up)"])
def test_a_bad_query_is_refused_as_prometheus_does(
    collectors: Collectors, text: str | None
) -> None:
    answer = query(text, collectors.series(1), 1)
    assert (answer.status, answer.body["status"], answer.body["errorType"]) == (
        400,
        "error",
        "bad_data",
    )
    assert answer.body["error"].startswith('invalid parameter "query": 1:')


def test_series_are_listed_by_any_of_several_selectors(collectors: Collectors) -> None:
    texts = ['up{instance="a-1:9004"}', 'gpu_capacity{node="a-2"}']
    listed = series_list(texts, collectors.series(1)).body["data"]
    assert [found["__name__"] for found in listed] == ["up", "gpu_capacity", "gpu_capacity"]
    assert series_list([], []).body["error"] == "no match[] parameter provided"


def test_a_range_has_a_value_at_every_step(collectors: Collectors) -> None:
    answer = query_range('up{instance="a-1:9004"}', ("10", "20", "5s"), collectors.series(1))
    (found,) = answer.body["data"]["result"]
    assert found["values"] == [[10.0, "1"], [15.0, "1"], [20.0, "1"]]


@pytest.mark.parametrize(
    ("times", "problem"),
    [
        (("x", "1", "1"), 'invalid parameter "start"'),
        (("1", "2", "0"), 'invalid parameter "step"'),
        (("2", "1", "1"), 'invalid parameter "end"'),
        (("0", "1000000", "1"), "exceeded maximum resolution"),
    ],
)
def test_a_bad_range_is_refused(times: tuple[str, str, str], problem: str) -> None:
    answer = query_range("up", times, [])
    assert answer.status == 400
    assert answer.body["error"].startswith(problem)


def up(collectors: Collectors) -> dict[str, str]:
    found = query('up{job="kubeshare-collector"}', collectors.series(1), 1).body["data"]["result"]
    return {one["metric"]["instance"]: one["value"][1] for one in found}
