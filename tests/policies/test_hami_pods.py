"""What HAMi's webhook did to pods, by policy and by webhook on a real API server."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kubeshare_py.admission.review import NO_CONTAINERS
from kubeshare_py.edges.kube.client import KubeClient
from tests.admission.hami_pods import CASES, CORES, GPU, MEM, PRIORITY, Json, a_pod
from tests.controlplane.running import ControlPlane
from tests.policies.opted_in import (
    HAMI,
    PLAIN_POLICY,
    PLAIN_WEBHOOK,
    POLICY,
    WEBHOOK,
    administrator,
    installed,
    stored,
)

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")


@pytest.fixture(scope="module")
def opted_in(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    with installed(plane, tmp_path_factory.mktemp("hami")) as found:
        yield found


@pytest.fixture
async def admin(opted_in: ControlPlane, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with administrator(opted_in, tmp_path) as client:
        yield client


def containers(spec: Json) -> list[Json]:
    return [*spec["containers"], *spec.get("initContainers", ())]


def priority(container: Json) -> str:
    env: dict[str, str] = {one["name"]: one.get("value", "") for one in container.get("env", ())}
    return env.get("CUDA_TASK_PRIORITY", "")


async def test_policy_and_webhook_do_what_hamis_webhook_did(admin: KubeClient) -> None:
    """The same table of pods goes through both."""
    for name, case in CASES.items():
        pod = case.pod
        pod["spec"]["schedulerName"] = HAMI
        made = [await stored(admin, pod, namespace) for namespace in (POLICY, WEBHOOK)]
        for one in made:
            if case.refused:
                assert isinstance(one, str), name
                # That a pod of ours names its node is refused by the guard of environments too.
                assert case.refused in one or "names its node itself" in one, name
                continue
            assert not isinstance(one, str), (name, one)
            found = containers(one)
            limits = [each.get("resources", {}).get("limits", {}) for each in found]
            assert limits == case.limits, name
            # Kubernetes sets requests by limits, of what was added too.
            assert [each.get("resources", {}).get("requests", {}) for each in found] == limits
            assert [priority(each) for each in found] == [*case.priorities], name
        if not case.refused:
            assert made[0] == made[1], name


async def test_h16_memory_alone_makes_a_pod_ours_and_gets_a_count(admin: KubeClient) -> None:
    """In whichever order the policies run, and only where the namespace opted in."""
    pod = a_pod({MEM: "3k", PRIORITY: "1k"})
    for namespace in (POLICY, WEBHOOK) * 5:
        made = await stored(admin, pod, namespace)
        assert not isinstance(made, str), made
        assert made["schedulerName"] == HAMI
        [one] = containers(made)
        assert one["resources"]["limits"] == {GPU: "1", MEM: "3k", PRIORITY: "1k"}
        assert priority(one) == "1000"
    for namespace in (PLAIN_POLICY, PLAIN_WEBHOOK):
        made = await stored(admin, pod, namespace)
        assert not isinstance(made, str), made
        assert made["schedulerName"] == "default-scheduler"
        assert GPU not in containers(made)[0]["resources"]["limits"]


async def test_h19_pods_of_other_schedulers_and_dialects_stay_as_they_are(
    admin: KubeClient,
) -> None:
    for scheduler in ("my-sched", "kubeshare-scheduler"):
        pod = a_pod({GPU: 1}, {CORES: 30}, schedulerName=scheduler)
        for namespace in (POLICY, WEBHOOK):
            made = await stored(admin, pod, namespace)
            assert not isinstance(made, str), made
            limits = [one["resources"]["limits"] for one in containers(made)]
            assert limits == [{GPU: "1"}, {CORES: "30"}]


async def test_the_dialect_nvidia_gives_way_to_hami_and_to_labels(admin: KubeClient) -> None:
    """Its profile enables all three: `nvidia.com/gpu` is HAMi's, unless labels ask for a share."""
    share = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
    for namespace in (POLICY, WEBHOOK):
        made = await stored(admin, a_pod({GPU: 1}, schedulerName=HAMI), namespace)
        assert not isinstance(made, str), made
        assert containers(made)[0]["resources"]["limits"] == {GPU: "1", CORES: "100"}
        said = await stored(admin, a_pod({GPU: 1}, labels=share, schedulerName=HAMI), namespace)
        # Of the other two, neither gives way.
        assert said == (
            f"sharedgpu/gpu_limit asks in dialect sharedgpu, and resources[{GPU}] in dialect hami:"
            " a pod can only use one dialect"
        )


async def test_a_priority_of_the_containers_own_stays(admin: KubeClient) -> None:
    """`CUDA_TASK_PRIORITY` is only added where the container does not set it."""
    pod = a_pod({GPU: 1, MEM: 1, PRIORITY: 1}, schedulerName=HAMI)
    pod["spec"]["containers"][0]["env"] = [{"name": "CUDA_TASK_PRIORITY", "value": "7"}]
    for namespace in (POLICY, WEBHOOK):
        made = await stored(admin, pod, namespace)
        assert not isinstance(made, str), made
        assert priority(containers(made)[0]) == "7"


async def test_a_pod_without_containers_is_refused(admin: KubeClient) -> None:
    """Where policies do it, the API server's own check comes before them."""
    pod = a_pod(schedulerName=HAMI)
    assert "spec.containers: Required value" in await stored(admin, pod, POLICY)
    assert await stored(admin, pod, WEBHOOK) == NO_CONTAINERS
