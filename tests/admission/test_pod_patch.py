"""What becomes of pods, as the API server applies the webhook's patch."""

import base64
import json
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest
from hypothesis import Phase, find, given, settings

from kubeshare_py.domain.values import replace
from tests.admission.any_pod import pods
from tests.admission.patched import ALL, SHARE, Json, a_pod, answered, env_of, patched, review
from tests.dialects.halves import DIALECTS, HALF

CARDS = "metadata.annotations['sharedgpu/gpu_uuid']"
#: By which NVIDIA's runtime gives a container no more than its cards, whatever its image says.
NOTHING_ELSE = {
    **dict.fromkeys(("NVIDIA_NVSWITCH", "NVIDIA_MOFED", "NVIDIA_GDS"), "disabled"),
    **dict.fromkeys(("NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES"), ""),
}
#: What each container of a pod with a card gets.
WITH_CARD = {
    "NVIDIA_VISIBLE_DEVICES": CARDS,
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
    **NOTHING_ELSE,
}
LIBRARY = "/kubeshare/library/libgemhook.so.1"
GEMINI = {**SHARE, "sharedgpu/isolation": "gemini"}
FROM_SECRET = {"name": "LD_PRELOAD", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


def preloads(*env: Json) -> list[Json]:
    found = patched(a_pod(GEMINI, *env))["spec"]["containers"][0]["env"]
    return [one for one in found if one["name"] == "LD_PRELOAD"]


def test_every_container_with_a_card_is_told_init_containers_and_sidecars_too() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always"}
    found = patched(a_pod(SHARE, initContainers=[{"name": "init"}, sidecar]))
    assert env_of(found) == WITH_CARD
    for index in (0, 1):
        assert env_of(found, "initContainers", index) == WITH_CARD


def test_containers_of_pods_without_a_card_are_told_void() -> None:
    found = patched(a_pod(initContainers=[{"name": "init"}]))
    assert env_of(found) == env_of(found, "initContainers") == {"NVIDIA_VISIBLE_DEVICES": "void"}


@pytest.mark.parametrize("isolation", ["none", "mps"])
def test_a_limit_of_0_brings_no_card_and_nothing_of_a_back_end(isolation: str) -> None:
    labels = {"sharedgpu/gpu_limit": "0", "sharedgpu/isolation": isolation}
    found = patched(a_pod(labels))
    assert env_of(found) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert "volumes" not in found["spec"]
    assert "volumeMounts" not in found["spec"]["containers"][0]


@pytest.mark.parametrize("theirs", ["all", "", "graphics,compute,utility"])
def test_a_container_that_says_which_parts_of_the_driver_it_needs_keeps_them(theirs: str) -> None:
    own = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": theirs}
    found = patched(a_pod(SHARE, own))["spec"]["containers"][0]["env"]
    assert [one for one in found if "CAPABILITIES" in one["name"]] == [own]


@pytest.mark.parametrize("name", NOTHING_ELSE)
def test_a_variable_that_is_allowed_is_left_to_the_pod_and_its_image(name: str) -> None:
    rules = replace(ALL, left_alone=frozenset({name}))
    for own in ((), ({"name": name, "value": "enabled"},)):
        steps = answered(review(a_pod(SHARE, *own)), rules)["patch"]
        values = [step["value"] for step in json.loads(base64.b64decode(steps))]
        entries = [
            one for value in values for one in (value if isinstance(value, list) else [value])
        ]
        added = {one["name"] for one in entries}
        assert added == WITH_CARD.keys() - {name}


def test_a_pod_that_gets_a_card_gets_the_runtime_that_brings_it() -> None:
    assert patched(a_pod(SHARE), runtime_class="nvidia")["spec"]["runtimeClassName"] == "nvidia"
    own = a_pod(SHARE, runtimeClassName="kata")
    assert patched(own, runtime_class="nvidia")["spec"]["runtimeClassName"] == "kata"
    assert "runtimeClassName" not in patched(a_pod(), runtime_class="nvidia")["spec"]
    assert "runtimeClassName" not in patched(a_pod(SHARE))["spec"]


def test_ours_come_first_so_that_the_users_may_refer_to_them() -> None:
    user = {"name": "CARDS", "value": "$(NVIDIA_VISIBLE_DEVICES)"}
    labels = {**SHARE, "sharedgpu/isolation": "driver"}
    found = patched(a_pod(labels, user))["spec"]["containers"][0]["env"]
    assert [one["name"] for one in found] == [
        *WITH_CARD, "NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_GPU_MEMORY_LIMIT", "CARDS",
    ]  # fmt: skip


def test_mps_brings_its_folders_of_the_card() -> None:
    user = {"name": "work", "mountPath": "/work"}
    pod = a_pod({**SHARE, "sharedgpu/isolation": "mps"}, volumes=[{"name": "work", "emptyDir": {}}])
    pod["spec"]["containers"][0]["volumeMounts"] = [user]
    spec = patched(pod)["spec"]
    mounts = spec["containers"][0]["volumeMounts"]
    assert mounts[0] == user
    assert [(one["mountPath"], one["subPathExpr"]) for one in mounts[1:]] == [
        ("/tmp/nvidia-mps", "$(NVIDIA_VISIBLE_DEVICES)/pipe"),
        ("/dev/shm", "$(NVIDIA_VISIBLE_DEVICES)/shm"),
    ]
    assert spec["volumes"][1]["hostPath"] == {"path": "/run/kubeshare/mps", "type": "Directory"}


def test_a_place_that_is_taken_is_left_to_its_owner() -> None:
    pod = a_pod({**SHARE, "sharedgpu/isolation": "mps"})
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "own", "mountPath": "/dev/shm"}]
    mounts = patched(pod)["spec"]["containers"][0]["volumeMounts"]
    assert [one["mountPath"] for one in mounts] == ["/dev/shm", "/tmp/nvidia-mps"]


