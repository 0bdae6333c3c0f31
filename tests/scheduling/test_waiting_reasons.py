"""Autoscalers make nodes for the right pods only: one test for each row of the table in the docs.

docs/compatibility.md, "What autoscalers see".
"""

from typing import Any

import pytest

from kubeshare_plugins import IN_TREE
from kubeshare_py.configuration.scheduler import read
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference
from kubeshare_py.domain.diagnosis import WaitingReason
from kubeshare_py.domain.effects import Bind, Effect, ReportWaiting
from kubeshare_py.domain.events import (
    BindAnswered,
    BindRefused,
    BindSlotsFree,
    InventoryRead,
    NodesListed,
    PodGroupsListed,
    PodSeen,
    PodsListed,
    Refusal,
    TimePassed,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import InvalidRequest
from kubeshare_py.framework.profile_making import profiles
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.scheduling.queue.waiting_limit import QueueRules
from tests.making import (
    a_claim,
    a_cluster,
    a_group,
    a_node,
    a_pod,
    a_shape,
    members,
    some_gpus,
    whole,
)

UNSCHEDULABLE = WaitingReason.UNSCHEDULABLE
ERROR, NOT_READY = WaitingReason.SCHEDULER_ERROR, WaitingReason.NOT_READY
SHARE = a_shape(a_claim(600))


class Odd:
    """A plugin that refuses, or fails."""

    name = "Odd"

    def __init__(self, *, fails: bool = False) -> None:
        self.fails = fails

    def pre_enqueue(self, pod: Pod) -> str | None:
        return self._refusal()

    def permit(self, pod: Pod, node: NodeName) -> str | None:
        return self._refusal()

    def _refusal(self) -> str:
        if self.fails:
            raise ValueError("it is broken")
        return "not now"


class Reported:
    """A machine, and the last report of each pod."""

    def __init__(self, *, cards: int = 1, most: int = 0, at: str = "", fails: bool = False) -> None:
        points = {at: {"enabled": [{"name": "Odd"}]}} if at else {}
        known = {**IN_TREE, "Odd": lambda: Odd(fails=fails)}
        made = profiles(read({"profiles": [{"plugins": points}]}), known)
        self.machine = Machine(made, "test", waiting=QueueRules(most))
        self.now = 0.0
        self.told: dict[str, WaitingReason] = {}
        if cards:
            self.tell(*a_cluster({"n1": cards}))

    def tell(self, *events: Any) -> list[Effect]:
        effects = [one for event in events for one in self.machine.handle(event, self.now)]
        for one in effects:
            if isinstance(one, ReportWaiting):
                self.told[one.key.name] = one.diagnosis.reason
        return effects

    def after(self, *pods: Pod, seconds: float = 60.0) -> dict[str, WaitingReason]:
        """What pods show some time after they were seen."""
        self.tell(*map(PodSeen, pods), BindSlotsFree(64))
        self.now += seconds
        self.tell(TimePassed(), BindSlotsFree(64), TimePassed())
        return self.told


def test_a_pod_that_fits_no_node_is_unschedulable() -> None:
    assert Reported().after(a_pod("p", a_shape(cpu=640_000))) == {"p": UNSCHEDULABLE}
    assert Reported().after(a_pod("g", a_shape(whole(2)))) == {"g": UNSCHEDULABLE}


def test_so_is_one_without_any_node() -> None:
    reported = Reported(cards=0)
    reported.tell(PodsListed((), 0.0), NodesListed(()), InventoryRead(()))
    assert reported.after(a_pod("p")) == {"p": UNSCHEDULABLE}


def test_so_are_the_members_of_a_gang_that_does_not_fit() -> None:
    gang = members(a_group(2), 2)
    assert Reported().after(*gang) == {"g-0": UNSCHEDULABLE, "g-1": UNSCHEDULABLE}


def test_a_pod_with_gates_is_left_to_the_api_server() -> None:
    assert Reported().after(a_pod("p", gates=("wait",))) == {}


def test_a_pod_that_waits_for_the_inventory_is_not_ready() -> None:
    reported = Reported(cards=0)
    reported.tell(PodsListed((), 0.0), NodesListed((a_node("n1"),)))
    gang = members(a_group(2), 2)
    pods = a_pod("p", SHARE), *gang
    assert reported.after(*pods) == dict.fromkeys(("p", "g-0", "g-1"), NOT_READY)
    reported.tell(InventoryRead(((NodeName("n1"), some_gpus("n1", 0)),)))
    assert reported.after() == dict.fromkeys(("p", "g-0", "g-1"), UNSCHEDULABLE)


def test_a_gang_without_enough_members_is_not_ready() -> None:
    assert Reported().after(*members(a_group(3), 2)) == {"g-0": NOT_READY, "g-1": NOT_READY}


def test_a_pod_without_its_pod_group_is_not_ready() -> None:
    reported = Reported()
    reported.tell(PodGroupsListed(GroupApi.COSCHEDULING, ()))
    reference = GroupReference(GroupApi.COSCHEDULING, "g")
    assert reported.after(a_pod("p", group_reference=reference)) == {"p": NOT_READY}


def test_a_pod_beyond_the_limit_of_its_namespace_is_not_ready() -> None:
    first, second = (a_pod(name, a_shape(whole(2)), created=name) for name in ("1", "2"))
    assert Reported(most=1).after(first, second) == {"1": UNSCHEDULABLE, "2": NOT_READY}


def test_a_pod_with_a_label_that_cannot_be_used_is_not_ready() -> None:
    bad = a_pod(
        "p", problem=InvalidRequest(field="sharedgpu/gpu_limit", value="x", rule="must be a number")
    )
    assert Reported().after(bad) == {"p": NOT_READY}
    assert Reported().after(a_pod("q", unsupported=("spec.x",))) == {"q": NOT_READY}


def test_a_pod_that_a_pre_enqueue_plugin_refuses_is_not_ready() -> None:
    assert Reported(at="preEnqueue").after(a_pod("p", SHARE)) == {"p": NOT_READY}


@pytest.mark.parametrize("at", ["preEnqueue", "permit"])
def test_a_pod_whose_plugin_fails_has_an_error(at: str) -> None:
    assert Reported(at=at, fails=True).after(a_pod("p", SHARE)) == {"p": ERROR}


def test_a_pod_whose_place_a_permit_plugin_refuses_has_an_error() -> None:
    assert Reported(at="permit").after(a_pod("p", SHARE)) == {"p": ERROR}
    gang = members(a_group(2), 2, a_claim(500))
    assert Reported(at="permit").after(*gang) == {"g-0": ERROR, "g-1": ERROR}


def test_a_pod_whose_binding_is_refused_has_an_error() -> None:
    reported = Reported()
    (bind,) = reported.tell(PodSeen(a_pod("p", SHARE)), BindSlotsFree(64))
    assert isinstance(bind, Bind)
    refused = BindRefused(Refusal.INVALID, "no")
    reported.tell(BindAnswered(bind.uid, bind.allocation.token, refused))
    assert reported.told == {"p": ERROR}
