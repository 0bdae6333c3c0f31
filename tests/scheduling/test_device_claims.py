"""Pods with ResourceClaims: where they are placed, what is written, and which cards are charged."""

import pytest

from kubeshare_py.devices.device_verdicts import STEPS
from kubeshare_py.domain.cluster_objects import ObjectKey, WatchedKind
from kubeshare_py.domain.device import (
    ClaimAllocation,
    Device,
    DeviceNodes,
    MatchAttribute,
    ResourceClaim,
    ResourceSlice,
)
from kubeshare_py.domain.effects import Bind, ReportWaiting
from kubeshare_py.domain.events import (
    BindSlotsFree,
    NodeGone,
    NodeSeen,
    ObjectGone,
    ObjectsListed,
    PodGone,
    PodSeen,
    WriteOutcome,
)
from kubeshare_py.domain.identity import NodeName, PodKey
from kubeshare_py.domain.pod import DeviceClaimName
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.iteration_budget import ROWS_PER_ITERATION
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import Driver, a_group, a_machine, a_node, a_pod, a_share
from tests.making.devices import (
    DRIVER,
    a_claim_of,
    a_claiming_pod,
    an_open_claim,
    as_written,
    card_slice,
    claim,
    device,
    device_driver,
    devices_of,
    holders,
    request,
    sliced,
)

RESERVED = frozenset({"uid-p"})


def _nodes(binds: list[Bind]) -> list[str]:
    return [one.node for one in binds]


# --- claims that are allocated --------------------------------------------------------------------


def test_a_pod_goes_where_its_claim_may_be_used() -> None:
    driver = device_driver({"n0": 1, "n1": 1, "n2": 1}, slices=False)
    driver.see(a_claim_of("gpu-0", node="n1", reserved_for=RESERVED))

    assert _nodes(driver.show(a_claiming_pod())) == ["n1"]
    assert driver.requested == []


def test_a_claim_that_is_not_reserved_is_reserved_first() -> None:
    driver = device_driver({"n1": 1}, slices=False)
    driver.see(a_claim_of("gpu-0", resource_version="7"))

    assert driver.show(a_claiming_pod()) == []
    assert driver.machine.records[a_pod("p").uid].state is PodState.PREBINDING
    (write,) = driver.requested
    assert (write.version, write.allocation, write.pod_uid) == ("7", None, "uid-p")

    assert _nodes(driver.written()) == ["n1"]


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (None, 'resourceclaim.resource.k8s.io "c" not found'),
        (an_open_claim(deleting=True), 'resourceclaim "c" is being deleted'),
        (a_claim_of("gpu-0", node="n9"), "resourceclaim not available on the node"),
        (
            a_claim_of("gpu-0", reserved_for=frozenset(map(str, range(256)))),
            "resourceclaim default/c is in use by 256 pods, the most",
        ),
        (
            replace(an_open_claim(), allocation=ClaimAllocation((), unsupported=("x",))),
            "resourceclaim default/c: not supported yet: x",
        ),
        (
            replace(an_open_claim(), unsupported=("adminAccess",)),
            "resourceclaim default/c: not supported yet: adminAccess",
        ),
        (
            replace(an_open_claim(), requests=((request(device_class="none"),),)),
            "request r: device class none does not exist",
        ),
        (
            replace(an_open_claim(), requests=((request("r", 2),),)),
            "cannot allocate all claims: resourceclaim default/c, request r: too few devices",
        ),
    ],
)
def test_a_pod_waits_for_its_claim_with_a_reason(claim: ResourceClaim | None, reason: str) -> None:
    driver = device_driver({"n1": 1})
    if claim is not None:
        driver.see(claim)

    assert driver.show(a_claiming_pod()) == []
    assert reason in driver.told["p"]


