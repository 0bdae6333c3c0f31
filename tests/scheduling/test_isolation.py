"""What a placement is held to: the profile's back-ends, the pod's wish, the Binding."""

from typing import Any

import pytest

from kubeshare_py.domain.request import GpuClaim, GpuRequest
from kubeshare_py.manifests.binding import binding_annotations
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
