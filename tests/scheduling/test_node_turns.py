"""Pods are bound one at a time where a device plugin allocates one pod at a time."""

from kubeshare_py.domain.events import (
    BindRefused,
    InventoryRead,
    NodeGone,
    NodesListed,
    PodGone,
    PodSeen,
    Refusal,
    WriteOutcome,
)
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.domain.storage import LockNode
from kubeshare_py.domain.values import replace
from kubeshare_py.scheduling.explain.explanation import why
from kubeshare_py.scheduling.node_turns import LOST_S, UNSEEN_S
from kubeshare_py.scheduling.queue.pod_records import PodState
from tests.making import (
    FREE,
    LOCK_KEY,
    Driver,
    a_claim,
    a_group,
    a_pod,
    a_shape,
    a_share,
    held_by,
    members,
    names,
    some_gpus,
)

HALF = a_shape(a_claim(500))
P, Q, R = (a_pod(name, HALF) for name in "pqr")


def waiting() -> Driver:
    """Two pods on the only node: the first has asked for the lock."""
    driver = Driver({"n1": 1}, locks=(FREE,))
    assert driver.show(P, Q) == []
    assert driver.locked() == [("n1", "p")]
    return driver


def first_bound() -> Driver:
    """The first pod got its turn and is bound; the second one waits."""
    driver = waiting()
    driver.wrote()
    binds = driver.turn()
    assert names(binds) == ["p"]
    driver.bound(binds, P)
    driver.show_lock(held_by("p"))
    assert driver.turn() == []
    return driver


def test_a_pod_asks_for_the_lock_and_is_bound_when_it_has_it() -> None:
    """The node has no annotation, so the lock is taken."""
    driver = waiting()
    write = driver.writes[0].write
    assert write == LockNode(node="n1", key=LOCK_KEY, namespace="default", pod="p")
    assert driver.states("p", "q") == [PodState.PREBINDING] * 2
    assert driver.machine.unanswered == 0
    driver.wrote()
    assert names(driver.turn()) == ["p"], "before the watch shows the lock"


def test_the_next_pod_waits_until_the_lock_is_free_and_then_asks_at_once() -> None:
    """It waits without a backoff."""
    driver = first_bound()
    assert driver.locked() == [("n1", "p")]
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked() == [("n1", "p"), ("n1", "q")]
    driver.wrote()
    assert names(driver.turn()) == ["q"]


def test_a_lock_that_the_pod_has_already_is_its_turn() -> None:
    """As after a restart: a lock of the same pod is granted again."""
    driver = Driver({"n1": 1}, locks=(held_by("p"),))
    assert names(driver.show(P)) == ["p"]
    assert driver.locked() == []


def test_pods_of_other_nodes_and_pods_that_need_no_lock_are_not_concerned() -> None:
    driver = first_bound()
    (plain,) = driver.show(a_pod("plain", a_shape(cpu=1)))
    assert plain.key.name == "plain"
    other = Driver({"n1": 1}, locks=(replace(FREE, dialect="another"),))
    assert names(other.show(P)) == ["p"]
    two = Driver({"n1": 1, "n2": 1}, locks=(FREE,))
    two.show(a_share("a"), a_share("b"))
    assert sorted(two.locked()) == [("n1", "a"), ("n2", "b")]


def test_a_node_whose_plugin_needs_no_lock_any_more_lets_all_pods_go() -> None:
    driver = first_bound()
    driver.show_lock(None)
    assert names(driver.turn()) == ["q"]


def test_pods_take_their_turns_in_the_order_in_which_they_were_placed() -> None:
    driver = Driver({"n1": 2}, locks=(FREE,))
    pods = [a_pod(name, HALF) for name in "dbca"]
    for pod in pods:
        driver.show(pod)
    for pod in pods:
        driver.wrote()
        assert names(driver.turn()) == [pod.key.name]
        driver.show_lock(held_by(pod.key.name))
        driver.show_lock(FREE)
        driver.turn()


def test_a_lock_that_was_taken_and_freed_between_two_iterations_is_free() -> None:
    driver = waiting()
    driver.wrote()
    driver.turn()
    driver.show_lock(held_by("p"))
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked() == [("n1", "p"), ("n1", "q")]


def test_a_watch_that_is_faster_than_the_answer_costs_no_time() -> None:
    driver = waiting()
    driver.show_lock(held_by("p"))
    assert driver.turn() == []
    driver.wrote()
    assert names(driver.turn()) == ["p"]
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked() == [("n1", "p"), ("n1", "q")]


def test_a_watch_that_is_behind_does_not_make_a_taken_lock_free() -> None:
    driver = waiting()
    driver.wrote()
    driver.turn()
    driver.show_lock(replace(FREE, names_owner=False))
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked() == [("n1", "p")]


def test_a_lock_that_the_watch_never_shows_is_asked_for_again_soon() -> None:
    driver = waiting()
    driver.wrote()
    driver.turn()
    driver.later(UNSEEN_S)
    assert driver.locked() == [("n1", "p"), ("n1", "q")]
    listed = waiting()
    listed.wrote()
    listed.turn()
    columns = listed.machine.ledger.columns
    listed.tell(NodesListed(tuple(one for one in columns.nodes if one is not None)))
    listed.turn()
    assert listed.locked() == [("n1", "p"), ("n1", "q")]


def test_another_client_that_was_faster_costs_no_pod_its_place() -> None:
    driver = waiting()
    driver.wrote(WriteOutcome.STALE)
    assert driver.turn() == []
    driver.show_lock(held_by("stranger"))
    driver.later(1.0)
    assert driver.locked() == [("n1", "p")]
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked()[1:] == [("n1", "p")]