def test_a_claim_from_a_template_must_be_made_for_the_pod() -> None:
    driver = device_driver({"n1": 1}, slices=False)
    driver.see(a_claim_of("gpu-0", reserved_for=RESERVED, owner="another"))
    pod = a_claiming_pod()
    asked = pod.shape.device_claims
    assert asked is not None
    missing = replace(asked, names=(DeviceClaimName("x", "", generated=True),))
    generated = replace(asked, names=(DeviceClaimName("x", "c", generated=True),))

    driver.show(replace(pod, shape=replace(pod.shape, device_claims=missing)))
    assert 'pod "default/p": ResourceClaim not created yet' in driver.told["p"]
    driver.show(replace(pod, shape=replace(pod.shape, device_claims=generated)))
    driver.later(60)
    assert "was not created for Pod default/p (Pod is not owner)" in driver.told["p"]

    assert driver.see(a_claim_of("gpu-0", reserved_for=RESERVED, owner="uid-p")) != []


# --- claims that are not allocated ----------------------------------------------------------------


def test_devices_are_allocated_before_the_pod_is_bound() -> None:
    driver = device_driver({"n1": 2})
    claim = an_open_claim()
    driver.see(claim)

    assert driver.show(a_claiming_pod()) == []
    assert devices_of(driver) == ["gpu.example.com/n1/gpu-0"]
    assert driver.written() != []
    driver.see(as_written(claim, driver.requested[0]))
    assert len(driver.requested) == 1


def test_two_pods_get_different_devices_while_the_first_is_written() -> None:
    driver = device_driver({"n1": 2})
    driver.see(an_open_claim("a"), an_open_claim("b"), an_open_claim("c"))

    driver.show(a_claiming_pod("p", "a"), a_claiming_pod("q", "b"), a_claiming_pod("r", "c"))

    assert [devices_of(driver, at) for at in range(2)] == [
        ["gpu.example.com/n1/gpu-0"],
        ["gpu.example.com/n1/gpu-1"],
    ]
    assert len(driver.requested) == 2
    assert "devices are in use" in driver.told["r"]


def test_a_refused_allocation_frees_its_devices() -> None:
    driver = device_driver({"n1": 1})
    driver.see(an_open_claim("a"), an_open_claim("b"))
    driver.show(a_claiming_pod("p", "a"))
    driver.show(a_claiming_pod("q", "b"))

    driver.written(WriteOutcome.REFUSED)

    assert [one.device_claim for one in driver.requested] == ["a", "b"]


def test_a_conflict_is_tried_again_with_the_newer_claim() -> None:
    driver = device_driver({"n1": 1})
    claim = an_open_claim()
    driver.see(claim)
    driver.show(a_claiming_pod())

    driver.written(WriteOutcome.STALE)
    assert len(driver.requested) == 1
    driver.see(replace(claim, resource_version="2"))

    assert [one.version for one in driver.requested] == ["1", "2"]


def test_an_unknown_outcome_keeps_the_devices_until_the_pod_is_gone() -> None:
    driver = device_driver({"n1": 1})
    driver.see(an_open_claim("a"), an_open_claim("b"))
    driver.show(a_claiming_pod("p", "a"))
    driver.written(WriteOutcome.UNKNOWN)
    driver.show(a_claiming_pod("q", "b"))
    assert [one.device_claim for one in driver.requested] == ["a"]

    driver.gone(a_pod("p"))

    assert [one.device_claim for one in driver.requested] == ["a", "b"]


def test_an_answer_that_comes_after_the_pod_is_gone_ends_the_assumption() -> None:
    driver = device_driver({"n1": 1})
    driver.see(an_open_claim("a"), an_open_claim("b"))
    driver.show(a_claiming_pod("p", "a"))
    driver.gone(a_pod("p"))
    driver.show(a_claiming_pod("q", "b"))
    assert [one.device_claim for one in driver.requested] == ["a"]

    driver.written(WriteOutcome.UNKNOWN)

    assert [one.device_claim for one in driver.requested] == ["a", "b"]


def test_the_claim_as_it_was_before_the_write_does_not_undo_it() -> None:
    driver = device_driver({"n1": 1})
    claim = an_open_claim("a")
    driver.see(claim, an_open_claim("b"))
    driver.show(a_claiming_pod("p", "a"))

    driver.see(claim)
    driver.show(a_claiming_pod("q", "b"))

    assert [one.device_claim for one in driver.requested] == ["a"]


