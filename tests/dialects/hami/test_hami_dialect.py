"""HAMi as a dialect beside others: whose pods and nodes are its own."""

import pytest

from kubeshare_py.dialects.card_visibility import CardVisibility
from kubeshare_py.dialects.dialect import NodeKeys, PodAsk, owns_by
from kubeshare_py.dialects.dialects import Dialects, DialectTable
from kubeshare_py.dialects.nvidia_dialect import Nvidia
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.node import AGENT_ANNOTATION, slices_of
from kubeshare_py.domain.request import GpuRequest, InvalidRequest
from tests.dialects.hami.pods import GPU, HAMI, MEM, containers

TABLE = DialectTable((SHAREDGPU, Nvidia(), HAMI))


@pytest.mark.parametrize(
    ("annotations", "is_its_own"),
    [
        ({"hami.io/node-nvidia-register": "[]"}, True),
        ({"4pd.io/node-nvidia-register": ":"}, True),
        ({AGENT_ANNOTATION: '{"v": 1, "plugins": ["nvidia.com/gpu as slices"]}'}, True),
        ({AGENT_ANNOTATION: '{"v": 1, "plugins": ["nvidia.com/gpu"]}'}, False),
        ({}, False),
    ],
)
def test_it_owns_the_count_where_devices_are_slices(
    annotations: dict[str, str], is_its_own: bool
) -> None:
    node = NodeKeys("n1", {}, annotations)
    assert owns_by(HAMI, GPU, node) is is_its_own
    if AGENT_ANNOTATION in annotations:
        assert owns_by(Nvidia(), GPU, node) is not is_its_own
    assert slices_of(GPU) == "nvidia.com/gpu as slices"


def test_its_pods_go_where_it_owns_the_count() -> None:
    asked = containers({GPU: 1, MEM: 100})
    found = TABLE.read(PodAsk({}, {}, asked))
    assert isinstance(found, GpuRequest)
    assert found.dialect == "hami"
    assert TABLE.marks(found, asked) == ("nvidia.com/gpu of hami",)
    assert [rule.label for rule in TABLE.node_rules(found)] == ["gpu"]


def test_whole_cards_go_where_either_dialect_owns_the_count() -> None:
    """A share goes to slices only; whole cards to those and to nodes of the dialect nvidia."""
    asked = containers({GPU: 1})
    found = TABLE.read(PodAsk({}, {}, asked))
    assert isinstance(found, GpuRequest)
    [mark] = TABLE.marks(found, asked)
    assert mark == "nvidia.com/gpu of hami or nvidia"
    both = Dialects({"kubeshare-scheduler": (SHAREDGPU, Nvidia(), HAMI)})
    alone = Dialects({"kubeshare-scheduler": (SHAREDGPU, HAMI)})
    for owner in ("hami", "nvidia"):
        assert mark in both.owner_marks(((GPU, owner),))
    assert mark not in both.owner_marks(())
    assert alone.owner_marks(((GPU, "hami"),)) == ("nvidia.com/gpu of hami",)


def test_a_pod_cannot_use_it_beside_labels_of_kubeshare() -> None:
    pod = PodAsk({"sharedgpu/gpu_request": "0.5"}, {}, containers({GPU: 1, MEM: 100}))
    found = TABLE.read(pod)
    assert isinstance(found, InvalidRequest)
    assert "a pod can only use one dialect" in str(found)


def test_containers_that_ask_see_their_part() -> None:
    rules = {one.resource: one.sees for one in HAMI.container_rules}
    assert rules == dict.fromkeys(
        (GPU, MEM, "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"), CardVisibility.SHARE
    )
