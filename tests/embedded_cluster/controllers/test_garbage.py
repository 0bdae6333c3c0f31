"""What goes when its owners are gone."""

from kubeshare_py.embedded_cluster.controllers.garbage import (
    FOREGROUND,
    ORPHAN,
    DeleteObject,
    Garbage,
    GarbageWork,
    LookForOwner,
    PatchObject,
)
from kubeshare_py.embedded_cluster.controllers.unstructured import (
    JOBS,
    PODS,
    ObjectKind,
    Owner,
    UnstructuredMetadata,
    UnstructuredObject,
    defined_by,
)

POD_PATH = "/api/v1/namespaces/ns/pods/"


def thing(
    name: str, *owners: Owner, deleted: bool = False, finalizers: tuple[str, ...] = ()
) -> UnstructuredObject:
    return UnstructuredObject(
        metadata=UnstructuredMetadata(
            name=name,
            namespace="ns",
            uid=f"uid-{name}",
            resourceVersion="7",
            ownerReferences=list(owners),
            deletionTimestamp="2026-01-01T00:00:00Z" if deleted else None,
            finalizers=list(finalizers),
        )
    )


def job(name: str, *, blocks: bool = True) -> Owner:
    return Owner(
        apiVersion="batch/v1", kind="Job", name=name, uid=f"uid-{name}", blockOwnerDeletion=blocks
    )


def watched(jobs: list[UnstructuredObject], pods: list[UnstructuredObject]) -> Garbage:
    garbage = Garbage([PODS, JOBS])
    garbage.listed(PODS, pods)
    garbage.listed(JOBS, jobs)
    return garbage


def deletions(work: list[GarbageWork]) -> list[str]:
    return [one.path for one in work if isinstance(one, DeleteObject)]


def test_paths_of_core_grouped_and_cluster_wide_kinds() -> None:
    assert PODS.path == "/api/v1/pods"
    assert JOBS.object_path("ns", "j") == "/apis/batch/v1/namespaces/ns/jobs/j"
    assert (
        ObjectKind("v1", "Node", "nodes", namespaced=False).object_path("", "n")
        == "/api/v1/nodes/n"
    )


def test_dependents_go_after_their_owner() -> None:
    garbage = watched([thing("j")], [thing("p", job("j")), thing("other")])
    assert garbage.work() == []
    garbage.gone("uid-j")
    assert garbage.work() == [DeleteObject(f"{POD_PATH}p", "uid-p")]
    assert garbage.work() == []


def test_nothing_is_done_before_everything_is_listed() -> None:
    garbage = Garbage([PODS, JOBS])
    garbage.listed(PODS, [thing("p", job("j"))])
    assert not garbage.has_work()
    assert garbage.work() == []
    garbage.listed(JOBS, [thing("j")])
    assert garbage.work() == []


def test_an_owner_never_seen_is_looked_for_before_anything_is_deleted() -> None:
    garbage = watched([], [thing("p", job("j")), thing("q", job("j"))])
    assert garbage.work() == [LookForOwner("/apis/batch/v1/namespaces/ns/jobs/j", "uid-j")]
    assert garbage.work() == []
    garbage.owner_absent("uid-j")
    assert deletions(garbage.work()) == [f"{POD_PATH}p", f"{POD_PATH}q"]


def test_a_change_of_the_dependent_does_not_bring_an_absent_owner_back() -> None:
    garbage = watched([thing("j")], [thing("p", job("j"))])
    garbage.gone("uid-j")
    garbage.seen(PODS, thing("p", job("j")))
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_one_living_owner_is_enough() -> None:
    garbage = watched([thing("a"), thing("b")], [thing("p", job("a"), job("b"))])
    garbage.gone("uid-a")
    assert garbage.work() == []
    garbage.gone("uid-b")
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_owners_of_kinds_nobody_watches_count_as_there() -> None:
    node = Owner(apiVersion="v1", kind="Node", name="n", uid="uid-n")
    assert watched([], [thing("p", node)]).work() == []