def test_members_of_a_gang_get_different_devices_of_one_node() -> None:
    driver = device_driver({"n1": 2})
    driver.see(an_open_claim("a"), an_open_claim("b"))
    group = a_group(2)

    driver.show(a_claiming_pod("p", "a", group=group), a_claiming_pod("q", "b", group=group))

    assert sorted(devices_of(driver, 0) + devices_of(driver, 1)) == [
        "gpu.example.com/n1/gpu-0",
        "gpu.example.com/n1/gpu-1",
    ]
    assert driver.written(at=0) == []
    assert len(driver.written(at=1)) == 2


def test_a_gang_that_needs_more_devices_than_there_are_waits() -> None:
    driver = device_driver({"n1": 2})
    driver.see(*map(an_open_claim, "abc"))
    group = a_group(3)

    driver.show(*(a_claiming_pod(f"p{name}", name, group=group) for name in "abc"))

    assert driver.requested == []


def test_a_profile_without_the_plugin_binds_no_pod_with_claims() -> None:
    plugins = {"preBind": {"disabled": [{"name": "DynamicResources"}]}}
    driver = device_driver({"n1": 1}, machine=a_machine({"profiles": [{"plugins": plugins}]}))
    driver.see(a_claim_of("gpu-0", reserved_for=RESERVED))

    assert driver.show(a_claiming_pod()) == []
    assert driver.machine.records[a_pod("p").uid].state is PodState.GATED


# --- cards ----------------------------------------------------------------------------------------


def test_an_allocated_device_charges_its_card_in_full() -> None:
    driver = device_driver({"n1": 2})

    driver.see(a_claim_of("gpu-0"))

    assert driver.free() == [0, 1000]
    assert holders(driver) == ["default/c"]
    driver.show(a_share("s", 100), a_share("w"))
    assert driver.free()[0] == 0


def test_a_card_is_free_again_when_its_claim_is() -> None:
    driver = device_driver({"n1": 1})
    driver.see(a_claim_of("gpu-0"))
    assert driver.show(a_share("s", 100)) == []

    binds = driver.see(an_open_claim())

    assert _nodes(binds) == ["n1"]
    assert holders(driver) == []
    driver.see(a_claim_of("gpu-0"))
    driver.tell(ObjectGone(WatchedKind.RESOURCE_CLAIM, ObjectKey("default", "c")))
    assert holders(driver) == []


def test_a_card_that_pods_share_is_not_allocated() -> None:
    driver = device_driver({"n1": 2})
    driver.show(a_share("s", 100))
    shared = driver.free().index(900)
    driver.see(an_open_claim("a"), an_open_claim("b"))

    driver.show(a_claiming_pod("p", "a"))
    driver.show(a_claiming_pod("q", "b"))

    assert devices_of(driver) == [f"gpu.example.com/n1/gpu-{1 - shared}"]
    assert "devices are cards that pods hold or in use" in driver.told["q"]


def test_a_card_that_is_being_allocated_takes_no_pod() -> None:
    driver = device_driver({"n1": 1})
    driver.see(an_open_claim())
    driver.show(a_claiming_pod())

    assert driver.show(a_share("s", 100)) == []


def test_charges_follow_slices_nodes_and_cards() -> None:
    driver = device_driver({"n1": 1}, slices=False)
    driver.see(a_claim_of("gpu-0"))
    assert driver.free() == [1000]
    driver.see(card_slice(driver.machine, "n1"))
    assert driver.free() == [0]
    driver.tell(NodeGone(NodeName("n1")))
    driver.tell(NodeSeen(a_node("n1")))
    assert driver.free() == [0]
    driver.tell(ObjectGone(WatchedKind.RESOURCE_SLICE, ObjectKey("", "n1")))
    assert driver.free() == [0]  # the claim is still allocated
    driver.see(an_open_claim())
    assert driver.free() == [1000]


def test_a_device_of_several_nodes_is_found_on_each() -> None:
    driver = device_driver({"n1": 1, "n2": 1}, slices=False)
    everywhere = DeviceNodes(everywhere=True)
    driver.see(replace(sliced(Device(name="net"), pool="net"), nodes=everywhere))
    driver.see(an_open_claim("a"), an_open_claim("b"))

    driver.show(a_claiming_pod("p", "a"))
    driver.show(a_claiming_pod("q", "b"))

    assert devices_of(driver) == ["gpu.example.com/net/net"]
    assert driver.requested[0].allocation is not None
    assert driver.requested[0].allocation.terms is None
    driver.tell(PodGone(a_pod("p").uid))


