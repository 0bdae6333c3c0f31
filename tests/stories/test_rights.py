"""The role that is shipped has what the scheduler asks for, and nothing that it never asks for.

That the API server reads it as we do, every story on a real one says: none may see a 403.
"""

from dataclasses import dataclass
from http import HTTPStatus

import pytest

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.embedded_cluster.controllers.provisioning import PROVISIONER
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER, Fault
from tests.controlplane.cleaning import ship_lease
from tests.controlplane.shipped import IDENTITY, shipped
from tests.each import each
from tests.edges.collector_place import Place, serving
from tests.stories.conftest import EVENTS, PODS, Json, Stage, gpu
from tests.stories.gang_pods import gang
from tests.stories.rights import Right, asked_for, granted
from tests.stories.scheduler_port import port_of
from tests.stories.scraping import auto_of, scrape_of, start_collector
from tests.stories.test_device_claims import DEVICES, DRIVER, a_claim, a_claiming_pod
from tests.stories.test_spread import BY_DEFAULT
from tests.stories.test_volumes import (
    NO_PROVISIONER,
    VOLUMES,
    a_class,
    a_waiting_claim,
    mounting,
)


@dataclass(slots=True, kw_only=True)
class NoStreaming(Fault):
    """As a server that cannot begin a watch with the list, towards the scheduler."""

    method: str = "GET"
    path: str = ""
    status: int = HTTPStatus.UNPROCESSABLE_ENTITY
    times: int = 100

    def matches(self, request: ApiRequest) -> bool:
        return request.user.name == SCHEDULER and "sendInitialEvents" in request.query


async def do_everything(stage: Stage, settings: Json) -> None:
    """Have a scheduler place a pod, tell another one twice why it waits, and ask who may look."""
    await ship_lease(stage.client)
    stage.faults.inject(NoStreaming())
    async with stage.scheduler({**BY_DEFAULT, **settings, "gangRepairSeconds": 1}):
        await stage.warm_up()
        await stage.create("big", gpu("9", "9"))
        await stage.expect_waiting("big")
        await stage.expect_all(lambda found: any(about_big(one) for one in found), EVENTS)
        labels = {"metadata": {"labels": {"sharedgpu/priority": "7"}}}
        await stage.client.merge_patch(f"{PODS}/big", labels)
        await stage.expect_all(lambda found: any("series" in one for one in found), EVENTS)
        await have_a_gang_given_up(stage)
        await have_volumes(stage)
        await have_a_device(stage)
        status, _ = await (await port_of(stage, SCHEDULER)).fetch("/metrics")
        assert status == HTTPStatus.FORBIDDEN


async def have_a_gang_given_up(stage: Stage) -> None:
    """One member of two cannot be bound."""
    stage.spoil(method="POST", path="/m1/binding$", status=400, reason="BadRequest", times=100)
    for name in ("m0", "m1"):
        await stage.create(name, gang("g", 2, request="0.1"))
    await stage.expect_all(lambda pods: "m0" not in {pod["metadata"]["name"] for pod in pods})


async def have_volumes(stage: Stage) -> None:
    """A volume is made for one claim, and another claim gets the only one that is there."""
    await a_class(stage, "made", PROVISIONER)
    await a_class(stage, "local", NO_PROVISIONER)
    spec: Json = {
        "capacity": {"storage": "5Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/data"},
        "storageClassName": "local",
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}}
    await stage.client.create(VOLUMES, {**body, "spec": spec})
    for name in ("made", "local"):
        await a_waiting_claim(stage, name, name)
        await stage.create(name, gpu("0.1"), volumes=mounting(name))
        await stage.expect_running(name)


async def have_a_device(stage: Stage) -> None:
    """A device, which is no card, is allocated to a claim."""
    node = stage.nodes[0].name
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    described: Json = {"driver": "nic.example.com", "nodeName": node, "pool": pool}
    for path, kind, spec in (
        ("deviceclasses", "DeviceClass", {}),
        ("resourceslices", "ResourceSlice", {**described, "devices": [{"name": "nic-0"}]}),
    ):
        body = {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": DRIVER}}
        await stage.client.create(f"{DEVICES}/{path}", {**body, "spec": spec})
    await a_claim(stage, "nic")
    await a_claiming_pod(stage, "with-device", resourceClaimName="nic")
    await stage.expect_running("with-device")


def about_big(event: Json) -> bool:
    return bool(event["regarding"]["name"] == "big")


def asked(stage: Stage) -> set[Right]:
    """All that the scheduler asked for so far."""
    return {asked_for(one) for one in stage.requests if one.user.name == SCHEDULER}


@pytest.mark.slow
async def test_it_asks_for_everything_that_it_may_and_for_nothing_else(empty_stage: Stage) -> None:
    place = Place(empty_stage.nodes, {"127.0.0.2": NodeName("n1")})
    async with serving(place):
        await start_collector(empty_stage, "n1", "127.0.0.2")
        settings = {**auto_of(place), "leaderElection": {"leaderElect": True}}
        await do_everything(empty_stage, settings)
    rights, found = granted(shipped(*IDENTITY), SCHEDULER), each(asked(empty_stage))
    assert [one for one in sorted(found) if not any(own.covers(one) for own in rights)] == []
    unasked = [own for own in sorted(rights) if not any(own.covers(one) for one in found)]
    # kube-apiserver asks for this right when the status of a claim is written; it has no path.
    assert [own for own in unasked if own.resource != "resourceclaims/binding"] == []


@pytest.mark.slow
async def test_without_an_election_the_role_is_enough(empty_stage: Stage) -> None:
    await do_everything(empty_stage, {"leaderElection": {"leaderElect": False}})
    rights = granted(shipped(*IDENTITY), SCHEDULER)
    assert all(any(own.covers(one) for own in rights) for one in each(asked(empty_stage)))


@pytest.mark.slow
async def test_to_find_collectors_the_right_to_see_pods_is_enough(empty_stage: Stage) -> None:
    place = Place(empty_stage.nodes, {"127.0.0.2": NodeName("n1")})
    await ship_lease(empty_stage.client)
    empty_stage.faults.inject(NoStreaming())
    async with serving(place), empty_stage.scheduler(scrape_of(place)):
        await start_collector(empty_stage, "n1", "127.0.0.2")
        await empty_stage.warm_up()
    rights = granted(shipped(*IDENTITY), SCHEDULER)
    assert all(any(own.covers(one) for own in rights) for one in each(asked(empty_stage)))
