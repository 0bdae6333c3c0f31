"""The documented output of `kubectl inspect gpushare`, from nodes and pods as they are written."""

import json

from tests.dialects.inspect_table import COUNT, MEM, Json, summary

ALLOCATION, INDEX = "scheduler.framework.gpushare.allocation", "ALIYUN_COM_GPU_MEM_IDX"


def a_node(name: str, address: str, cards: int, units: int) -> Json:
    status = {
        "allocatable": {MEM: str(units), COUNT: str(cards)},
        "addresses": [{"type": "InternalIP", "address": address}],
    }
    return {"metadata": {"name": name}, "status": status}


def a_pod(node: str, units: int, phase: str = "Running", **annotations: str) -> Json:
    limits = {"resources": {"limits": {MEM: str(units)}}}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"nodeName": node, "containers": [limits]},
        "status": {"phase": phase},
    }


def test_the_documented_table() -> None:
    """gpushare D: both generations, a pod without an index, and nodes of one and two cards."""
    nodes = [a_node("n1", "10.0.0.1", 2, 30), a_node("n2", "10.0.0.2", 1, 15)]
    second = {ALLOCATION: json.dumps({"0": {"0": 2, "1": 4}})}
    pods = [
        a_pod("n1", 2, **{INDEX: "0"}),
        a_pod("n1", 6, **second),
        a_pod("n1", 3, **{INDEX: "abc"}),
        a_pod("n2", 4, **{INDEX: "0"}),
        a_pod("n2", 9, "Succeeded", **{INDEX: "0"}),
    ]
    said = summary(nodes, pods).splitlines()
    assert said[:3] == [
        "NAME  IPADDRESS  GPU0(Allocated/Total)  GPU1(Allocated/Total)  PENDING(Allocated)"
        "  GPU Memory(GiB)",
        "n1    10.0.0.1   4/15                   4/15                   3                   11/30",
        "n2    10.0.0.2   4/15                   0/0                                        4/15",
    ]
    assert said[-2:] == ["Allocated/Total GPU Memory In Cluster:", "15/45 (33%)"]


def test_the_user_guides_two_nodes() -> None:
    """Two and one pods of three units."""
    nodes = [a_node("n1", "10.0.0.1", 1, 15), a_node("n2", "10.0.0.2", 1, 15)]
    pods = [a_pod(node, 3, **{INDEX: "0"}) for node in ("n1", "n1", "n2")]
    said = summary(nodes, pods).splitlines()
    assert [line.split()[-1] for line in said[1:3]] == ["6/15", "3/15"]
    assert said[-1] == "9/30 (30%)"


def test_without_nodes_of_gpushare_the_table_is_empty() -> None:
    """A header without columns for GPUs, and 0/0 (0%)."""
    said = summary([{"metadata": {"name": "cpu"}, "status": {}}], [])
    assert said.splitlines() == [
        "NAME  IPADDRESS  GPU Memory()",
        "",
        "Allocated/Total GPU Memory In Cluster:",
        "0/0 (0%)",
    ]
