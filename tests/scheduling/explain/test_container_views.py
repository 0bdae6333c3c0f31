"""What people are shown of pods whose containers have claims of their own."""

from typing import Any

import pytest

from kubeshare_py.domain.allocation import Allocation
from kubeshare_py.domain.card_reading import of_labels
from kubeshare_py.domain.events import InventoryRead, PodGone, PodSeen
from kubeshare_py.domain.gpu import PreferredModels
from kubeshare_py.domain.identity import NodeName, PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import (
    CardRelation,
    ContainerClaim,
    ContainerRef,
    GpuClaim,
    GpuRequest,
)
from kubeshare_py.domain.values import replace
from kubeshare_py.framework.prepared_claims import NOT_TOGETHER
from kubeshare_py.scheduling.explain.explanation import cluster_portions, cluster_view, why
from kubeshare_py.scheduling.explain.figures import card_figures, ledger_figures, pod_figures
from kubeshare_py.views.view import ContainerPartView, ContainerView, HoldingView, PodView, WhyView
from tests.making import (
    GIB,
    MODEL,
    PREEMPTION,
    Driver,
    a_claim,
    a_gpu,
    a_group,
    a_pod,
    a_shape,
    a_share,
    some_gpus,
    whole,
)

APART = CardRelation.DIFFERENT_CARDS
MIB = 1 << 20
READY, NOT_READY = (of_labels([("mps", word)]) for word in ("ready", "daemon-down"))


def several(
    name: str, *claims: GpuClaim, relation: CardRelation = CardRelation.FREE, **fields: Any
) -> Pod:
    """A pod whose containers have one claim each."""
    return a_pod(name, a_shape(*claims, relation=relation), **fields)


def placed(driver: Driver, *pods: Pod) -> None:
    """All of them are bound, and seen bound."""
    binds = driver.show(*pods)
    assert len(binds) == len(pods)
    driver.bound(binds, *pods)


def why_of(driver: Driver, name: str) -> WhyView:
    found = why(driver.machine, PodKey("default", name))
    assert found is not None
    return found


def shown(driver: Driver, name: str) -> PodView:
    return next(pod for pod in cluster_view(driver.machine).pods if pod.name == name)


def a_part(card: str, milli: int, mib: int, index: int = 0) -> HoldingView:
    return HoldingView(uuid=card, index=index, model=MODEL, milli=milli, memory_bytes=mib * MIB)


def test_a_pod_says_what_each_container_asks_for_and_holds() -> None:
    driver = Driver({"n1": 1})
    pod = several("p", a_claim(500), a_claim(250, memory_bytes=5 * GIB))
    driver.tell(PodSeen(pod))
    asks = shown(driver, "p").containers
    assert asks == (
        ContainerView(container="container-0", count=1, milli=500),
        ContainerView(container="container-1", count=1, milli=250, memory_bytes=5 * GIB),
    )
    placed(driver, pod)
    view = shown(driver, "p")
    assert view.containers == (
        replace(asks[0], holds=(a_part("GPU-n1-0", 500, 20 * 1024),)),
        replace(asks[1], holds=(a_part("GPU-n1-0", 250, 5 * 1024),)),
    )
    assert (view.cards, view.holds) == (("GPU-n1-0",), (a_part("GPU-n1-0", 750, 25 * 1024),))
    assert (view.relation, view.asks_for_other) == ("", False)


def test_a_pod_without_claims_of_containers_shows_none() -> None:
    driver = Driver({"n1": 1})
    placed(driver, a_share("p", 500), a_pod("cpu"))
    assert [shown(driver, name).containers for name in ("p", "cpu")] == [(), ()]
    assert shown(driver, "p").relation == ""


@pytest.mark.parametrize(
    ("relation", "claims", "asked"),
    [
        (CardRelation.FREE, (a_claim(500), a_claim(500)), (2, 500, None, (), "")),
        (CardRelation.SAME_CARD, (a_claim(500), a_claim(300)), (1, 500, None, (), "")),
        (APART, (a_claim(500), whole(3)), (4, 1000, None, (), "")),
        (
            CardRelation.FREE,
            (a_claim(1, memory_bytes=GIB, models=("A",)), a_claim(2, models=("A",))),
            (2, 2, GIB, ("A",), ""),
        ),
        (
            CardRelation.FREE,
            (a_claim(1, share_of="A", models=("A",)), a_claim(1)),
            (2, 1, None, (), ""),
        ),
    ],
)
def test_what_claims_ask_for_in_all(
    relation: CardRelation, claims: tuple[GpuClaim, ...], asked: tuple[object, ...]
) -> None:
    driver = Driver({"n1": 1})
    driver.tell(PodSeen(several("p", *claims, relation=relation)))
    view = shown(driver, "p")
    found = (view.count, view.milli, view.memory_bytes, view.models, view.share_of)
    assert found == asked
    assert view.relation == ("" if relation is CardRelation.FREE else relation)


