"""How far nodes are from each other."""

from kubeshare_py.domain.identity import NodeName
from kubeshare_py.topology.places import LABELS, hops_from, place_graph
from tests.builders import a_node

REGION, ZONE, RACK, CLIQUE = LABELS


def hops(one: str, **places: dict[str, str]) -> dict[str, int]:
    nodes = [a_node(name, labels=labels) for name, labels in places.items()]
    return {str(name): far for name, far in hops_from(place_graph(nodes), NodeName(one)).items()}


def test_the_narrower_the_place_that_two_nodes_share_the_nearer_they_are() -> None:
    east = {REGION: "east", ZONE: "a"}
    assert hops(
        "n",
        n={**east, RACK: "1", CLIQUE: "x.0"},
        tray={**east, RACK: "1", CLIQUE: "x.0"},
        rack={**east, RACK: "1", CLIQUE: "x.1"},
        zone={**east, RACK: "2", CLIQUE: "y.0"},
        region={REGION: "east", ZONE: "b", RACK: "1", CLIQUE: "z.0"},
        away={REGION: "west", ZONE: "a", RACK: "1", CLIQUE: "x.0"},
    ) == {"n": 0, "tray": 2, "rack": 4, "zone": 6, "region": 8, "away": 10}


def test_racks_of_one_name_in_two_zones_are_two() -> None:
    found = hops("n", n={ZONE: "a", RACK: "1"}, other={ZONE: "b", RACK: "1"})
    assert found["other"] == 6


def test_labels_that_are_missing_or_empty_are_passed_over() -> None:
    assert hops("n", n={}, m={}, o={ZONE: "a"}, p={ZONE: ""}) == {"n": 0, "m": 2, "o": 3, "p": 2}


def test_a_cluster_may_have_labels_of_its_own() -> None:
    nodes = [a_node("n", labels={"block": "7"}), a_node("m", labels={"block": "7"})]
    assert hops_from(place_graph(nodes, ["block"]), NodeName("n")) == {"n": 0, "m": 2}