def test_chains_are_followed() -> None:
    garbage = watched([thing("a"), thing("b", job("a"))], [thing("p", job("b"))])
    garbage.gone("uid-a")
    assert deletions(garbage.work()) == ["/apis/batch/v1/namespaces/ns/jobs/b"]
    garbage.gone("uid-b")
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_a_failed_deletion_is_asked_for_again() -> None:
    garbage = watched([thing("j")], [thing("p", job("j"))])
    garbage.gone("uid-j")
    garbage.work()
    garbage.look_again("uid-p")
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_an_owner_missing_from_a_later_list_is_gone() -> None:
    garbage = watched([thing("j")], [thing("p", job("j"))])
    garbage.listed(JOBS, [])
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_a_foreground_deletion_waits_for_the_dependents_that_block_it() -> None:
    pods = [thing("p", job("j")), thing("q", job("j"))]
    garbage = watched([thing("j", deleted=True, finalizers=(FOREGROUND, "mine"))], pods)
    assert deletions(garbage.work()) == [f"{POD_PATH}p", f"{POD_PATH}q"]
    garbage.seen(PODS, thing("p", job("j"), deleted=True))
    garbage.gone("uid-p")
    assert not [work for work in garbage.work() if isinstance(work, PatchObject)]
    garbage.gone("uid-q")
    (patch,) = garbage.work()
    assert isinstance(patch, PatchObject)
    assert patch.path == "/apis/batch/v1/namespaces/ns/jobs/j"
    assert patch.body == {"metadata": {"finalizers": ["mine"], "resourceVersion": "7"}}


def test_dependents_that_do_not_block_are_not_waited_for() -> None:
    pods = [thing("p", job("j", blocks=False))]
    work = watched([thing("j", deleted=True, finalizers=(FOREGROUND,))], pods).work()
    assert [type(one) for one in work] == [DeleteObject, PatchObject]


def test_orphaned_dependents_stay() -> None:
    owner = thing("j", deleted=True, finalizers=(ORPHAN,))
    garbage = watched([owner, thing("k")], [thing("p", job("j"), job("k"))])
    (patch,) = garbage.work()
    assert isinstance(patch, PatchObject)
    assert patch.path == f"{POD_PATH}p"
    (left,) = patch.body["metadata"]["ownerReferences"]
    assert left["uid"] == "uid-k"
    garbage.seen(PODS, thing("p", job("k")))
    (last,) = garbage.work()
    assert isinstance(last, PatchObject)
    assert last.body["metadata"]["finalizers"] == []
    garbage.gone("uid-j")
    assert garbage.work() == []


WIDGETS = ObjectKind("example.com/v1", "Widget", "widgets")
OLD_WIDGETS = ObjectKind("example.com/v1beta1", "Widget", "widgets")


def widget(name: str, version: str = "v1") -> Owner:
    api_version = f"example.com/{version}"
    return Owner(apiVersion=api_version, kind="Widget", name=name, uid=f"uid-{name}")


def test_kinds_may_come_later_and_nothing_is_done_before_they_are_listed() -> None:
    garbage = watched([], [thing("p", widget("w")), thing("q", widget("none", "v1beta1"))])
    assert garbage.work() == []
    garbage.watch(WIDGETS, [OLD_WIDGETS])
    garbage.gone("uid-none")
    assert garbage.work() == []
    garbage.listed(WIDGETS, [thing("w")])
    assert deletions(garbage.work()) == [f"{POD_PATH}q"]
    garbage.gone("uid-w")
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_owners_are_looked_for_whatever_version_names_them() -> None:
    garbage = watched([], [thing("p", widget("lost", "v1beta1"))])
    garbage.watch(WIDGETS, [OLD_WIDGETS])
    garbage.listed(WIDGETS, [])
    path = "/apis/example.com/v1/namespaces/ns/widgets/lost"
    assert garbage.work() == [LookForOwner(path, "uid-lost")]


def test_owners_of_a_kind_that_is_no_more_are_gone() -> None:
    garbage = watched([], [thing("p", widget("w"))])
    garbage.watch(WIDGETS)
    garbage.listed(WIDGETS, [thing("w")])
    assert garbage.work() == []
    garbage.unwatch(WIDGETS)
    assert deletions(garbage.work()) == [f"{POD_PATH}p"]


def test_owners_that_are_seen_again_were_never_gone() -> None:
    garbage = watched([], [thing("p", widget("w"))])
    garbage.watch(WIDGETS)
    garbage.listed(WIDGETS, [thing("w")])
    garbage.unwatch(WIDGETS)
    garbage.watch(OLD_WIDGETS, [WIDGETS])
    garbage.listed(OLD_WIDGETS, [thing("w")])
    assert garbage.work() == []


def test_a_definition_makes_a_kind_in_every_served_version_once_it_is_established() -> None:
    def definition(established: str) -> UnstructuredObject:
        served = [{"name": "v1", "served": True}, {"name": "v2", "served": False}]
        names = {"kind": "Widget", "plural": "widgets"}
        spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": served}
        status = {"conditions": [{"type": "Established", "status": established}]}
        return UnstructuredObject(
            metadata=UnstructuredMetadata(name="widgets.example.com"), spec=spec, status=status
        )

    assert defined_by(definition("False")) == []
    assert defined_by(definition("True")) == [WIDGETS]
