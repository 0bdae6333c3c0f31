"""Cards that administrators cordon: no new pods, whatever their dialect."""

import msgspec
import pytest

from kubeshare_plugins.gpu_fit import GpuFit
from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.identity import GpuUuid, NodeName
from kubeshare_py.manifests.node import NodeFields, to_domain
from kubeshare_py.testing import SmallCluster
from kubeshare_py.testing.values import a_node
from tests.making import a_claim, a_gpu, a_shape, whole

KEY = "hami.io/device-cordon"


@pytest.mark.parametrize(
    ("text", "cards"),
    [("GPU-a", ("GPU-a",)), (" GPU-b , ,GPU-a,", ("GPU-a", "GPU-b")), ("", ()), (" , ", ())],
)
def test_the_annotation_lists_uuids(text: str, cards: tuple[str, ...]) -> None:
    """Commas divide UUIDs; spaces around them and blank entries mean nothing, as in HAMi."""
    written = {"metadata": {"name": "n1", "annotations": {KEY: text}}}
    assert to_domain(msgspec.convert(written, NodeFields)).cordoned == cards


def cordon(cluster: SmallCluster, *uuids: str) -> None:
    cluster.ledger.put_node(a_node("n1", cordoned=tuple(map(GpuUuid, uuids))))


def test_a_cordoned_card_gets_no_new_pods_and_keeps_those_that_it_has() -> None:
    """A card may be taken again as soon as the annotation is removed."""
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("a", index=0))
    cluster.hold("n1", "a", 300)
    share = a_shape(a_claim(500))
    assert cluster.where(share) == {"n1"}
    cordon(cluster, "a")
    assert cluster.why(share) == {"cordoned GPU": 1}
    assert Shortfall(reason="cordoned GPU", subject="a") in cluster.explain(share)
    columns = cluster.ledger.columns
    assert columns.free_milli.item(0, 0) == 700
    cluster.hold("n1", "a", 100)
    assert cluster.where(share) == set()
    cordon(cluster)
    assert cluster.where(share) == {"n1"}
    assert columns.free_milli.item(0, 0) == 600
    assert len(cluster.ledger.pods_on(NodeName("n1"))) == 2


def test_instances_of_a_cordoned_card_are_cordoned_and_other_cards_are_not() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1", a_gpu("MIG-a", index=0, parent=GpuUuid("a")), a_gpu("b", index=1))
    cordon(cluster, "a")
    assert cluster.best(a_shape(whole(1))) == ("n1", ["b"])
    assert cluster.where(a_shape(whole(2))) == set()


def test_a_card_that_is_listed_later_is_cordoned_too() -> None:
    cluster = SmallCluster(GpuFit())
    cluster.node("n1")
    cordon(cluster, "a")
    cluster.ledger.put_cards(NodeName("n1"), (a_gpu("a"),))
    assert cluster.why(a_shape(a_claim(1))) == {"cordoned GPU": 1}