def test_init_containers_follow_and_a_container_may_have_two_claims() -> None:
    claims = (a_claim(100), a_claim(200), a_claim(300))
    refs = (ContainerRef(True, 0), ContainerRef(False, 1), ContainerRef(False, 1))
    request = GpuRequest(
        claims=tuple(
            ContainerClaim(claim=claim, container=ref)
            for claim, ref in zip(claims, refs, strict=True)
        ),
        dialect="sharedgpu",
    )
    driver = Driver({"n1": 1})
    pod = several("p", *claims, request=request)
    placed(driver, pod)
    found = [
        (one.container, one.milli, one.holds[0].milli) for one in shown(driver, "p").containers
    ]
    assert found == [("container-1", 200, 200), ("container-1", 300, 300), ("init-0", 100, 100)]


def relabelled(pod: Pod, *claims: GpuClaim) -> Pod:
    other = several("other", *claims)
    return replace(pod, shape=other.shape, request=other.request)


def test_claims_that_were_changed_after_the_bind_are_noticed() -> None:
    driver = Driver({"n1": 2})
    pod = several("p", a_claim(500), a_claim(250))
    placed(driver, pod)
    bound = driver.machine.records[pod.uid].pod
    for claims, differs in (
        ((a_claim(500), a_claim(250)), False),
        ((a_claim(250), a_claim(500)), True),
        ((a_claim(500), whole(1)), True),
        ((a_claim(500), a_claim(250), a_claim(100)), True),
        ((a_claim(750),), True),
        ((), True),
    ):
        driver.tell(PodSeen(relabelled(bound, *claims)))
        assert shown(driver, "p").asks_for_other is differs
    holds = [(one.container, one.count, len(one.holds)) for one in shown(driver, "p").containers]
    assert holds == [("container-0", 0, 1), ("container-1", 0, 1)]


def test_one_claim_of_a_container_may_be_written_down_as_of_all() -> None:
    driver = Driver({"n1": 1})
    claim = ContainerClaim(claim=a_claim(500), container=ContainerRef(False, 1))
    request = GpuRequest(claims=(claim,), dialect="sharedgpu")
    pod = a_share("p", 500, request=request)
    (bind,) = driver.show(pod)
    assert [one.container for one in bind.allocation.claims] == [ContainerRef(False, 1)]
    for claims in ((), bind.allocation.claims):
        allocation = replace(bind.allocation, claims=claims)
        driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=allocation)))
        assert not shown(driver, "p").asks_for_other


def test_a_pod_is_one_tenant_of_a_card_that_its_containers_share() -> None:
    driver = Driver({"n1": 2})
    placed(driver, several("p", a_claim(500), a_claim(250), whole(1)), a_pod("cpu"))
    [node] = cluster_view(driver.machine).nodes
    first, second = sorted((card.tenants for card in node.cards), key=lambda one: one[0].exclusive)
    [tenant] = first
    assert (tenant.milli, tenant.memory_bytes, tenant.exclusive) == (750, 30 * GIB, False)
    assert tenant.containers == (
        ContainerPartView(container="container-0", milli=500, memory_bytes=20 * GIB),
        ContainerPartView(container="container-1", milli=250, memory_bytes=10 * GIB),
    )
    assert [(one.exclusive, len(one.containers)) for one in second] == [(True, 1)]
    portions = cluster_portions(driver.machine, sees=lambda namespace: namespace == "other")
    cards = [card for portion in portions for node in portion.nodes for card in node.cards]
    assert [tenant.containers for card in cards for tenant in card.tenants] == [(), ()]


def test_figures_count_nothing_twice() -> None:
    driver = Driver({"n1": 2})
    placed(driver, several("p", a_claim(500), a_claim(250)), a_share("q", 100))
    driver.show(several("waits", a_claim(900), a_claim(900), a_claim(900)))
    [cards] = card_figures(driver.machine)
    used = sorted(zip(cards.allocated_milli, cards.allocated_bytes, cards.tenants, strict=True))
    assert used == [(0, 0, 0), (850, 34 * GIB, 2)]
    assert ledger_figures(driver.machine).free_milli == 1150
    *_, pods = pod_figures(driver.machine)
    assert (pods.holding, pods.unschedulable, pods.shares) == (2, 1, {"none": 2})
    assert pods.unschedulable_by == (("framework", "kubeshare-scheduler", 1),)