def test_a_stale_answer_that_comes_after_the_news_is_tried_again_by_itself() -> None:
    driver = waiting()
    driver.show_lock(held_by("stranger"))
    driver.show_lock(FREE)
    driver.turn()
    driver.wrote(WriteOutcome.STALE)
    driver.later(1.0)
    assert driver.locked() == [("n1", "p")] * 2


def test_a_lost_answer_is_no_harm_whether_or_not_the_lock_was_taken() -> None:
    stored = waiting()
    stored.wrote(WriteOutcome.UNKNOWN)
    stored.show_lock(held_by("p"))
    assert names(stored.turn()) == ["p"]
    lost = waiting()
    lost.wrote(WriteOutcome.UNKNOWN)
    lost.later(10.0)
    assert lost.locked() == [("n1", "p")] * 2


def test_a_refused_write_ends_the_placement_with_its_reason_and_the_next_pod_tries() -> None:
    driver = waiting()
    driver.wrote(WriteOutcome.REFUSED, "nodes is forbidden")
    driver.turn()
    assert driver.told["p"] == "locking node n1: nodes is forbidden"
    assert driver.states("p") == [PodState.BACKOFF]
    driver.later(1.0)
    assert ("n1", "q") in driver.locked()


def test_a_pod_that_is_deleted_while_it_waits_lets_the_next_one_try() -> None:
    driver = waiting()
    driver.tell(PodGone(P.uid))
    driver.turn()
    assert driver.locked() == [("n1", "p")], "the answer is on its way"
    driver.wrote()  # the lock is taken for nobody: whoever watches over locks frees it
    assert driver.turn() == []
    driver.show_lock(held_by("p"))
    driver.show_lock(FREE)
    driver.turn()
    assert driver.locked()[-1] == ("n1", "q")
    assert len(driver.machine.pre_binds) == 1


def test_a_pod_that_is_edited_while_it_waits_is_placed_anew() -> None:
    driver = waiting()
    driver.tell(PodSeen(replace(Q, shape=a_shape(a_claim(400)))))
    driver.turn()
    driver.wrote()
    assert names(driver.turn()) == ["p"]
    assert driver.machine.ledger.charge_of(Q.uid) is not None


def test_a_refused_binding_leaves_the_lock_to_others_and_the_pod_is_tried_again() -> None:
    driver = waiting()
    driver.wrote()
    (bind,) = driver.turn()
    driver.answer(bind, BindRefused(Refusal.INVALID, "no"))
    assert driver.states("p", "q") == [PodState.BACKOFF, PodState.PREBINDING]


def test_a_node_that_is_gone_ends_all_placements_on_it() -> None:
    driver = first_bound()
    driver.show(R)
    driver.tell(NodeGone(NodeName("n1")))
    driver.turn()
    assert driver.told["q"] == 'node "n1" not found'
    assert len(driver.machine.pre_binds) == 0


def test_behind_a_lost_pod_one_waits_and_the_others_are_placed_elsewhere() -> None:
    """Never more than one pod is blocked by a lost one."""
    driver = Driver({"n1": 2, "n2": 2}, locks=(FREE,))
    pods = [replace(a_pod(name, HALF), node_name=None) for name in "pqrs"]
    for pod in pods:
        driver.show(pod)
    (node, _), *_ = driver.locked()
    driver.wrote()
    driver.bound(driver.turn(), pods[0])
    driver.show_lock(held_by("p"), node)
    driver.turn()
    # The inventory closes the cards of a node whose plugin does not answer.
    closed = tuple(replace(card, healthy=False) for card in some_gpus(node, 2))
    driver.tell(InventoryRead(((NodeName(node), closed),)))
    driver.later(LOST_S + 2.0)
    behind = [pod for pod in pods[1:] if driver.machine.records[pod.uid].node == node]
    elsewhere = [pod for pod in pods[1:] if pod not in behind]
    assert ([one.key.name for one in behind], len(elsewhere)) == (["q"], 2)
    assert (
        driver.told["r"]
        == f"the device plugin of node {node} has not given pod default/p its devices"
    )
    # They wait their turn on the other node.
    other = "n2" if node == "n1" else "n1"
    assert (other, "r") in driver.locked()
    driver.show_lock(FREE, node)
    driver.turn()
    assert (node, "q") in driver.locked(), "the lost pod's lock was freed"


def test_what_a_pod_waits_for_is_told_to_people() -> None:
    driver = first_bound()
    found = why(driver.machine, Q.key)
    assert found is not None
    assert found.pod.message == "waits for its turn at the device plugin of node n1"
    assert len(driver.machine.pre_binds) == 1


def test_members_of_a_gang_on_one_node_are_bound_in_turn() -> None:
    """HAMi's second member waits for five minutes."""
    driver = Driver({"n1": 2}, locks=(FREE,))
    pods = members(a_group(3), 3, a_claim(500))
    assert driver.show(*pods) == []
    bound: list[str] = []
    for _ in pods:
        driver.wrote()
        binds = driver.turn()
        bound += names(binds)
        driver.bound(binds, *pods)
        driver.show_lock(held_by(binds[0].key.name))
        driver.show_lock(FREE)
        driver.turn()
    assert sorted(bound) == ["g-0", "g-1", "g-2"]


def test_a_change_of_a_lock_alone_wakes_no_pod_and_changes_no_row() -> None:
    driver = Driver({"n1": 1}, locks=(FREE,))
    driver.show(a_share("big"), a_share("late"))
    attempts = driver.machine.records[a_pod("late").uid].attempts
    driver.show_lock(held_by("stranger"))
    driver.show_lock(FREE)
    driver.turn()
    assert driver.machine.records[a_pod("late").uid].attempts == attempts
