"""What a PodGroup says, and which one a pod names."""

from typing import Any

import msgspec
import pytest

from kubeshare_py.dialects.pod_keys import OLD_POD_GROUP_LABEL, POD_GROUP_LABEL
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference, PodGroupObject
from kubeshare_py.domain.events import FinishedMember, PodGone, PodGroupGone, PodGroupSeen
from kubeshare_py.manifests.events import POD_EVENTS, pod_group_events
from kubeshare_py.manifests.pod_group import PodGroupFields, to_domain
from tests.manifests.written import pod, pod_fields
from tests.stories.gang_pods import gang

X, K8S = GroupApi.COSCHEDULING, GroupApi.KUBERNETES


def fields(**spec: Any) -> PodGroupFields:
    written = {"metadata": {"name": "train", "namespace": "ns", "uid": "u"}, "spec": spec}
    return msgspec.json.decode(msgspec.json.encode(written), type=PodGroupFields)


def described(api: GroupApi, **spec: Any) -> PodGroupObject:
    return to_domain(api, fields(**spec))


def test_the_plugin_s_group_has_a_least_number_of_members() -> None:
    group = described(X, minMember=4, minResources={"cpu": "4"}, scheduleTimeoutSeconds=10)
    assert group == PodGroupObject(api=X, namespace="ns", name="train", min_member=4)


@pytest.mark.parametrize("spec", [{}, {"minMember": 0}, {"minMember": None}])
def test_without_a_least_number_each_goes_for_itself(spec: dict[str, Any]) -> None:
    assert described(X, **spec).min_member == 1


def test_kubernetes_group_names_its_policy() -> None:
    assert described(K8S, schedulingPolicy={"gang": {"minCount": 3}}).min_member == 3
    basic = described(K8S, schedulingPolicy={"basic": {}})
    assert (basic.min_member, basic.unsupported) == (1, ())


@pytest.mark.parametrize(
    ("api", "spec", "named"),
    [
        (X, {"minMember": "four"}, "spec.minMember"),
        (X, {"minMember": 2, "queue": "q"}, "spec.queue"),
        (K8S, {}, "spec.schedulingPolicy"),
        (K8S, {"schedulingPolicy": {"sometime": {}}}, "spec.schedulingPolicy"),
        (
            K8S,
            {"schedulingPolicy": {"basic": {}}, "resourceClaims": [{"name": "c"}]},
            "spec.resourceClaims",
        ),
        (
            K8S,
            {"schedulingPolicy": {"basic": {}}, "parentCompositePodGroupName": "all"},
            "spec.parentCompositePodGroupName",
        ),
        (
            K8S,
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]},
            },
            "spec.schedulingConstraints",
        ),
        (
            K8S,
            {
                "schedulingPolicy": {"basic": {}},
                "schedulingConstraints": {"topology": [{"key": "a", "how": "softly"}]},
            },
            "spec.schedulingConstraints",
        ),
        (X, {"minMember": 2, "schedulingConstraints": {}, "other": 1}, "spec.other"),
    ],
)
def test_what_is_not_understood_is_named(api: GroupApi, spec: dict[str, Any], named: str) -> None:
    assert described(api, **spec).unsupported == (named,)


def test_what_is_of_no_matter_to_placement_may_be_there() -> None:
    group = described(
        K8S,
        schedulingPolicy={"gang": {"minCount": 2}},
        podGroupTemplateRef={"workload": {"workloadName": "w", "podGroupTemplateName": "t"}},
        disruptionMode="PodGroup",
        priorityClassName="high",
        priority=7,
        resourceClaims=[],
    )
    assert group.unsupported == ()


def test_a_constraint_or_an_annotation_names_the_place_of_all() -> None:
    constraints = {"topology": [{"key": "zone"}]}
    policy = {"gang": {"minCount": 2}}
    group = described(K8S, schedulingPolicy=policy, schedulingConstraints=constraints)
    assert (group.within, group.unsupported) == ("zone", ())
    annotated = msgspec.json.decode(
        msgspec.json.encode(
            {
                "metadata": {"name": "g", "annotations": {"sharedgpu/group_within": "rack"}},
                "spec": {"minMember": 2},
            }
        ),
        type=PodGroupFields,
    )
    assert to_domain(X, annotated).within == "rack"


