"""What plugins ask about volumes, of the ledger's rows and of those that are only tried."""

from kubeshare_py.cluster.charge import Charge
from kubeshare_py.cluster.overlay import Overlay, Tables
from kubeshare_py.cluster.rows import OneRow
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import PlacedPod, VolumeChoice
from kubeshare_py.domain.storage import StorageClass
from tests.cluster.storage_world import (
    NS,
    StorageWorld,
    a_claim,
    a_volume,
    chosen,
    mounting,
    on,
)

LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)


def a_world() -> StorageWorld:
    """Two claims that wait, and two volumes on n2."""
    world = StorageWorld(LOCAL, a_claim("c"), a_claim("d"))
    world.put(a_volume("v", 5, node_terms=on("n2")), a_volume("w", 9, node_terms=on("n2")))
    return world


def choice_at(tables: Tables, node: str, claim: str) -> VolumeChoice | None:
    """What a pod with this claim gets there."""
    row = tables.columns.row_of[NodeName(node)]
    pod = PlacedPod(namespace=NS, volumes=mounting(claim))
    return OneRow(tables.columns, row).volumes.with_choice(pod).choice


def test_a_charged_pod_keeps_its_volume_from_others_until_it_is_released() -> None:
    ledger = a_world().ledger
    first = choice_at(ledger, "n2", "c")
    assert first == chosen(("c", "v"))
    pod = PlacedPod(namespace=NS, volumes=mounting("c"), choice=first)
    ledger.charge(PodUid("u"), NodeName("n2"), (), None, pod)
    assert choice_at(ledger, "n2", "d") == chosen(("d", "w"))
    ledger.release(PodUid("u"))
    assert choice_at(ledger, "n2", "d") == chosen(("d", "v"))


def test_a_pod_that_is_only_tried_keeps_its_volume_from_others_that_are() -> None:
    ledger = a_world().ledger
    overlay = Overlay(ledger)
    row = ledger.columns.row_of[NodeName("n2")]
    pod = PlacedPod(namespace=NS, volumes=mounting("c"), choice=chosen(("c", "v")))
    charge = Charge(NodeName("n2"), (), None, pod)
    overlay.place(row, charge, ())
    assert choice_at(overlay, "n2", "d") == chosen(("d", "w"))
    assert choice_at(ledger, "n2", "d") == chosen(("d", "v"))
    overlay.remove(row, charge)
    assert choice_at(overlay, "n2", "d") == chosen(("d", "v"))
    overlay.place(row, charge, ())
    overlay.follow()
    assert choice_at(overlay, "n2", "d") == chosen(("d", "v"))


def test_a_pod_that_does_not_fit_and_one_without_claims_get_nothing() -> None:
    world = a_world()
    assert choice_at(world.ledger, "n1", "c") is None
    assert choice_at(world.ledger, "n2", "gone") is None
    bound = a_claim("bound", volume="v", bind_completed=True)
    world.put(bound)
    assert choice_at(world.ledger, "n2", "bound") is None
    row = OneRow(world.ledger.columns, 0)
    plain = PlacedPod(namespace=NS)
    assert row.volumes.with_choice(plain) is plain