@pytest.mark.parametrize(
    ("theirs", "becomes"),
    [
        ("/a.so", f"{LIBRARY}:/a.so"),
        ("", LIBRARY),
        (LIBRARY, LIBRARY),
        (f"{LIBRARY}:/a.so", f"{LIBRARY}:/a.so"),
        (f"{LIBRARY}x", f"{LIBRARY}:{LIBRARY}x"),
    ],
)
def test_a_library_goes_before_the_users_own(theirs: str, becomes: str) -> None:
    assert preloads({"name": "LD_PRELOAD", "value": theirs}) == [
        {"name": "LD_PRELOAD", "value": becomes}
    ]


def test_a_library_is_preloaded_where_the_user_preloads_none() -> None:
    assert preloads() == [{"name": "LD_PRELOAD", "value": LIBRARY}]


def test_a_preload_that_only_the_kubelet_knows_is_referred_to() -> None:
    merged = {"name": "LD_PRELOAD", "value": f"{LIBRARY}:$(LD_PRELOAD)"}
    assert preloads(FROM_SECRET) == [FROM_SECRET, merged]
    # Only the last one of a name has effect.
    first = {"name": "LD_PRELOAD", "value": "/a.so"}
    assert preloads(first, FROM_SECRET) == [first, FROM_SECRET, merged]
    last = {"name": "LD_PRELOAD", "value": f"{LIBRARY}:/a.so"}
    assert preloads(FROM_SECRET, first) == [FROM_SECRET, last]


@given(pod=pods())
def test_a_second_patch_changes_nothing_and_nothing_of_the_users_is_lost(pod: Json) -> None:
    once = patched(pod)
    assert patched(once) == once
    for kind in ("containers", "initContainers"):
        for before, after in zip(
            pod["spec"].get(kind, ()), once["spec"].get(kind, ()), strict=True
        ):
            expect_kept(before, after)


def has_library(pod: Json, *, first: bool) -> bool:
    """Whether gemini's library meets a user's own, as the first or as a later entry."""
    wish = pod["metadata"].get("labels", {}).get("sharedgpu/isolation")
    names = [
        [one["name"] for one in container.get("env", ())]
        for kind in ("containers", "initContainers")
        for container in pod["spec"].get(kind, ())
    ]
    places = [found.index("LD_PRELOAD") for found in names if "LD_PRELOAD" in found]
    return wish == "gemini" and any((place == 0) is first for place in places)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [
        lambda pod: len(pod["spec"].get("initContainers", ())) == 1,
        lambda pod: pod["spec"].get("initContainers", [{}])[-1].get("restartPolicy") == "Always",
        lambda pod: has_library(pod, first=True),
        lambda pod: has_library(pod, first=False),
        lambda pod: len(pod["spec"]["containers"][0].get("env", ())) > 3,
        lambda pod: "volumeMounts" in pod["spec"]["containers"][0],
    ],
    ids=["init container", "sidecar", "library first", "library later", "long", "mounts"],
)
def test_pods_of_all_kinds_are_among_those_that_both_ways_are_compared_by(
    kind: Callable[[Json], bool],
) -> None:
    assert find(pods(), kind, settings=settings(max_examples=2000, phases=[Phase.generate]))