def test_members_by_label_name_the_place_by_an_annotation() -> None:
    within = {"sharedgpu/group_within": "rack"}
    found = pod(labels=gang("g", 2), annotations=within)
    assert found.group is not None
    assert found.group.within == "rack"
    assert pod(annotations=within).group is None


@pytest.mark.parametrize("text", ["two words", "a\x1b[31mb", "a/b/c", "-a", "a/" + "b" * 64, "Z/a"])
def test_a_place_is_the_name_of_a_label(text: str) -> None:
    within = {"sharedgpu/group_within": text}
    found = pod(labels=gang("g", 2), annotations=within)
    assert found.group is not None
    assert found.group.within == ""
    assert str(found.problem) == (
        f'sharedgpu/group_within="{text[:60]}{"…" if len(text) > 60 else ""}": must be the name of '
        "a node label, such as topology.kubernetes.io/zone"
    )
    raw = {"metadata": {"name": "g", "annotations": within}, "spec": {"minMember": 2}}
    group = to_domain(X, msgspec.json.decode(msgspec.json.encode(raw), type=PodGroupFields))
    assert group.within == ""
    assert group.unsupported == ("metadata.annotations[sharedgpu/group_within]",)


def test_a_watch_tells_what_is_there_and_what_is_gone() -> None:
    seen = pod_group_events(X).event("MODIFIED", fields(minMember=2))
    assert isinstance(seen, PodGroupSeen)
    assert seen.group.min_member == 2
    assert pod_group_events(X).event("DELETED", fields()) == PodGroupGone(X, "ns", "train")
    assert pod_group_events(X).event("BOOKMARK", fields()) is None


@pytest.mark.parametrize("label", [POD_GROUP_LABEL, OLD_POD_GROUP_LABEL])
def test_a_label_names_the_plugin_s_group(label: str) -> None:
    owner = {"uid": "job", "controller": True}
    found = pod(labels={label: "train"}, ownerReferences=[owner])
    assert found.group_reference == GroupReference(X, "train")
    assert (found.group, found.owner) == (None, "job")


def test_the_new_label_counts_where_both_are_there() -> None:
    found = pod(labels={POD_GROUP_LABEL: "new", OLD_POD_GROUP_LABEL: "old"})
    assert found.group_reference == GroupReference(X, "new")


def test_the_spec_names_kubernetes_group() -> None:
    found = pod({"schedulingGroup": {"podGroupName": "train"}})
    assert found.group_reference == GroupReference(K8S, "train")
    assert found.unsupported == ()


def test_an_empty_label_names_nothing() -> None:
    assert pod(labels={POD_GROUP_LABEL: ""}).group_reference is None


@pytest.mark.parametrize(
    ("labels", "spec"),
    [
        ({POD_GROUP_LABEL: "a", **gang("b", 2)}, {}),
        ({POD_GROUP_LABEL: "a"}, {"schedulingGroup": {"podGroupName": "b"}}),
        (gang("b", 2), {"schedulingGroup": {"podGroupName": "a"}}),
    ],
)
def test_a_pod_in_two_groups_is_an_error(labels: dict[str, str], spec: dict[str, Any]) -> None:
    found = pod(spec, labels=labels)
    assert found.problem is not None
    assert "can only be in one group" in str(found.problem.rule)
    assert found.group_reference is None


def test_a_finished_pod_s_work_counts_in_the_group_that_it_named() -> None:
    over = pod_fields(
        {"nodeName": "n1"},
        status={"phase": "Succeeded"},
        labels={POD_GROUP_LABEL: "train"},
        uid="u1",
    )
    event = POD_EVENTS.event("MODIFIED", over)
    assert isinstance(event, PodGone)
    assert isinstance(event.finished, FinishedMember)
    assert event.finished.group == "scheduling.x-k8s.io/train"
