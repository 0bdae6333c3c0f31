"""What a placement is held to: the profile's back-ends, the pod's wish, the Binding."""

from typing import Any

import pytest

from kubeshare_py.domain.allocation import Allocation, CardCharge
from kubeshare_py.domain.card_reading import Isolation, IsolationBackend, ReadinessReport, of_labels
from kubeshare_py.domain.events import InventoryRead, PodSeen
from kubeshare_py.domain.identity import DecisionToken, GpuUuid, NodeName, PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import ContainerClaim, ContainerRef, GpuClaim, GpuRequest
from kubeshare_py.domain.values import replace
from kubeshare_py.exporters.metric import Tallies
from kubeshare_py.exporters.scheduler_metrics import ProcessFigures, WriteFigures, scheduler_values
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.scheduling.explain.explanation import cluster_view, why
from kubeshare_py.scheduling.explain.figures import pod_figures
from kubeshare_py.scheduling.queue.asked_shapes import hold_on
from kubeshare_py.views.figures import DecisionFigures, LedgerFigures
from kubeshare_py.views.view import BackendView, CardNotReadyView, CardsNotReadyView, PodView
from tests.making import Driver, a_claim, a_pod, a_shape, some_gpus, whole

THREE = {"profiles": [{"isolation": ["driver", "mps", "none"]}]}


def written(wish: str, claim: GpuClaim | None = None, document: Any = None) -> dict[str, str]:
    """The annotations of the Binding that says what holds the pod."""
    claim = claim or a_claim(500)
    request = GpuRequest.of_pod(claim, dialect="sharedgpu", limit_milli=750)
    pod = a_pod("a", a_shape(claim), request=request, isolation=wish)
    (bind,) = Driver({"n1": 2}, THREE if document is None else document).seen(pod)
    found = binding_annotations(bind, "")
    return {
        key: value
        for key, value in found.items()
        if "mib" in key or "mps" in key or (key.endswith("allocation") and "isolation" in value)
    }


def test_without_a_wish_the_profiles_first_back_end_is_told() -> None:
    found = written("")
    assert '"isolation":"driver","limit":750' in found.pop("sharedgpu/allocation")
    assert [*found] == ["sharedgpu/gpu_mem_mib"]


def test_a_pod_that_wishes_another_one_gets_it() -> None:
    found = written("mps")
    assert '"isolation":"mps"' in found.pop("sharedgpu/allocation")
    assert found["sharedgpu/mps_thread_percentage"] == "75"
    assert {*found} == {"sharedgpu/mps_thread_percentage", "sharedgpu/mps_memory"}


def of_containers(*claims: tuple[GpuClaim, int]) -> dict[str, str]:
    """The annotations of the Binding of a pod whose containers have these claims and limits."""
    parts = [
        ContainerClaim(claim=claim, container=ContainerRef(False, index), limit_milli=limit)
        for index, (claim, limit) in enumerate(claims)
    ]
    request = GpuRequest(claims=tuple(parts), dialect="d")
    pod = a_pod("a", a_shape(*(claim for claim, _ in claims)), request=request, isolation="mps")
    (bind,) = Driver({"n1": 2}, THREE).seen(pod)
    return binding_annotations(bind, "")


def test_each_container_is_held_to_its_own_claim() -> None:
    found = of_containers((a_claim(500), 750), (a_claim(200, memory_bytes=2**30), 0), (whole(1), 0))
    assert found["sharedgpu/container-0.mps_thread_percentage"] == "75"
    assert found["sharedgpu/container-1.mps_thread_percentage"] == "100"
    assert found["sharedgpu/container-1.mps_memory"] == "0=1024M"
    assert "sharedgpu/container-2.gpu_uuid" in found
    assert not [key for key in found if "container-2.mps" in key or key.startswith("sharedgpu/mps")]
    # One of them has no limit.
    assert '"isolation":"mps"}' in found["sharedgpu/allocation"]


def test_the_limit_of_a_pod_is_that_of_its_shares() -> None:
    found = of_containers((a_claim(500), 750), (whole(1), 0), (a_claim(200), 300))
    assert '"isolation":"mps","limit":750' in found["sharedgpu/allocation"]


def test_cards_that_a_container_has_for_itself_need_no_back_end() -> None:
    card = CardCharge(GpuUuid("GPU-n1-0"), 500, 1)
    other = CardCharge(GpuUuid("GPU-n1-1"), 1000, 1, exclusive=True)
    isolation = Isolation(IsolationBackend.MPS, 500)
    held = Allocation(token=DecisionToken("t"), cards=(card, other), isolation=isolation)
    driver = Driver({"n1": 2}, THREE)
    driver.decide()
    assert hold_on(driver.machine.ledger, NodeName("n1"), held).unreported == (card.uuid,)


@pytest.mark.parametrize("wish", ["gemini", "strongest"])
def test_a_wish_that_the_profile_does_not_allow_is_told_and_the_pod_waits(wish: str) -> None:
    driver = Driver({"n1": 2}, THREE)
    pod = asking("a", wish, a_claim(500))
    assert driver.seen(pod) == []
    view = why(driver.machine, pod.key)
    assert view is not None
    assert (
        view.pod.message == f'sharedgpu/isolation="{wish}": this scheduler allows driver, mps, none'
    )
    assert len(driver.seen(replace(pod, isolation="mps"))) == 1


