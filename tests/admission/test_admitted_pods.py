"""What HAMi's webhook did to pods, done to pods of the dialect `hami`."""

import base64
import json
from collections.abc import Iterator

import jsonpatch
import pytest

from kubeshare_py.admission.dialect_pods import IGNORING, LABEL, OptIn, taken_resources
from kubeshare_py.admission.review import NO_CONTAINERS, Rules
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from tests.admission.hami_pods import (
    CASES,
    CORES,
    GPU,
    MEM,
    PERCENT,
    PRIORITY,
    Limits,
    a_pod,
    privileged,
)
from tests.admission.patched import Json, answered, env_of, review

OURS = "hami-scheduler"


def rules(**settings: object) -> Rules:
    dialects = Dialects({OURS: (SHAREDGPU, Hami(**settings))})
    choices = {OURS: IsolationChoice((IsolationBackend.NONE,))}
    taken = taken_resources(dialects, choices, contested=True)
    return Rules(choices=choices, dialects=dialects, taken=taken)


def admitted(pod: Json, **settings: object) -> Json:
    """What becomes of it."""
    response = answered(review(pod), rules(**settings))
    assert response["allowed"], response
    if "patch" not in response:
        return pod
    changed: Json = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    return changed


def refused(pod: Json, **settings: object) -> str:
    response = answered(review(pod), rules(**settings))
    assert not response["allowed"]
    message: str = response["status"]["message"]
    return message


def containers(pod: Json) -> Iterator[tuple[dict[str, str], str]]:
    """The limits of each container, and its priority."""
    for kind in ("containers", "initContainers"):
        for at, one in enumerate(pod["spec"].get(kind, ())):
            env = env_of(pod, kind, at)
            yield one["resources"]["limits"], env.get("CUDA_TASK_PRIORITY", "")


def limits_of(pod: Json, index: int = 0) -> dict[str, str]:
    found: dict[str, str] = pod["spec"]["containers"][index]["resources"]["limits"]
    return found


def test_h14_a_pod_with_memory_becomes_ours_and_its_cores_stay_absent() -> None:
    made = admitted(a_pod({GPU: 1, MEM: 3000}))
    assert made["spec"]["schedulerName"] == OURS
    assert limits_of(made) == {GPU: "1", MEM: "3000"}


@pytest.mark.parametrize("extra", [{}, {PERCENT: 100}])
def test_h15_a_pod_without_memory_gets_all_cores_of_its_cards(extra: Limits) -> None:
    """A count without cores or a part of the memory gets 100 cores, in the limits alone."""
    made = admitted(a_pod({GPU: 1, **extra}))
    assert limits_of(made)[CORES] == "100"
    assert CORES not in limits_of(admitted(a_pod({GPU: 1, PERCENT: 50})))
    assert limits_of(admitted(a_pod({GPU: 1, CORES: 0})))[CORES] == "0"


def test_h16_memory_alone_gets_the_default_count() -> None:
    made = admitted(a_pod({MEM: 3000}))
    assert limits_of(made) == {GPU: "1", MEM: "3000"}
    assert limits_of(admitted(a_pod({CORES: 30}), default_gpu_num=2))[GPU] == "2"


def test_h16_without_a_default_count_the_scheduler_says_what_is_missing() -> None:
    assert "asks for a part of cards, and not for how many" in refused(
        a_pod({MEM: 3000}), default_gpu_num=0
    )


def test_h16_4paradigms_profile_adds_no_count() -> None:
    assert GPU not in limits_of(a_pod({MEM: 3000}))
    assert limits_of(admitted(a_pod({GPU: 1}), profile="4paradigm")) == {GPU: "1"}


def test_h17_each_container_gets_its_own_priority() -> None:
    made = admitted(a_pod({GPU: 1, MEM: 1, PRIORITY: 1}, {GPU: 1, MEM: 1, PRIORITY: 0}, {}))
    assert [env_of(made, index=at).get("CUDA_TASK_PRIORITY") for at in range(3)] == ["1", "0", None]


def test_h17_a_priority_of_the_pods_own_stays() -> None:
    pod = a_pod({GPU: 1, MEM: 1, PRIORITY: 1})
    pod["spec"]["containers"][0]["env"] = [{"name": "CUDA_TASK_PRIORITY", "value": "7"}]
    assert env_of(admitted(pod))["CUDA_TASK_PRIORITY"] == "7"


@pytest.mark.parametrize(
    ("named", "becomes"),
    [("my-sched", "my-sched"), ("default-scheduler", OURS), (OURS, OURS)],
)
def test_h19_pods_of_other_schedulers_stay_as_they_are(named: str, becomes: str) -> None:
    pod = a_pod({GPU: 1}, schedulerName=named)
    made = admitted(pod)
    assert made["spec"]["schedulerName"] == becomes
    assert (made == pod) == (named == becomes != OURS)


def test_h20_a_pod_that_asks_and_names_its_node_is_refused() -> None:
    said = refused(a_pod({GPU: 1, MEM: 1}, schedulerName=OURS, nodeName="n1"))
    assert "spec.nodeName must be empty" in said
    assert admitted(a_pod({}, schedulerName=OURS, nodeName="n1"))


def test_h21_a_privileged_container_beside_one_that_asks_is_refused_by_name() -> None:
    """HAMi's webhook refuses the whole pod; 4paradigm's left it to the default scheduler."""
    assert "container c1 is privileged" in refused(privileged(a_pod({GPU: 1, MEM: 1}, {}), 1))
    alone = privileged(a_pod({}))
    assert admitted(alone) == alone


@pytest.mark.parametrize("key", IGNORING)
def test_h22_pods_and_namespaces_that_former_webhooks_ignored_are_left_alone(key: str) -> None:
    pod = a_pod({GPU: 1, MEM: 1}, labels={key: "ignore"})
    assert admitted(pod) == pod
    assert admitted(a_pod({GPU: 1, MEM: 1}, labels={key: "no"}))["spec"]["schedulerName"] == OURS
    for opt_in in (OptIn.NAMESPACE, OptIn.ALL):
        assert opt_in.takes({LABEL: "true"})
        assert not opt_in.takes({LABEL: "true", key: "ignore"})


def test_h23_a_container_that_does_not_ask_sees_no_card() -> None:
    """HAMi's overwriteEnv, always on in pods of ours."""
    made = admitted(a_pod({GPU: 1, MEM: 1}, {}))
    assert env_of(made, index=1)["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_pod_without_containers_is_refused() -> None:
    """As HAMi does. Pods of other schedulers are left to the API server, which refuses them."""
    assert refused(a_pod(schedulerName=OURS)) == NO_CONTAINERS
    assert admitted(a_pod(schedulerName="another")) == a_pod(schedulerName="another")


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case.refused])
def test_a_pod_of_the_table_becomes_what_it_says_and_stays_so(name: str) -> None:
    case = CASES[name]
    made = admitted(case.pod)
    assert [*containers(made)] == [*zip(case.limits, case.priorities, strict=True)]
    assert admitted(made) == made


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.refused])
def test_a_pod_of_the_table_is_refused_with_the_sentence(name: str) -> None:
    case = CASES[name]
    assert case.refused in refused(case.pod)