def test_a_back_end_need_not_be_ready_on_cards_that_one_container_has_alone() -> None:
    driver = Driver({"n1": 2}, {"profiles": [{"isolation": ["mps"]}]})
    placed(driver, several("p", a_claim(500), whole(1)))
    alone = next(part.uuid for part in shown(driver, "p").holds if part.milli == 1000)

    def reports(*broken: str) -> InventoryRead:
        cards = tuple(
            replace(gpu, readiness=NOT_READY if gpu.uuid in broken else READY)
            for gpu in some_gpus("n1", 2)
        )
        return InventoryRead(((NodeName("n1"), cards),))

    driver.tell(reports(alone))
    view = shown(driver, "p")
    assert (view.isolation, view.unheld, view.not_ready) == ("mps", (), ())
    [node] = cluster_view(driver.machine).nodes
    assert [card.unheld for card in node.cards] == [(), ()]
    driver.tell(reports("GPU-n1-0", "GPU-n1-1"))
    assert [one.uuid == alone for one in shown(driver, "p").not_ready] == [False]
    [node] = cluster_view(driver.machine).nodes
    assert {card.uuid: card.unheld for card in node.cards}[alone] == ()


def test_a_card_that_one_container_has_alone_needs_no_back_end() -> None:
    driver = Driver({"n1": 2}, {"profiles": [{"isolation": ["driver"]}]})
    placed(driver, several("p", a_claim(500), whole(1)))
    [node] = cluster_view(driver.machine).nodes
    found = {card.tenants[0].exclusive: card.unheld for card in node.cards}
    assert found == {False: ("time",), True: ()}


def test_a_waiting_pod_says_where_its_back_end_does_not_work() -> None:
    driver = Driver({"n1": 1}, {"profiles": [{"isolation": ["mps"]}]})
    cards = tuple(replace(gpu, readiness=NOT_READY) for gpu in some_gpus("n1", 1))
    driver.tell(InventoryRead(((NodeName("n1"), cards),)))
    driver.show(several("p", a_claim(900), a_claim(900)))
    [node] = why_of(driver, "p").nodes
    assert [one.cards for one in node.not_ready] == [1]


# --- why -------------------------------------------------------------------------------------


def test_why_has_the_shortfalls_of_each_claim() -> None:
    driver = Driver({"n1": 1})
    placed(driver, a_share("first", 600))
    driver.show(several("p", a_claim(500), a_claim(100), a_claim(500)))
    [node] = why_of(driver, "p").nodes
    assert not node.fits
    found = [(one.containers, one.subject, one.asked, one.free) for one in node.shortfalls]
    assert found == [(("container-0", "container-2"), "GPU-n1-0", 500, 400)]


def test_why_says_that_claims_fit_alone_and_not_together_and_what_lacks_in_all() -> None:
    driver = Driver({"n1": 2})
    placed(driver, several("first", a_claim(300), a_claim(300), relation=APART))
    for name, shares, lacks in (
        ("large", (700, 600, 200), [("gpu", 1500, 1400)]),
        ("divided", (500, 400, 400), []),
    ):
        driver.show(several(name, *map(a_claim, shares)))
        assert driver.told[name] == f"0/1 nodes are available: 1 {NOT_TOGETHER}."
        [node] = why_of(driver, name).nodes
        assert node.reasons == (NOT_TOGETHER,)
        assert [(one.resource, one.asked, one.free) for one in node.shortfalls] == lacks
    driver.show(several("apart", *map(a_claim, (100, 100, 100)), relation=APART))
    [node] = why_of(driver, "apart").nodes
    assert [(one.resource, one.asked, one.free) for one in node.shortfalls] == [("gpus", 3, 2)]
    memory = (a_claim(10, memory_bytes=20 * GIB) for _ in range(3))
    driver.show(several("memory", *memory))
    [node] = why_of(driver, "memory").nodes
    # Each card has 28 GiB left.
    assert [(one.resource, one.asked, one.free) for one in node.shortfalls] == [
        ("gpu memory", 60 * GIB, 56 * GIB)
    ]


def test_why_says_that_not_all_ways_to_place_many_claims_were_tried() -> None:
    driver = Driver({"n1": 4})
    placed(driver, a_share("first", 500))
    driver.show(several("p", *(a_claim(300 + at) for at in range(12))))
    said = f"{NOT_TOGETHER} (more than 8 claims: not searched exhaustively)"
    assert driver.told["p"] == f"0/1 nodes are available: 1 {said}."
    [node] = why_of(driver, "p").nodes
    assert node.reasons == (said,)
    assert [(one.reason, one.asked, one.free) for one in node.shortfalls] == [(said, 3666, 3500)]


