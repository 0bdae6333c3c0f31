"""The annotations of KubeShare 1.0's SharePods: its README and samples, on pods and SharePods."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod import SharePods
from kubeshare_py.domain.card_reading import IsolationBackend, IsolationChoice
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.container_runtime import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from tests.stories import share_pods
from tests.stories.conftest import PODS, Json, Stage, annotations

DIALECTS = Dialects({"kubeshare-scheduler": (SHAREDGPU, SharePods())})
CHOICES = {"kubeshare-scheduler": IsolationChoice((IsolationBackend.NONE,))}
GPUID, UUID = "kubeshare/GPUID", "sharedgpu/gpu_uuid"
#: doc/yaml/sharepod1.yaml of release-1.0.
SAMPLE = {
    "kubeshare/gpu_request": "0.5",
    "kubeshare/gpu_limit": "1.0",
    "kubeshare/gpu_mem": "3145728000",
}
CLUSTER = """
nodes:
  - name: n1
    gpus: [{model: Tesla-T4, count: 2, memory: 16GiB}]
  - name: n2
    gpus: [{model: Tesla-T4, count: 2, memory: 16GiB}]
"""


def a_pod(name: str, **changed: str) -> Json:
    """As the controller makes it of the sample, and admission changes it."""
    own = {f"kubeshare/{key}": text for key, text in changed.items()}
    spec = {
        "schedulerName": "kubeshare-scheduler",
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "cuda", "image": "nvidia/cuda:9.0-base"}],
    }
    meta = {"name": name, "annotations": SAMPLE | own}
    pod: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    return environment(CHOICES, DIALECTS)(pod, {})


async def create(stage: Stage, name: str, **changed: str) -> None:
    await stage.client.create(PODS, a_pod(name, **changed))


async def given(stage: Stage, name: str) -> tuple[str, str]:
    """GPUID and card of a pod, once it runs."""
    found = annotations(await stage.expect_running(name))
    return found[GPUID], found[UUID]


async def test_the_samples_share_cards_and_name_them(empty_stage: Stage) -> None:
    """The samples are KubeShare 1.0's doc/yaml/sharepod1.yaml to sharepod4.yaml."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS):
        places = []
        for number in range(1, 5):
            await create(stage, f"sharepod{number}")
            places.append(await given(stage, f"sharepod{number}"))
        assert places[0] == places[1]
        assert places[2] == places[3]
        assert len({gpuid for gpuid, _ in places}) == len({uuid for _, uuid in places}) == 2
        assert all(len(gpuid) == 5 and gpuid.isalpha() for gpuid, _ in places)
        pod = await stage.pod("sharepod1")
        seen = pod_environment(msgspec.convert(pod, UnstructuredObject), "", "")
        assert seen["cuda"]["NVIDIA_VISIBLE_DEVICES"] == places[0][1]


@pytest.mark.slow
async def test_a_gpuid_puts_pods_on_one_card_before_and_after_a_restart(
    empty_stage: Stage,
) -> None:
    """The third one waits, and runs when there is room."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS):
        await create(stage, "a", GPUID="abcde")
        first = await given(stage, "a")
        assert first[0] == "abcde"
    async with stage.scheduler(dialects=DIALECTS):
        await create(stage, "b", GPUID="abcde")
        assert await given(stage, "b") == first
        await create(stage, "c", GPUID="abcde")
        await stage.expect_waiting("c", "Insufficient GPU")
        await stage.expect_deleted("a")
        assert await given(stage, "c") == first


async def test_a_pod_without_all_amounts_says_which_is_missing(empty_stage: Stage) -> None:
    """Request, limit and memory belong together."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS):
        await create(stage, "a", gpu_mem="")
        await stage.expect_waiting("a", "kubeshare/gpu_mem is missing")


@pytest.fixture
async def shared(empty_stage: Stage) -> AsyncIterator[Stage]:
    """A cluster with SharePods, their controller, and a scheduler."""
    await share_pods.define(empty_stage)
    async with (
        empty_stage.scheduler(dialects=DIALECTS),
        share_pods.controller_of(empty_stage),
    ):
        yield empty_stage


async def shown(stage: Stage, name: str, request: str, **more: str) -> tuple[str, str]:
    """GPUID and card that a new SharePod shows, once it runs."""
    await share_pods.create(stage, name, share_pods.amounts(request, **more))
    share = await share_pods.expect(
        stage,
        name,
        lambda one: share_pods.phase(one) == "Running" and GPUID in annotations(one),
    )
    return annotations(share)[GPUID], share["status"]["BoundDeviceID"]


@pytest.mark.slow
async def test_share_pods_of_an_affinity_join_their_like_or_open_a_card(shared: Stage) -> None:
    """From SharePod to card."""
    stage, red = shared, {"sched_affinity": "red"}
    plain = await shown(stage, "plain", "0.1")
    first = await shown(stage, "first", "0.5", **red)
    assert await shown(stage, "joins", "0.4", **red) == first
    second = await shown(stage, "opens", "0.4", **red)
    third = await shown(stage, "opens-another", "0.9", **red)
    places = (plain, first, second, third)
    assert len({gpuid for gpuid, _ in places}) == len({uuid for _, uuid in places}) == 4
    # Only the card without the tag has as much left.
    await share_pods.create(stage, "waits", share_pods.amounts("0.7", **red))
    await stage.expect_waiting("waits", "Insufficient GPU")
    assert await shown(stage, "plain-too", "0.7") == plain


@pytest.mark.slow
async def test_share_pods_of_an_anti_affinity_never_share_a_card(shared: Stage) -> None:
    """From SharePod to card."""
    stage, green = shared, {"sched_anti_affinity": "green"}
    places = [await shown(stage, f"green-{number}", "0.1", **green) for number in range(4)]
    assert len({uuid for _, uuid in places}) == 4
    await share_pods.create(stage, "green-4", share_pods.amounts("0.1", **green))
    await stage.expect_waiting("green-4", "anti-affinity tag")
    assert await shown(stage, "plain", "0.1") in places