def expect_kept(before: Json, after: Json) -> None:
    """The container has all that it had, in order, behind what is new."""
    kept: list[Any] = [one for one in before.get("env", ()) if one["name"] != "LD_PRELOAD"]
    there = [one for one in after["env"] if one["name"] != "LD_PRELOAD"]
    assert there[len(there) - len(kept) :] == kept
    mounts = before.get("volumeMounts", [])
    assert after.get("volumeMounts", [])[: len(mounts)] == mounts


def asking(name: str, *, halves: int = 1, **fields: Any) -> Json:
    """A container that asks for halves of a card by the dialect for tests."""
    return {"name": name, "resources": {"limits": {HALF: str(halves)}}, **fields}


def patched_in_dialects(pod: Json) -> Json:
    response = answered(review(pod), replace(ALL, dialects=DIALECTS, runtime_class="nvidia"))
    changed: Json = jsonpatch.apply_patch(pod, json.loads(base64.b64decode(response["patch"])))
    return changed


def test_a_container_that_asks_is_told_its_own_cards_and_the_others_none() -> None:
    labels = {"sharedgpu/isolation": "mps"}
    containers = [{"name": "log"}, asking("main")]
    inits = [asking("side", restartPolicy="Always"), {"name": "init"}]
    found = patched_in_dialects(a_pod(labels, containers=containers, initContainers=inits))
    own = "metadata.annotations['sharedgpu/{}.{}']"
    for kind, index, name in (("containers", 1, "container-1"), ("initContainers", 0, "init-0")):
        env = env_of(found, kind, index)
        assert env["NVIDIA_VISIBLE_DEVICES"] == own.format(name, "gpu_uuid")
        assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == own.format(name, "mps_memory")
        threads = own.format(name, "mps_thread_percentage")
        assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == threads
        mounts = found["spec"][kind][index]["volumeMounts"]
        assert [one["mountPath"] for one in mounts] == ["/tmp/nvidia-mps", "/dev/shm"]
    for kind, index in (("containers", 0), ("initContainers", 1)):
        assert env_of(found, kind, index) == {"NVIDIA_VISIBLE_DEVICES": "void"}
        assert "volumeMounts" not in found["spec"][kind][index]
    assert [one["name"] for one in found["spec"]["volumes"]] == ["kubeshare-mps"]
    assert found["spec"]["runtimeClassName"] == "nvidia"
    assert "patch" not in answered(review(found), replace(ALL, dialects=DIALECTS))


def test_the_pods_one_port_is_for_all_of_its_containers() -> None:
    labels = {"sharedgpu/isolation": "gemini"}
    found = patched_in_dialects(a_pod(labels, containers=[asking("a"), {"name": "b"}]))
    port = "metadata.annotations['sharedgpu/gpu_manager_port']"
    assert env_of(found)["POD_MANAGER_PORT"] == port
    assert env_of(found)["LD_PRELOAD"] == LIBRARY
    assert "LD_PRELOAD" not in env_of(found, "containers", 1)


def test_a_profile_without_the_dialect_does_not_look_at_resources() -> None:
    pod = a_pod(containers=[asking("a")])
    assert env_of(patched(pod)) == {"NVIDIA_VISIBLE_DEVICES": "void"}
    assert env_of(patched_in_dialects(a_pod(containers=[asking("a", halves=0)]))) == {
        "NVIDIA_VISIBLE_DEVICES": "void"
    }


def test_labels_ask_for_all_containers_with_other_dialects_too() -> None:
    found = patched_in_dialects(a_pod(SHARE, initContainers=[{"name": "init"}]))
    assert env_of(found) == env_of(found, "initContainers") == WITH_CARD


def test_pods_of_others_are_left_alone() -> None:
    assert "patch" not in answered(review(a_pod(SHARE, schedulerName="another")))


def test_what_is_no_new_pod_is_left_alone() -> None:
    for request in ({"operation": "UPDATE"}, {"operation": "CREATE", "subResource": "binding"}):
        assert "patch" not in answered(review(a_pod(SHARE), **request))


def test_containers_that_are_added_to_a_running_pod_get_no_card() -> None:
    old = a_pod(SHARE, ephemeralContainers=[{"name": "old"}])
    new = a_pod(SHARE, ephemeralContainers=[{"name": "old"}, {"name": "new"}])
    found = patched(new, operation="UPDATE", subResource="ephemeralcontainers", oldObject=old)
    assert env_of(found) == env_of(found, "ephemeralContainers", 0) == {}
    assert env_of(found, "ephemeralContainers", 1) == {"NVIDIA_VISIBLE_DEVICES": "void"}