def test_who_has_cards_of_its_own_or_none_may_wish_anything() -> None:
    driver = Driver({"n1": 2}, THREE)
    assert len(driver.seen(asking("a", "gemini", whole(1)))) == 1
    assert len(driver.seen(a_pod("b", a_shape(), isolation="gemini"))) == 1


@pytest.mark.parametrize("document", [THREE, {}])
def test_none_writes_nothing_more(document: Any) -> None:
    assert written("none", document=document) == {}


def test_cards_of_its_own_are_isolation_enough() -> None:
    assert written("mps", whole(2)) == {}


def asking(name: str, wish: str, claim: GpuClaim) -> Pod:
    """A pod that wishes to be held by this back-end."""
    request = GpuRequest.of_pod(claim, dialect="sharedgpu", limit_milli=750)
    return a_pod(name, a_shape(claim), request=request, isolation=wish)


def placed(*wishes: str) -> Driver:
    """Pods with shares of one card each, and one with cards of its own."""
    driver = Driver({"n1": len(wishes) + 2}, THREE)
    for wish in wishes:
        driver.place(asking(wish, wish, a_claim(600)))
    driver.place(asking("whole", "driver", whole(2)))
    return driver


def test_cards_and_pods_say_what_their_back_end_does_not_hold() -> None:
    view = cluster_view(placed("none", "driver", "mps").machine)
    of_pods = {pod.name: (pod.isolation, pod.unheld) for pod in view.pods}
    assert of_pods == {
        "none": ("none", ("memory", "time")),
        "driver": ("driver", ("time",)),
        "mps": ("mps", ()),
        "whole": ("", ()),
    }
    [node] = view.nodes
    of_cards = {card.tenants[0].name: card.unheld for card in node.cards}
    assert of_cards == {name: unheld for name, (_, unheld) in of_pods.items()}


def test_a_card_says_what_any_of_its_tenants_is_not_held_to() -> None:
    driver = Driver({"n1": 1}, THREE)
    for wish in ("mps", "driver"):
        driver.place(asking(wish, wish, a_claim(300)))
    [card] = cluster_view(driver.machine).nodes[0].cards
    assert card.unheld == ("time",)
    assert [one.unheld for one in card.tenants] == [("time",), ()]


def test_a_pod_that_waits_is_told_what_will_not_be_held() -> None:
    driver = placed("mps")
    driver.tell(PodSeen(asking("late", "", a_claim(900))))
    driver.tell(PodSeen(asking("whole-too", "", whole(2))))
    found = why(driver.machine, PodKey("default", "late"))
    assert found is not None
    assert (found.pod.isolation, found.pod.unheld) == ("driver", ("time",))
    found = why(driver.machine, PodKey("default", "whole-too"))
    assert found is not None
    assert (found.pod.isolation, found.pod.unheld) == ("", ())


NO_DAEMON = of_labels((("mps", "no-daemon"), ("driver", "ready")))
DAEMON = of_labels((("mps", "ready"), ("driver", "ready")))
ONLY_READY = {
    "profiles": [
        {
            "isolation": ["driver", "mps", "none"],
            "plugins": {"cardFilter": {"enabled": [{"name": "IsolationReady"}]}},
        }
    ]
}


def told(driver: Driver, *cards: ReadinessReport, node: str = "n1") -> None:
    """What a collector tells of the cards of a node now."""
    gpus = zip(some_gpus(node, len(cards)), cards, strict=True)
    found = tuple(replace(gpu, readiness=one) for gpu, one in gpus)
    driver.tell(InventoryRead(((NodeName(node), found),)))


def shown(driver: Driver, name: str) -> PodView:
    found = why(driver.machine, PodKey("default", name))
    assert found is not None
    return found.pod


def unheld_pods(driver: Driver) -> dict[str, float]:
    """Those counters of pods that are not 0."""
    *_, pods = pod_figures(driver.machine)
    process = ProcessFigures(
        decisions=DecisionFigures(),
        inventory_age_s=None,
        writes=WriteFigures(),
        loop_lag_s=0,
    )
    values = scheduler_values(LedgerFigures(), pods, process, Tallies())
    return {
        " ".join(labels): value
        for name in ("kubeshare_unheld_pods", "kubeshare_unconfirmed_pods")
        for labels, value in values[name].items()
        if isinstance(value, int) and value
    }


