"""Ports of the node, against kube-scheduler's table of ports in use."""

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from kubeshare_plugins.kubernetes.node_ports import NodePorts
from kubeshare_py.domain.identity import NodeName, PodUid
from kubeshare_py.domain.pod import ANY_ADDRESS, HostPort, PlacedPod
from kubeshare_py.testing import SmallCluster, expect_contract
from tests.making import a_shape

TAKEN = "node(s) didn't have free ports for the requested pod ports"
PORT = st.builds(
    HostPort,
    st.sampled_from([80, 81]),
    st.sampled_from(["TCP", "UDP"]),
    st.sampled_from([ANY_ADDRESS, "10.0.0.1", "10.0.0.2", "::"]),
)
PORTS = st.sets(PORT, max_size=3).map(lambda ports: tuple(sorted(ports)))
NODES = st.lists(st.lists(PORTS, max_size=3), min_size=1, max_size=3)
HTTP = (HostPort(80),)


def place(cluster: SmallCluster, node: str, uid: str, ports: tuple[HostPort, ...]) -> PodUid:
    pod = PlacedPod(namespace="ns", host_ports=ports)
    cluster.ledger.charge(PodUid(uid), NodeName(node), (), None, pod)
    return PodUid(uid)


def is_free(wanted: HostPort, held: list[tuple[HostPort, ...]]) -> bool:
    by_address: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for ports in held:
        for one in ports:
            by_address[one.address].add((one.protocol, one.port))
    key = wanted.protocol, wanted.port
    if wanted.address == ANY_ADDRESS:
        return not any(key in ports for ports in by_address.values())
    return key not in by_address[ANY_ADDRESS] and key not in by_address[wanted.address]


@given(NODES, PORTS)
def test_ports_that_conflict_are_refused(
    nodes: list[list[tuple[HostPort, ...]]], wanted: tuple[HostPort, ...]
) -> None:
    cluster = SmallCluster(NodePorts())
    fits = set()
    for at, pods in enumerate(nodes):
        cluster.node(f"n{at}")
        for number, ports in enumerate(pods):
            place(cluster, f"n{at}", f"p{at}-{number}", ports)
        if all(is_free(one, pods) for one in wanted):
            fits.add(f"n{at}")
    shape = a_shape(host_ports=wanted)
    assert cluster.where(shape) == fits
    refused = len(nodes) - len(fits)
    assert cluster.why(shape) == ({TAKEN: refused} if refused else {})
    expect_contract(cluster, shape)


def test_a_port_is_free_once_the_last_pod_with_it_is_gone() -> None:
    cluster = SmallCluster(NodePorts())
    cluster.node("n1")
    shape = a_shape(host_ports=HTTP)
    first, second = (place(cluster, "n1", name, HTTP) for name in "ab")
    cluster.ledger.release(first)
    assert cluster.where(shape) == set()
    cluster.ledger.release(second)
    assert cluster.where(shape) == {"n1"}


def test_evictions_help() -> None:
    cluster = SmallCluster(NodePorts())
    cluster.node("n1")
    place(cluster, "n1", "a", HTTP)
    assert cluster.evaluator.evictable_rows(a_shape(host_ports=HTTP)).tolist() == [0]


def test_a_node_takes_one_pod_with_a_port() -> None:
    assert NodePorts().capacity_bound(a_shape()) is None
    cluster = SmallCluster(NodePorts())
    cluster.node("n1")
    shape = a_shape(host_ports=HTTP)
    (bound,) = cluster.evaluator.bounds(shape)
    assert bound(cluster.ledger.what_if(cluster.evaluator.row_scores(shape)[:1])).tolist() == [1]


def test_people_are_told_which_port_is_taken() -> None:
    cluster = SmallCluster(NodePorts())
    cluster.node("n1")
    place(cluster, "n1", "a", (HostPort(53, "UDP", "10.0.0.1"),))
    wanted = (HostPort(53, "TCP"), HostPort(53, "UDP"))
    (short,) = cluster.explain(a_shape(host_ports=wanted))
    assert (short.reason, short.resource) == (TAKEN, "host port 53/UDP at 0.0.0.0")
    assert (short.asked, short.free, short.unit) == (1, 0, "count")


def test_pods_without_ports_are_not_asked_about() -> None:
    cluster = SmallCluster(NodePorts())
    cluster.node("n1")
    place(cluster, "n1", "a", HTTP)
    assert cluster.where(a_shape()) == {"n1"}
    assert not cluster.evaluator.results.prepared(a_shape()).row_filters[1:]