def test_a_claim_between_the_two_patches_of_a_write_is_not_free() -> None:
    driver = device_driver({"n1": 1})
    a = an_open_claim("a")
    driver.see(a, an_open_claim("b"))
    driver.show(a_claiming_pod("p", "a"))
    driver.bound(driver.written())

    driver.see(replace(a, resource_version="2", is_protected=True))
    driver.show(a_claiming_pod("q", "b"))
    assert len(driver.requested) == 1

    driver.see(as_written(a, driver.requested[0]))
    driver.gone(a_pod("p"))
    driver.see(replace(a, resource_version="9"))
    assert [one.device_claim for one in driver.requested] == ["a", "b"]


def test_an_allocation_of_a_claim_that_a_list_cannot_read_ends_as_any_other() -> None:
    driver = device_driver({"n1": 1})
    a, b = an_open_claim("a"), an_open_claim("b")
    driver.see(a, b)
    driver.show(a_claiming_pod("p", "a"))
    kind = WatchedKind.RESOURCE_CLAIM
    driver.tell(ObjectsListed(kind, (b,), unreadable=frozenset({a.key})))
    driver.written(WriteOutcome.REFUSED)

    driver.show(a_claiming_pod("q", "b"))
    assert driver.requested[-1].device_claim == "b"


def test_claims_of_bound_pods_are_not_searched_for_again() -> None:
    driver = device_driver({"n1": 2})
    driver.see(an_open_claim())
    driver.show(a_claiming_pod())
    driver.bound(driver.written())
    assert not driver.machine.ledger.placed_pods.device_claims()


def _hopeless(name: str) -> ResourceClaim:
    """A claim of 16 devices that must be of one group, where groups have 15."""
    requests = [request(f"r{at}") for at in range(16)]
    made = claim(*requests, name=name, constraints=(MatchAttribute(DRIVER, "group"),))
    return replace(made, namespace="default", resource_version="1")


def _in_groups(node: str, size: int = 15) -> ResourceSlice:
    return sliced(*(device(f"d{at}", group=at // size) for at in range(128)), node=node)


def _cost(driver: Driver) -> int:
    """Of all questions so far, in rows."""
    return next(iter(driver.machine.evaluators.values())).work.cost


def test_long_searches_are_cut_into_turns_and_others_go_between() -> None:
    nodes = ["n1", "n2", "n3"]
    driver = device_driver(dict.fromkeys(nodes, 1), slices=False)
    driver.see(*map(_in_groups, nodes, (15, 14, 13)), *(_hopeless(f"c{at}") for at in range(3)))
    driver.tell(*(PodSeen(a_claiming_pod(f"p{at}", f"c{at}")) for at in range(3)))
    other = replace(a_share("other", 100), key=PodKey("others", "other"))
    driver.tell(PodSeen(other))

    turns = [driver.tell(BindSlotsFree(64))]
    while driver.machine.wake_at(driver.now) == driver.now and len(turns) < 100:
        before = _cost(driver)
        turns.append(driver.tell(BindSlotsFree(64)))
        assert _cost(driver) - before < 2 * STEPS + ROWS_PER_ITERATION

    bound = [at for at, effects in enumerate(turns) for one in effects if isinstance(one, Bind)]
    reports = [one for effects in turns for one in effects if isinstance(one, ReportWaiting)]
    told = {one.key.name: one.diagnosis.message for one in reports}
    assert len(turns) > 6
    assert bound
    assert bound[0] <= 2
    for at in range(3):
        assert "the search for devices takes too long" in told[f"p{at}"]


def test_a_search_that_was_given_up_is_asked_again_when_its_devices_change() -> None:
    driver = device_driver({"n1": 1}, slices=False)
    driver.see(_in_groups("n1"), _hopeless("c"))
    driver.show(a_claiming_pod())
    driver.show(a_share("other", 100))

    before = _cost(driver)
    driver.gone(a_share("other", 100))
    assert _cost(driver) - before < STEPS // 10

    driver.see(_in_groups("n1", 16))
    driver.turn()
    assert driver.requested
