"""Where the claims of a pod can have their volumes, and which."""

from typing import Any

import pytest

from kubeshare_py.domain.cluster_objects import Requirement
from kubeshare_py.domain.pod import NodeTerm
from kubeshare_py.domain.storage import (
    ClaimReference,
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    StorageClass,
)
from kubeshare_py.testing import a_node
from tests.cluster.storage_world import (
    HOST,
    NS,
    ZONE,
    StorageWorld,
    a_claim,
    a_volume,
    chosen,
    mounting,
    on,
)

LOCAL = StorageClass(name="local", provisioner="kubernetes.io/no-provisioner", waits=True)
MADE = StorageClass(name="made", provisioner="d", csi_driver="d", waits=True)
NONE = "no volume"


def test_a_bound_claim_goes_where_its_volume_is() -> None:
    world = StorageWorld(a_volume("v", node_terms=on("n2"), phase="Bound"))
    world.put(a_claim("c", volume="v", bind_completed=True))
    assert world.said("c") == ["elsewhere", "", "elsewhere"]


def test_a_bound_volume_without_affinity_is_everywhere() -> None:
    world = StorageWorld(a_volume("v"), a_claim("c", volume="v", bind_completed=True))
    assert world.said("c") == ["", "", ""]


def test_a_bound_volume_that_is_not_there_is_missing_unless_another_is_elsewhere() -> None:
    world = StorageWorld(
        a_volume("v", node_terms=on("n2")),
        a_claim("c", volume="v", bind_completed=True),
        a_claim("d", volume="gone", bind_completed=True),
    )
    assert world.said("c", "d") == ["elsewhere", "missing", "elsewhere"]
    assert world.said("d", "c") == ["missing"] * 3


@pytest.mark.parametrize(
    ("terms", "fits"),
    [
        ((NodeTerm((Requirement(ZONE, "NotIn", ("a",)),)),), "010"),
        ((NodeTerm((Requirement(ZONE, "Exists"),)),), "111"),
        ((NodeTerm((Requirement(HOST, "In", ("n1", "n3")), Requirement(ZONE, "Exists"))),), "101"),
        ((*on("n1"), *on("b", key=ZONE)), "110"),
        ((), "000"),
        ((NodeTerm(),), "000"),
        ((NodeTerm((), (Requirement("metadata.name", "In", ("n1",)),)),), "000"),
        ((NodeTerm((), (Requirement("metadata.name", "NotIn", ("n1",)),)),), "111"),
        (on("n4"), "000"),
    ],
)
def test_the_node_affinity_of_volumes(terms: tuple[NodeTerm, ...], fits: str) -> None:
    world = StorageWorld(
        LOCAL,
        a_volume("v", node_terms=terms),
        a_claim("bound", volume="v", bind_completed=True),
        a_claim("c"),
    )
    assert world.places("bound").fits.tolist() == [one == "1" for one in fits]
    assert world.places("c").fits.tolist() == [one == "1" for one in fits]


@pytest.mark.parametrize(
    ("operator", "value", "fits"),
    [("Gt", "2", "001"), ("Lt", "2", "100"), ("Gt", "x", "000"), ("Lt", "+3", "110")],
)
def test_numbers_in_labels_are_compared(operator: str, value: str, fits: str) -> None:
    world = StorageWorld()
    for number in "123":
        world.ledger.put_node(a_node(f"n{number}", labels={"size": number}))
    terms = (NodeTerm((Requirement("size", operator, (value,)),)),)
    world.put(a_volume("v", node_terms=terms), a_claim("c", volume="v", bind_completed=True))
    assert world.places("c").fits.tolist() == [one == "1" for one in fits]


def test_where_a_driver_replaced_a_plugin_the_volume_names_the_driver_s_labels() -> None:
    volume = a_volume("v", in_tree="plugin", node_terms=on("n1", "n2"), migrated_terms=on("n3"))
    world = StorageWorld(volume)
    world.put(a_claim("c", volume="v", bind_completed=True))
    world.put(CsiNode(name="n2", migrated=("other", "plugin")), CsiNode(name="n1"))
    assert world.said("c") == ["", "elsewhere", "elsewhere"]
    world.put(CsiNode(name="n3", migrated=("plugin",)))
    assert world.said("c") == ["", "elsewhere", ""]


def test_the_smallest_free_volume_that_is_large_enough_is_taken() -> None:
    world = StorageWorld(LOCAL, a_claim("c", 5))
    world.put(*(a_volume(f"v{size}", size) for size in (9, 4, 6, 7)))
    world.put(a_volume("near", 5, node_terms=on("n2")))
    assert world.said("c") == ["c=v6", "c=near", "c=v6"]


def test_volumes_of_one_size_are_taken_by_name() -> None:
    world = StorageWorld(LOCAL, a_claim("c"), a_volume("b"), a_volume("a"))
    assert world.said("c") == ["c=a"] * 3


@pytest.mark.parametrize(
    "fields",
    [
        {"phase": "Released"},
        {"deleting": True},
        {"capacity": 4},
        {"class_name": "other"},
        {"volume_mode": "Block"},
        {"attributes_class": "gold"},
        {"access_modes": ("ReadOnlyMany",)},
        {"labels": (("disk", "hdd"),)},
        {"claim": ClaimReference(NS, "other")},
        {"claim": ClaimReference(NS, "c", "of a claim before")},
    ],
    ids=str,
)
def test_a_volume_that_does_not_suit_is_not_taken(fields: dict[str, Any]) -> None:
    suits: dict[str, Any] = {
        "access_modes": ("ReadWriteOnce", "ReadOnlyMany"),
        "labels": (("disk", "ssd"),),
    }
    claim = a_claim(
        "c",
        access_modes=("ReadWriteOnce",),
        selector=(Requirement("disk", "In", ("ssd",)),),
    )
    capacity = {"capacity": 10}
    good, bad = (StorageWorld(LOCAL, claim, nodes=1) for _ in range(2))
    good.put(a_volume("v", **{**capacity, **suits}))
    bad.put(a_volume("v", **{**capacity, **suits, **fields}))
    assert good.said("c") == ["c=v"]
    assert bad.said("c") == [NONE]


