"""Zones and regions that labels of volumes name."""

import pytest

from kubeshare_py.cluster.storage_index import NodeLabels
from kubeshare_py.cluster.volume_places import ClaimProblem, in_zone, volume_topologies
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.pod import PodClaim, PodVolumes
from kubeshare_py.domain.storage import StorageClass
from kubeshare_py.testing import a_node
from tests.cluster.storage_world import NS, StorageWorld, a_claim, a_volume, mounting

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


def fitting(*labels: tuple[str, str]) -> str:
    """Which nodes a claim fits whose volume has these labels: 1 or 0 for each."""
    world = StorageWorld(a_volume("v", labels=labels), nodes=0)
    nodes = [{ZONE: "a", REGION: "r"}, {ZONE: "b"}, {OLD_ZONE: "a"}, {REGION: "r"}, {}]
    for number, node in enumerate(nodes):
        world.ledger.put_node(a_node(f"n{number}", labels=node))
    world.put(a_claim("c", volume="v", bind_completed=True))
    topologies = volume_topologies(mounting("c"), world.storage)
    assert isinstance(topologies, list)
    return "".join(str(int(one)) for one in in_zone(NodeLabels(world.rows), topologies))


@pytest.mark.parametrize(
    ("labels", "fits"),
    [
        ([], "11111"),
        ([(ZONE, "a")], "10001"),
        ([(ZONE, "a__ b")], "11001"),
        ([(ZONE, "a__")], "11111"),
        ([(OLD_ZONE, "a")], "10101"),
        ([(ZONE, "a"), (REGION, "r")], "10001"),
        ([(REGION, "r")], "10011"),
        ([("zone", "a")], "11111"),
    ],
)
def test_a_node_has_the_zone_of_the_volume_or_no_such_label(
    labels: list[tuple[str, str]], fits: str
) -> None:
    assert fitting(*labels) == fits


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gone", 'persistentvolumeclaim "gone" not found'),
        ("lost", 'persistentvolume "away" not found'),
        ("plain", "PersistentVolumeClaim had no pv name and storageClass name"),
        ("classless", 'storageclass.storage.k8s.io "away" not found'),
        ("at-once", "PersistentVolume had no name"),
    ],
)
def test_a_claim_without_a_known_volume_is_named(name: str, said: str) -> None:
    world = StorageWorld(
        StorageClass(name="at-once"),
        a_claim("lost", volume="away"),
        a_claim("plain", class_name=""),
        a_claim("classless", class_name="away"),
        a_claim("at-once", class_name="at-once"),
    )
    assert volume_topologies(mounting(name), world.storage) == ClaimProblem(said)


def test_a_claim_that_waits_for_its_node_has_no_zone_yet() -> None:
    world = StorageWorld(StorageClass(name="local", waits=True), a_claim("c"))
    assert volume_topologies(mounting("c"), world.storage) == []


def test_ephemeral_volumes_have_no_zone_of_their_own() -> None:
    volumes = PodVolumes(namespace=NS, claims=(PodClaim("p-v", PodUid("u"), "p"),))
    assert volume_topologies(volumes, StorageWorld().storage) == []
