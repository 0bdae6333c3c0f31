"""KubeShare's gpu_requirement, and the sums of each card."""

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey, PodUid
from kubeshare_py.exporters.gpu_requirement import METRIC, RequiringPod, requirement_page
from kubeshare_py.exporters.metric import Build

X, Y = GpuUuid("GPU-x"), GpuUuid("GPU-y")
BUILD = Build(version="1", python_version="3")


def pod(name: str, allocation: Allocation | None = None, **fields: Any) -> RequiringPod:
    about = {"is_required": True, **fields}
    key = PodKey("ml", name)
    return RequiringPod(
        uid=PodUid(f"uid-{name}"), key=key, node=NodeName("n1"), allocation=allocation, **about
    )


def held(*cards: CardCharge, limit: int = 1000, **fields: Any) -> Allocation:
    isolation = Isolation(IsolationBackend.NONE, limit)
    return Allocation(token=DecisionToken("t"), cards=cards, isolation=isolation, **fields)


def page(*pods: RequiringPod) -> str:
    return requirement_page(pods, 1_700_000_000.9, BUILD)


def required(*pods: RequiringPod) -> list[str]:
    return [line for line in page(*pods).splitlines() if line.startswith("gpu_requirement{")]


def test_a_pod_has_the_labels_of_kubeshare_in_its_order_and_the_time() -> None:
    """Labels as KubeShare's aggregator exports them; the value is the Unix time in seconds."""
    cards = CardCharge(X, 500, 4_255_350_784, "Tesla-V100", "n1/2")
    found = required(pod("a", held(cards, limit=600, port=50051, group="train"), min_available="3"))
    assert found == [
        'gpu_requirement{namespace="ml",pod="a",pod_id="uid-a",node="n1",group_name="train",'
        'min_available="3",limit="0.6",request="0.5",memory="4255350784",cell_id="n1/2",'
        'uuid="GPU-x",port="50051"} 1700000000'
    ]


def test_59_what_a_pod_does_not_have_has_kubeshares_defaults() -> None:
    """The group is `namespace/name`, at least 1 pod of it, the request 0.0, memory and port 0."""
    [found] = required(pod("a"))
    assert 'group_name="ml/a",min_available="1",limit="0.0",request="0.0",memory="0"' in found
    assert 'cell_id="",uuid="",port="0"' in found
    assert required(pod("a", held(CardCharge(X, 500, 1)), is_required=False)) == []


def test_whole_cards_are_together_what_was_asked_for() -> None:
    cards = [CardCharge(uuid, 1000, 2**34, exclusive=True) for uuid in (X, Y)]
    [found] = required(pod("a", held(*cards)))
    assert 'limit="2.0",request="2.0",memory="34359738368"' in found
    assert 'uuid="GPU-x,GPU-y"' in found


def test_a_pod_without_a_limit_may_use_the_whole_card() -> None:
    [found] = required(pod("a", held(CardCharge(X, 500, 1), limit=0)))
    assert 'limit="1.0",request="0.5"' in found


def test_the_sums_of_a_card_are_of_all_pods_that_hold_a_part_of_it() -> None:
    text = page(
        pod("a", held(CardCharge(X, 500, 2**30))),
        pod("b", held(CardCharge(X, 300, 2**30), limit=600), is_required=False),
        pod("c", held(CardCharge(Y, 100, 2**30))),
    )
    of_x = {
        sample.name.removeprefix("kubeshare_aggregator_"): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels == {"node": "n1", "uuid": "GPU-x"}
    }
    assert of_x == {
        "pods": 2,
        "request_ratio": 0.8,
        "limit_ratio": 1.6,
        "memory_bytes": 2**31,
    }


def test_the_type_is_kubeshares_and_odd_texts_are_escaped() -> None:
    text = page(pod("a", min_available='a"b\n'))
    assert f"# TYPE {METRIC.name} counter\n" in text
    assert 'min_available="a\\"b\\n"' in text
    assert "# TYPE gpu_requirement counter" in page()
