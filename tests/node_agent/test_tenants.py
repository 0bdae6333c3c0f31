"""The pods of a node, from lists and changes."""

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.node_agent.tenants import NodeTenant, Tenants

A, B = PodUid("a"), PodUid("b")


def tenant(uid: PodUid, name: str = "", is_running: bool = False) -> NodeTenant:
    return NodeTenant(uid=uid, key=PodKey("default", name or uid), is_running=is_running)


def test_before_the_first_list_nothing_is_known_and_an_empty_list_is_news() -> None:
    tenants = Tenants()
    assert tenants.by_uid is None
    assert tenants.listed([])
    assert tenants.by_uid == {}
    assert not tenants.listed([])


def test_changes_count_only_if_something_differs() -> None:
    tenants = Tenants()
    tenants.listed([tenant(A)])
    assert not tenants.changed(A, tenant(A))
    assert tenants.changed(A, tenant(A, is_running=True))
    assert tenants.changed(A, None)
    assert not tenants.changed(A, None)
    assert tenants.by_uid == {}


def test_a_new_pod_of_the_same_name_is_another_pod() -> None:
    tenants = Tenants()
    tenants.listed([tenant(A, "train")])
    tenants.changed(B, tenant(B, "train"))
    tenants.changed(A, None)
    assert tenants.by_uid == {B: tenant(B, "train")}


def test_an_undecodable_pod_keeps_its_last_value_and_a_missing_one_is_gone() -> None:
    tenants = Tenants()
    tenants.listed([tenant(A), tenant(B)])
    tenants.listed([], undecoded=[A, PodUid("never seen")])
    assert tenants.by_uid == {A: tenant(A)}


def test_they_are_sorted_by_name_and_do_not_change_afterwards() -> None:
    tenants = Tenants()
    tenants.listed([tenant(A, "z"), tenant(B, "y")])
    before = tenants.by_uid
    assert before is not None
    assert [*before] == [B, A]
    tenants.changed(A, None)
    assert [*before] == [B, A]