def test_a_volume_that_names_the_claim_comes_first_whatever_its_size_and_access() -> None:
    world = StorageWorld(LOCAL, a_claim("c"), a_volume("small", 5))
    own: dict[str, Any] = {
        "claim": ClaimReference(NS, "c"),
        "phase": "Pending",
        "node_terms": on("n2"),
    }
    world.put(a_volume("own", 50, **own))
    assert world.said("c") == [NONE, "c=own", NONE]


def test_a_volume_that_names_the_claim_and_is_too_small_does_not_count() -> None:
    world = StorageWorld(LOCAL, a_claim("c"), a_volume("free", 5))
    world.put(a_volume("own", 4, claim=ClaimReference(NS, "c")))
    assert world.said("c") == ["c=free"] * 3


def test_claims_of_one_pod_get_different_volumes_the_smallest_claim_first() -> None:
    world = StorageWorld(LOCAL, a_claim("large", 8), a_claim("small", 5))
    world.put(*(a_volume(f"v{size}", size) for size in (6, 9)))
    assert world.said("large", "small") == ["small=v6, large=v9"] * 3


def test_a_claim_is_not_left_without_because_another_took_the_nearest() -> None:
    claims = [a_claim(name) for name in "abc"]
    world = StorageWorld(LOCAL, *claims)
    world.put(*(a_volume(f"any{number}", 9) for number in range(2)))
    world.put(*(a_volume(f"near{number}", 5, node_terms=on("n2")) for number in range(2)))
    assert world.said("a", "b", "c") == [NONE, "a=near0, b=near1, c=any0", NONE]


def test_a_volume_that_another_pod_is_to_get_is_not_taken() -> None:
    world = StorageWorld(LOCAL, a_claim("c"), a_claim("d"), a_volume("v", 5), a_volume("w", 9))
    world.placed("n1", mounting("d"), chosen(("d", "v")))
    assert world.said("c") == ["c=w"] * 3


def test_a_second_pod_with_the_claim_gets_the_same_volume() -> None:
    world = StorageWorld(LOCAL, a_claim("c"), a_volume("v", 5))
    world.put(a_volume("w", 9, node_terms=on("n2")))
    world.placed("n2", mounting("c"), chosen(("c", "w")))
    assert world.said("c") == [NONE, "c=w", NONE]


def test_a_volume_is_made_where_there_is_none() -> None:
    world = StorageWorld(MADE, a_claim("c", class_name="made"))
    world.put(a_volume("v", class_name="made", node_terms=on("n1")))
    assert world.said("c") == ["c=v", "new c", "new c"]


def test_a_volume_is_made_where_the_class_allows_it() -> None:
    terms = ((Requirement(ZONE, "In", ("b",)),), (Requirement(HOST, "In", ("n3",)),), ())
    world = StorageWorld(a_claim("c", class_name="made"))
    world.put(StorageClass(name="made", provisioner="d", waits=True, topologies=terms))
    assert world.said("c") == [NONE, "new c", "new c"]


def test_a_volume_is_made_where_there_is_enough_storage_if_the_driver_tells() -> None:
    world = StorageWorld(MADE, a_claim("c", 5, class_name="made"))
    world.put(
        CsiStorageCapacity(name="a", namespace=NS, storage_class="made", largest=4, segment=()),
        CsiStorageCapacity(name="b", namespace=NS, storage_class="made", largest=9),
        CsiStorageCapacity(name="c", namespace=NS, storage_class="other", largest=9, segment=()),
        CsiStorageCapacity(
            name="d",
            namespace=NS,
            storage_class="made",
            largest=5,
            segment=(Requirement(HOST, "In", ("n2",)),),
        ),
    )
    assert world.said("c") == ["new c"] * 3
    world.put(CsiDriver(name="d", tracks_capacity=True))
    assert world.said("c") == ["too little", "new c", "too little"]
    world.put(a_claim("any", None, class_name="made"))
    assert world.said("any") == ["new any"] * 3


def test_the_first_claim_without_a_place_decides_what_is_said() -> None:
    world = StorageWorld(LOCAL, MADE, CsiDriver(name="d", tracks_capacity=True))
    world.put(a_claim("none", 1), a_claim("much", 5, class_name="made"))
    assert world.said("much", "none") == [NONE] * 3
    world.put(a_claim("none", 9))
    assert world.said("much", "none") == ["too little"] * 3


def test_a_claim_stays_on_the_node_that_was_selected_for_it() -> None:
    claim = a_claim("c", class_name="made", selected_node="n2")
    world = StorageWorld(MADE, claim, a_volume("v", class_name="made"))
    assert world.said("c") == [NONE, "new c", NONE]


def test_a_claim_stays_on_the_node_that_is_to_be_selected_for_it() -> None:
    world = StorageWorld(MADE, a_claim("c", class_name="made"))
    world.placed("n3", mounting("c"), chosen(provisions=["c"]))
    assert world.said("c") == [NONE, NONE, "new c"]


def test_on_a_selected_node_storage_may_be_too_little() -> None:
    claim = a_claim("c", class_name="made", selected_node="n2")
    world = StorageWorld(MADE, claim, CsiDriver(name="d", tracks_capacity=True))
    assert world.said("c") == [NONE, "too little", NONE]