def test_a_pod_on_a_card_where_its_back_end_does_not_work_is_held_to_nothing() -> None:
    driver = Driver({"n1": 1}, THREE)
    told(driver, NO_DAEMON)
    driver.place(asking("a", "mps", a_claim(300)))
    driver.place(asking("b", "driver", a_claim(300)))
    reason = (CardNotReadyView(uuid="GPU-n1-0", reason="no running MPS daemon"),)
    assert (shown(driver, "a").unheld, shown(driver, "a").not_ready) == (("memory", "time"), reason)
    assert (shown(driver, "b").unheld, shown(driver, "b").not_ready) == (("time",), ())
    [card] = cluster_view(driver.machine).nodes[0].cards
    assert {one.name: one.unheld for one in card.tenants} == {
        "a": ("memory", "time"),
        "b": ("time",),
    }
    assert card.isolation == (
        BackendView(backend="driver", ready=True),
        BackendView(backend="mps", ready=False, reason="no running MPS daemon"),
    )
    assert unheld_pods(driver) == {"mps memory": 1, "mps time": 1, "driver time": 1}


def test_when_the_daemon_is_back_it_is_held_again() -> None:
    driver = Driver({"n1": 1}, THREE)
    told(driver, DAEMON)
    driver.place(asking("a", "mps", a_claim(300)))
    for now, unheld in ((DAEMON, ()), (NO_DAEMON, ("memory", "time")), (DAEMON, ())):
        told(driver, now)
        pod = shown(driver, "a")
        assert (pod.unheld, bool(pod.not_ready), unheld_pods(driver) != {}) == (
            (unheld, bool(unheld), bool(unheld))
        )


def test_what_nobody_tells_is_not_known_and_not_called_held() -> None:
    driver = Driver({"n1": 2}, THREE)
    driver.place(asking("a", "mps", a_claim(300)))
    pod = shown(driver, "a")
    assert (pod.not_ready, pod.unheld) == ((CardNotReadyView(uuid=pod.cards[0]),), ())
    assert unheld_pods(driver) == {"mps": 1}
    cards = cluster_view(driver.machine).nodes[0].cards
    assert {one.ready for card in cards for one in card.isolation} == {None}


def test_only_back_ends_that_pods_may_use_are_shown() -> None:
    driver = Driver({"n1": 1})
    told(driver, NO_DAEMON)
    [card] = cluster_view(driver.machine).nodes[0].cards
    assert card.isolation == ()


def test_a_card_that_is_known_to_work_goes_before_a_fuller_one_and_a_fuller_node() -> None:
    driver = Driver({"n1": 2, "n2": 1}, THREE)
    told(driver, NO_DAEMON, DAEMON)
    told(driver, NO_DAEMON, node="n2")
    for name in ("filling", "more"):
        driver.place(asking(name, "none", a_claim(300)))
    before = cluster_view(driver.machine)
    [used] = [card for node in before.nodes for card in node.cards if card.tenants]
    told(driver, *(DAEMON if uuid != used.uuid else NO_DAEMON for uuid in ("GPU-n1-0", "GPU-n1-1")))
    bind = driver.place(asking("a", "mps", a_claim(300)))
    assert bind.node == "n1"
    assert bind.allocation.cards[0].uuid != used.uuid
    assert shown(driver, "a").unheld == ()
    # Others go where they went before.
    assert driver.place(asking("b", "none", a_claim(300))).allocation.cards[0].uuid == used.uuid


@pytest.mark.parametrize(("document", "places"), [(THREE, True), (ONLY_READY, False)])
def test_a_profile_says_whether_pods_wait_for_a_card_that_holds_them(
    document: Any, places: bool
) -> None:
    driver = Driver({"n1": 1}, document)
    told(driver, NO_DAEMON)
    pod = asking("a", "mps", a_claim(300))
    assert bool(driver.seen(pod)) is places
    if places:
        return
    found = why(driver.machine, pod.key)
    assert found is not None
    assert "1 GPU with no running MPS daemon" in found.message
    [node] = found.nodes
    assert node.shortfalls[0].reason == "GPU with no running MPS daemon"
    # Another back-end of the same cards, and the same once its daemon runs.
    assert driver.seen(asking("b", "driver", a_claim(300)))
    told(driver, DAEMON)
    [bind] = driver.decide()
    assert bind.uid == pod.uid


def test_a_pod_that_waits_and_changes_its_wish_is_asked_about_anew() -> None:
    driver = Driver({"n1": 1}, ONLY_READY)
    told(driver, NO_DAEMON)
    assert not driver.seen(asking("a", "mps", a_claim(300)))
    [bind] = driver.seen(asking("a", "driver", a_claim(300)))
    assert bind.allocation.backend == "driver"


def test_a_pod_that_waits_is_told_where_its_back_end_would_not_work() -> None:
    driver = Driver({"n1": 3, "n2": 1}, THREE)
    told(driver, NO_DAEMON, DAEMON, NO_DAEMON)
    driver.tell(PodSeen(asking("late", "mps", a_claim(300))))
    found = why(driver.machine, PodKey("default", "late"))
    assert found is not None
    assert {node.name: node.not_ready for node in found.nodes} == {
        "n1": (CardsNotReadyView(cards=2, reason="no running MPS daemon"),),
        "n2": (CardsNotReadyView(cards=1),),
    }


def test_shares_are_counted_by_what_is_to_hold_them() -> None:
    *_, figures = pod_figures(placed("none", "driver", "mps").machine)
    assert figures.shares == {"none": 1, "driver": 1, "mps": 1}
