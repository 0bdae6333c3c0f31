"""What a placement is held to: the profile's back-ends, the pod's wish, the Binding."""

from typing import Any

import pytest

from kubeshare_py.domain.events import PodSeen
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.request import GpuClaim, GpuRequest
from kubeshare_py.manifests.binding import binding_annotations
from kubeshare_py.scheduling.explanation import cluster_view, why
from kubeshare_py.scheduling.figures import pod_figures
from tests.builders import a_claim, a_pod, a_shape, whole
from tests.scheduling.driver import Driver

THREE = {"profiles": [{"isolation": ["driver", "mps", "none"]}]}


def written(wish: str, claim: GpuClaim | None = None, document: Any = None) -> dict[str, str]:
    """The annotations of the Binding that says what holds the pod."""
    claim = claim or a_claim(500)
    request = GpuRequest(claim=claim, dialect="sharedgpu", limit_milli=750)
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


def test_a_wish_that_the_profile_does_not_allow_changes_nothing() -> None:
    assert written("gemini") == written("")


@pytest.mark.parametrize("document", [THREE, {}])
def test_none_writes_nothing_more(document: Any) -> None:
    assert written("none", document=document) == {}


def test_cards_of_its_own_are_isolation_enough() -> None:
    assert written("mps", whole(2)) == {}


def asking(name: str, wish: str, claim: GpuClaim) -> Pod:
    """A pod that wishes to be held by this back-end."""
    request = GpuRequest(claim=claim, dialect="sharedgpu", limit_milli=750)
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


def test_shares_are_counted_by_what_is_to_hold_them() -> None:
    *_, figures = pod_figures(placed("none", "driver", "mps").machine)
    assert figures.shares == {"none": 1, "driver": 1, "mps": 1}
