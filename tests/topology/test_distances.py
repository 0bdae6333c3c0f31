"""How far two nodes are from each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.topology.distances import (
    CLIQUE,
    RACK,
    REGION,
    ZONE,
    Distance,
    Place,
    distance,
    distances_from,
    place_columns,
    place_of,
)
from kubeshare_py.topology.places import hops_from, place_graph
from kubeshare_py.topology.wiring import Wiring, fabric_of, wired
from tests.builders import a_gpu, a_node

HERE = Place(fabric="c.1", rack="r1", zone="a", region="east")

names = st.sampled_from(["", "1", "2"])
places = st.builds(Place, fabric=names, rack=names, zone=names, region=names)


@pytest.mark.parametrize(
    ("there", "far"),
    [
        (Place(fabric="c.1", rack="r2", zone="b", region="west"), Distance.SAME_FABRIC),
        (Place(fabric="c.2", rack="r1", zone="a", region="east"), Distance.SAME_RACK),
        (Place(rack="r2", zone="a", region="east"), Distance.SAME_ZONE),
        (Place(zone="a", region="east"), Distance.SAME_ZONE),
        (Place(rack="r1", zone="b", region="east"), Distance.SAME_REGION),
        (Place(rack="r1", zone="a", region="west"), Distance.ELSEWHERE),
        (Place(), Distance.ELSEWHERE),
    ],
)
def test_what_two_nodes_have_in_common_tells_how_far_they_are(there: Place, far: Distance) -> None:
    assert distance(HERE, there) is far
    assert distance(there, HERE) is far


def test_what_nobody_says_is_in_common_with_nobody() -> None:
    assert distance(Place(), Place()) is Distance.ELSEWHERE
    assert distance(Place(rack="1"), Place(rack="1")) is Distance.SAME_RACK
    assert distance(Place(rack="1"), Place(rack="1", zone="a")) is Distance.ELSEWHERE


def test_a_node_s_labels_say_where_it_is_and_its_driver_which_fabric_it_is_in() -> None:
    labels = {REGION: "east", ZONE: "a", RACK: "r1", CLIQUE: "c.1"}
    assert place_of(labels) == HERE
    assert place_of(labels, fabric="c.2").fabric == "c.2"
    assert place_of({}) == Place()


def test_nodes_whose_drivers_name_one_fabric_are_joined_by_nvlink() -> None:
    trays = [[a_gpu(f"GPU-{tray}{at}", index=at) for at in range(4)] for tray in range(2)]
    info = Wiring(fabric="c.1")
    one, other = (
        place_of({RACK: f"r{at}"}, fabric_of(wired(tray, info))) for at, tray in enumerate(trays)
    )
    assert distance(one, other) is Distance.SAME_FABRIC
    alone = place_of({RACK: "r1"}, fabric_of(trays[1]))
    assert distance(one, alone) is Distance.ELSEWHERE
    assert fabric_of([]) == ""


@given(st.lists(places, min_size=1, max_size=12), st.data())
def test_columns_say_the_same_for_one_node_and_all_others(
    cluster: list[Place], data: st.DataObject
) -> None:
    row = data.draw(st.integers(0, len(cluster) - 1))
    found = distances_from(place_columns(cluster), row)
    expected = [distance(cluster[row], there) for there in cluster]
    expected[row] = Distance.SAME_NODE
    assert found.tolist() == expected


filled = st.sampled_from(["1", "2"])


@given(st.lists(st.tuples(filled, filled, filled), min_size=1, max_size=8))
def test_where_nodes_have_all_labels_the_tree_of_places_says_the_same(
    cluster: list[tuple[str, str, str]],
) -> None:
    nodes = [
        a_node(f"n{at}", labels=dict(zip((REGION, ZONE, RACK), labels, strict=True)))
        for at, labels in enumerate(cluster)
    ]
    hops = hops_from(place_graph(nodes), NodeName("n0"))
    first = place_of(nodes[0].labels)
    for node in nodes[1:]:
        steps = (distance(first, place_of(node.labels)) - Distance.SAME_FABRIC) * 2
        assert hops[node.name] == steps
