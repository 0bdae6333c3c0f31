"""What a pod asks for, in whichever dialect."""

import pytest

from kubeshare_py.configuration.scheduler import ALL_DIALECTS
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.dialects.pod_keys import OLD_POD_GROUP_LABEL, POD_GROUP_LABEL, WITHIN
from kubeshare_py.dialects.pod_request import (
    PodRequest,
    first_problem,
    key_of_dialect,
    read,
    unread,
    with_others,
)
from kubeshare_py.domain.cluster_objects import GroupApi, GroupReference
from kubeshare_py.domain.dialect_switch import ALL_ON, OF_ALL
from kubeshare_py.domain.pod import PodGroup

# --- One reading of a pod's keys: which problem comes first, and what is read of which pod --------


HALF = {"sharedgpu/gpu_limit": "1.0", "sharedgpu/gpu_request": "0.5"}
GANG = {
    "sharedgpu/group_name": "g",
    "sharedgpu/group_headcount": "2",
    "sharedgpu/group_threshold": "1",
}
#: Each is the first problem of a pod that has those after it as well.
UNKNOWN = {"sharedgpu/gpu_limits": "1"}
NOWHERE = {WITHIN: "two words"}
TWICE = {POD_GROUP_LABEL: "other"}
UNREADABLE = {"sharedgpu/gpu_limit": "much"}


def problem(asked: PodRequest) -> str:
    return str(asked.problem or "")


def test_a_pod_without_keys_asks_for_nothing() -> None:
    asked = read(None, None)
    assert asked == read({}, {}) == read({"app": "web"}, {"note": "x"})
    assert (asked.request, asked.problem, asked.group, asked.reference) == (None,) * 4
    assert not asked.in_group
    assert not asked.has_reservation


def test_the_first_problem_is_the_one_of_keys_then_of_the_group_then_of_amounts() -> None:
    labels = {**HALF, **GANG, **UNREADABLE}
    assert problem(read(labels, {})).startswith('sharedgpu/gpu_limit="much": ')
    assert "can only be in one group" in problem(read({**labels, **TWICE}, {}))
    assert problem(read({**labels, **TWICE}, NOWHERE)).startswith(f'{WITHIN}="two words": ')
    assert problem(read({**labels, **TWICE, **UNKNOWN}, NOWHERE)).startswith(
        "label sharedgpu/gpu_limits is not known"
    )


def test_an_unknown_key_leaves_the_priority_and_the_group() -> None:
    asked = read({**HALF, **GANG, **UNKNOWN, "sharedgpu/priority": "7"}, None)
    assert (asked.request, asked.priority) == (None, 7)
    assert asked.group == PodGroup(name="g", headcount=2, min_available=2)


def test_unknown_keys_and_results_count_only_before_the_pod_is_bound() -> None:
    labels = {**HALF, **UNKNOWN}
    results = {"sharedgpu/gpu_uuid": "GPU-1", "sharedgpu/container-0.gpu_uuid": "GPU-1", "a": "b"}
    waiting, bound = read(labels, results), read(labels, results, bound=True)
    assert waiting.problem is not None
    assert waiting.stale_results == ("sharedgpu/container-0.gpu_uuid", "sharedgpu/gpu_uuid")
    assert (bound.problem, bound.stale_results) == (None, ())
    assert bound.request == read(HALF, None).request


def test_the_group_s_topology_key_comes_from_an_annotation() -> None:
    asked = read({**HALF, **GANG}, {WITHIN: "zone"})
    assert asked.group == PodGroup(name="g", headcount=2, min_available=2, within="zone")
    assert read(HALF, NOWHERE).problem is None, "the pod is in no group"


@pytest.mark.parametrize(
    ("labels", "in_spec", "reference"),
    [
        (
            {POD_GROUP_LABEL: "new", OLD_POD_GROUP_LABEL: "old"},
            "",
            GroupReference(GroupApi.COSCHEDULING, "new"),
        ),
        ({OLD_POD_GROUP_LABEL: "old"}, "", GroupReference(GroupApi.COSCHEDULING, "old")),
        ({}, "g", GroupReference(GroupApi.KUBERNETES, "g")),
    ],
)
def test_a_podgroup_is_named_by_labels_or_in_the_spec(
    labels: dict[str, str], in_spec: str, reference: GroupReference
) -> None:
    asked = read(labels, None, in_spec)
    assert (asked.reference, asked.problem, asked.in_group) == (reference, None, True)


def test_a_pod_with_two_podgroups_counts_as_in_a_group_and_names_none() -> None:
    asked = read({POD_GROUP_LABEL: "a"}, None, "b")
    assert (asked.group, asked.reference, asked.in_group) == (None, None, True)
    assert problem(asked).startswith(f'{POD_GROUP_LABEL}="a": a pod can only be in one group')


def test_the_wished_back_end_and_a_reservation_are_read() -> None:
    asked = read({**HALF, "sharedgpu/isolation": "mps"}, {"sharedgpu/earmark": "GPU-1"})
    assert (asked.isolation, asked.has_reservation) == ("mps", True)
    assert not read(HALF, {"sharedgpu/earmark": ""}).has_reservation


