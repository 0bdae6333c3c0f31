"""Pods of every predecessor, as their READMEs write them, all at once in the demo's cluster.

The files of `first_day/` are applied as they are, in a namespace without labels.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import yaml

from kubeshare_plugins import IN_TREE
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.embedded_cluster.controllers.unstructured import UnstructuredObject
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster
from kubeshare_py.embedded_cluster.serving.demo_files import find, read_nodes
from tests.dialects import vendor_formats
from tests.stories.conftest import PODS, Json, Stage, annotations, bound, card
from tests.stories.observer import Observer
from tests.stories.share_pods import SHARE_PODS, amounts, share_pod

MANIFESTS = sorted((Path(__file__).parent / "first_day").glob("*.yaml"))
A100, T4 = "NVIDIA-A100-SXM4-40GB", "Tesla-T4"
#: How many pods of the files are placed, and the one whose scheduler does not run here.
EXPECTED, ELSEWHERE = 24, "elsewhere"


@pytest.fixture
async def demo(tmp_path: Path) -> AsyncIterator[Stage]:
    """The demo without its sample workloads."""
    nodes = read_nodes(None)
    observer = Observer(nodes)
    configuration = configuration_file.load(str(find("demo-scheduler.yaml")))
    async with demo_cluster(tmp_path, nodes, configuration, IN_TREE) as (cluster, _):
        stage = Stage(cluster, nodes, tmp_path, observer)
        yield stage
        found = await cluster.client.list_all(PODS)
        observer.listed(msgspec.convert(found, list[UnstructuredObject]))
    assert not observer.problems


async def placed(stage: Stage) -> dict[str, Json]:
    """Apply all files; the pods by the name before their random end, once all are bound."""
    for file in MANIFESTS:
        for document in yaml.safe_load_all(file.read_text()):
            await stage.cluster.apply(document)
    pods = await stage.expect_all(lambda found: len(bound(found)) == EXPECTED)
    return {pod["metadata"]["name"]: pod for pod in pods}


def models(stage: Stage, pod: Json) -> set[str]:
    known = {str(card.uuid): card.model for node in stage.nodes for card in node.cards}
    uuids = annotations(pod)["sharedgpu/gpu_uuid"].split(",")
    return {known[uuid] for uuid in uuids}


def of(pods: dict[str, Json], prefix: str) -> list[Json]:
    return [pod for name, pod in pods.items() if name.startswith(f"{prefix}-")]


async def test_all_of_them_run_unchanged(demo: Stage) -> None:
    pods = await placed(demo)
    assert [name for name, pod in pods.items() if not pod["spec"].get("nodeName")] == [ELSEWHERE]
    assert pods[ELSEWHERE].get("status", {}).get("conditions", []) == []
    # KubeShare 2.0: a pod and a Job.
    assert models(demo, pods["digits"]) == {T4}
    assert len(of(pods, "words")) == 5
    # gpushare: 2 GiB each, on one card.
    told = [vendor_formats.gpushare_first(annotations(pod)) for pod in of(pods, "packed")]
    assert [one[1] for one in told if one] == [2] * 3
    assert len({card(pod) for pod in of(pods, "packed")}) == 1
    # nano-gpu, and its later spellings.
    for pod in of(pods, "twenty"):
        [[index]] = nano(pod, "nano-gpu.io", "cuda").values()
        assert index in range(8)
    for name, prefix in (
        ("older-nano", "nano-gpu"),
        ("older-elastic", "elastic-gpu"),
        ("elastic", "elasticgpu.io"),
    ):
        assert nano(pods[name], prefix, "main")["main"]
    # HAMi and 4paradigm's.
    [two] = hami(pods["two-vgpus"])
    assert [(mib, cores) for _, mib, cores in two] == [(3000, 30)] * 2
    assert T4 not in models(demo, pods["not-on-t4"])
    assert models(demo, pods["only-on-t4"]) == {T4}
    # A whole card, by whichever system.
    [[(uuid, _, cores)]] = hami(pods["whole"])
    assert cores == 100
    assert [name for name, pod in pods.items() if uuid in card(pod)] == ["whole"]
    # Of no predecessor.
    assert len(of(pods, "pair")) == 2
    for pod in of(pods, "web"):
        assert pod["spec"]["schedulerName"] == "default-scheduler"
        assert not card(pod)


@pytest.mark.slow
async def test_two_share_pods_share_the_gpu_that_the_second_one_names(demo: Stage) -> None:
    """The GPUID story of KubeShare 1.0's README."""
    await demo.client.create(SHARE_PODS, share_pod("first", amounts("0.4")))
    first = await demo.expect_running("first")
    name = annotations(first)["kubeshare/GPUID"]
    await demo.client.create(SHARE_PODS, share_pod("second", amounts("0.4", GPUID=name)))
    second = await demo.expect_running("second")
    assert card(first) == card(second) != ""


@pytest.mark.slow
async def test_whole_cards_go_to_nodes_of_either_owner_of_the_name(demo: Stage) -> None:
    """rtx-1 has NVIDIA's whole cards; the others have slices, which are HAMi's."""
    for number, room in enumerate(("room-c", "room-a")):
        await demo.client.create(PODS, gpu_pod(f"whole-{number}", room, {"nvidia.com/gpu": 1}))
        pod = await demo.expect_running(f"whole-{number}")
        assert pod["spec"]["nodeName"] == ("rtx-1", "a100-1")[number]
        [[(_, _, cores)]] = hami(pod)
        assert cores == 100
    share = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 1000}
    await demo.client.create(PODS, gpu_pod("part", "room-c", share))
    assert "Insufficient nvidia.com/gpu of hami" in await demo.expect_waiting("part")


def gpu_pod(name: str, room: str, limits: dict[str, int]) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"limits": limits}}
    selector = {"topology.kubernetes.io/zone": room}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"nodeSelector": selector, "containers": [container]},
    }


def nano(pod: Json, prefix: str, container: str) -> dict[str, list[int]]:
    labels = pod["metadata"].get("labels", {})
    found = vendor_formats.nano(annotations(pod), labels, prefix, [container])
    assert found is not None
    return found


def hami(pod: Json) -> list[list[tuple[str, int, int]]]:
    return vendor_formats.hami_done(annotations(pod), pod["spec"]["nodeName"])
