"""Pods with the annotations of KubeShare 1.0's SharePods: its README and samples, over HTTP."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.dialects.sharepod.dialect import SharePods
from kubeshare_py.domain.isolation import IsolationBackend, IsolationChoice
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.nodes.environment import pod_environment
from kubeshare_py.embedded_cluster.protocol.mutation import environment
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


@pytest.fixture
def nodes() -> str:
    return """
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
    """kubeshare.md I.65 and doc/yaml/sharepod1.yaml to sharepod4.yaml."""
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


async def test_a_gpuid_puts_pods_on_one_card_before_and_after_a_restart(
    empty_stage: Stage,
) -> None:
    """kubeshare.md I.71: the third one waits, and runs when there is room."""
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
    """kubeshare.md I.70."""
    stage = empty_stage
    async with stage.scheduler(dialects=DIALECTS):
        await create(stage, "a", gpu_mem="")
        await stage.expect_waiting("a", "kubeshare/gpu_mem is missing")