def test_why_advises_the_end_of_a_pod_but_no_smaller_share_of_several() -> None:
    driver = Driver({"n1": 1})
    placed(driver, a_share("first", 600))
    driver.show(several("p", a_claim(500), a_claim(300)))
    advice = why_of(driver, "p").advice
    assert advice == ("it fits on n1 when default/first ends (it holds 0.6 of GPU-n1-0)",)
    driver.tell(PodGone(PodUid("uid-first")))
    assert len(driver.later(1)) == 1


@pytest.mark.parametrize(
    ("dialect", "claim", "said"),
    [
        ("sharedgpu", a_claim(500), "sharedgpu/gpu_request 0.4 or less"),
        (
            "sharedgpu",
            whole(1),
            "sharedgpu/gpu_request 0.4 or less, without sharedgpu/gpu_exclusive",
        ),
        ("other", a_claim(500), "a share of 0.4 or less"),
        ("other", whole(1), "a share of 0.4 or less, without cards of its own"),
    ],
)
def test_a_smaller_share_is_named_by_labels_that_the_pod_has(
    dialect: str, claim: GpuClaim, said: str
) -> None:
    driver = Driver({"n1": 1})
    placed(driver, a_share("first", 600))
    request = GpuRequest.of_pod(claim, dialect=dialect, limit_milli=1000)
    driver.show(a_pod("p", a_shape(claim), request=request))
    assert why_of(driver, "p").advice[-1] == f"it fits on n1 (GPU-n1-0) now with {said}"


def test_why_says_which_container_has_not_its_first_choice() -> None:
    driver = Driver({"n1": 0})
    cards = tuple(a_gpu(f"c{at}", index=at, model=model) for at, model in enumerate(("T4", "V100")))
    driver.tell(InventoryRead(((NodeName("n1"), cards),)))
    wants = PreferredModels(tiers=(("A100",), ("V100",), ("T4",)))
    first = a_claim(500, preferred=wants)
    placed(driver, several("p", first, a_claim(1000, preferred=wants), relation=APART))
    message = why_of(driver, "p").message
    assert "is choice 3 of 3" in message
    assert message.startswith("container ")


def test_why_ranks_the_node_of_a_placed_pod_and_names_its_neighbours_once() -> None:
    driver = Driver({"n1": 1, "n2": 1})
    placed(driver, several("p", a_claim(300), a_claim(200)), a_share("q", 100))
    placement = why_of(driver, "q").placement
    assert placement is not None
    assert [(one.name, len(one.holds), one.holds[0].milli) for one in placement.neighbours] == [
        ("p", 1, 500)
    ]
    ranked = why_of(driver, "p").placement
    assert ranked is not None
    assert (ranked.rank, ranked.fitting) == (1, 2)


def test_members_of_a_gang_have_headroom_with_all_their_claims() -> None:
    driver = Driver({"n1": 2, "n2": 1})
    group = a_group(4)
    claims = (a_claim(500), a_claim(400))
    driver.show(*(several(f"g-{at}", *claims, group=group) for at in range(4)))
    nodes = why_of(driver, "g-0").nodes
    assert {node.name: node.headroom for node in nodes} == {"n1": 2, "n2": 1}
    assert "room for 3 of them" in driver.told["g-0"]
    driver.tell(InventoryRead(((NodeName("n2"), some_gpus("n2", 2)),)))
    assert len(driver.later(60)) == 4


def test_a_plan_of_preemption_shows_the_places_of_all_claims() -> None:
    driver = Driver({"n1": 2}, PREEMPTION)
    low = several("low", a_claim(600), a_claim(600), relation=APART)
    driver.fill(low)
    high = several("high", a_claim(500), a_claim(500), relation=APART, priority=10)
    driver.tell(PodSeen(high))
    plan = why_of(driver, "high").preemption
    assert plan is not None
    assert [(one.name, len(one.cards)) for one in plan.victims] == [("low", 2)]
    assert [len(one.cards) for one in plan.nominations] == [2]


def test_an_allocation_of_other_containers_is_another_one() -> None:
    driver = Driver({"n1": 1})
    pod = several("p", a_claim(500), a_claim(250))
    (bind,) = Driver({"n1": 1}).show(pod)
    claims = tuple(
        replace(one, container=ContainerRef(True, one.container.index))
        for one in bind.allocation.claims
    )
    allocation: Allocation = replace(bind.allocation, claims=claims)
    driver.tell(PodSeen(replace(pod, node_name=bind.node, allocation=allocation)))
    assert shown(driver, "p").asks_for_other
    shown_ = [(one.container, one.count) for one in shown(driver, "p").containers]
    assert shown_ == [("container-0", 1), ("container-1", 1), ("init-0", 0), ("init-1", 0)]