@pytest.mark.parametrize("named", [{POD_GROUP_LABEL: "a"}, {OLD_POD_GROUP_LABEL: "a"}])
def test_a_new_pod_is_refused_for_all_but_its_podgroup(named: dict[str, str]) -> None:
    assert first_problem({**HALF, **GANG, **named}, {}) is None
    assert first_problem({**HALF, **UNKNOWN}, {}) == read({**HALF, **UNKNOWN}, {}).problem
    assert first_problem({**GANG, **named}, NOWHERE) == read(GANG, NOWHERE).problem


def test_all_problems_of_a_pod_are_found_at_once() -> None:
    labels = {
        "sharedgpu/gpu_limit": "half",
        "sharedgpu/gpu_requst": "0.5",
        "sharedgpu/gpu_mem": "8Gx",
        "sharedgpu/priority": "high",
        "app": "x",
    }
    said = all_said(labels)
    # Without a limit, memory alone asks for no card, which is no problem of its own.
    assert said[:2] == [
        "label sharedgpu/gpu_requst is not known",
        "did you mean sharedgpu/gpu_request?",
    ]
    assert [one.partition("=")[0] for one in said[2:]] == [
        "sharedgpu/priority",
        "sharedgpu/gpu_limit",
    ]
    assert all_said({**labels, "sharedgpu/gpu_request": "0.5"})[-1].startswith("sharedgpu/gpu_mem")
    assert all_said({"sharedgpu/gpu_mem": "8Gi"}) == [
        "sharedgpu/gpu_mem alone asks for no card: add sharedgpu/gpu_request, or "
        "sharedgpu/gpu_limit for a card without a share"
    ]
    many = {f"sharedgpu/key{number}": "x" for number in range(9)}
    assert sum("is not known" in one for one in all_said(many)) == 4


def all_said(labels: dict[str, str]) -> list[str]:
    """The problems of a pod with these labels."""
    first = first_problem(labels, {})
    assert first is not None
    return str(with_others(first, labels, {}, "", SHAREDGPU_ALONE.every, ())).split("; ")


# --- Names that a profile does not read are answered with the dialect that would, or a likely one.


OURS = "kubeshare-scheduler"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (
            ("nvidia.com/gpu",),
            f"add the dialect nvidia (whole cards) or hami (shares) to it, or {ALL_ON}, or take",
        ),
        (
            ("nvidia.com/gpu", "nvidia.com/gpumem"),
            f"add the dialect hami (shares) to it, or {ALL_ON} (",
        ),
        (("nvidia.com/mig-1g.5gb",), "add the dialect nvidia (whole cards) to it, or take"),
        (("aliyun.com/gpu-mem",), f"add the dialect gpushare to it, or {ALL_ON} ("),
        (("cambricon.com/mlunum",), "add the dialect cambricon to it ("),
        (("aliyun.com/gpu-memory",), "did you mean aliyun.com/gpu-mem?"),
        (("nano-gpu/gpu-core",), "did you mean nano-gpu"),
        (("amd.com/gpu",), "is not supported yet: no dialect here knows it"),
    ],
)
def test_what_to_do_is_said(names: tuple[str, ...], said: str) -> None:
    problem = unread(names, OURS, elsewhere=False)
    assert problem.field == f"resources[{names[0]}]"
    assert said in problem.rule


def test_of_a_stand_in_for_kube_scheduler_no_other_place_is_named() -> None:
    said = unread(("nvidia.com/gpu",), "default-scheduler", elsewhere=False).rule
    assert f"add the dialect nvidia (whole cards) or hami (shares) to it, or {ALL_ON} (" in said
    assert "schedulerName" not in said


@pytest.mark.parametrize(
    ("keys", "resources", "key"),
    [
        ((), ("cpu", "aliyun.com/gpu-mem"), "aliyun.com/gpu-mem"),
        ((), ("nvidia.com/gpu",), ""),
        ((), ("nvidia.com/gpu", "nvidia.com/gpumem"), "nvidia.com/gpumem"),
        (("app", "sharedgpu/gpu_request"), (), "sharedgpu/gpu_request"),
        (("app",), ("cpu",), ""),
    ],
)
def test_the_key_that_only_a_dialect_understands(
    keys: tuple[str, ...], resources: tuple[str, ...], key: str
) -> None:
    assert key_of_dialect(keys, resources) == key


def test_what_no_profile_reads_is_named_with_its_dialect() -> None:
    said = unread(("nvidia.com/gpu", "nvidia.com/gpumem"), OURS, elsewhere=False).unread
    assert said == f"nvidia.com/gpumem is of dialect hami, which is off: enable it, or {ALL_ON}"


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "amd.com/gpu", "nvidia.com/mig-1g.5gb"])
def test_what_a_device_plugin_may_have_is_not(name: str) -> None:
    assert unread((name,), OURS, elsewhere=False).unread == ""


def test_the_command_switches_on_what_all_stands_for() -> None:
    assert {one.name for one in ALL_DIALECTS} == OF_ALL
