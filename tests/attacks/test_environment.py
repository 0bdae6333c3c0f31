"""Cards by environment, devices and mounts in every spelling that a pod has for them."""

from http import HTTPStatus

import pytest

from kubeshare_py.isolation.containers import DEVICE_VARIABLES
from tests.admission.patched import env_of
from tests.attacks.attack import Attack, Json, gpu_pod, pods_of, refusal
from tests.attacks.attacked_cluster import ATTACKER

pytestmark = pytest.mark.real_only("it needs admission policies, Helm and a scheduler's own role")

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CARDS = "metadata.annotations['sharedgpu/gpu_uuid']"
SHARE = {"gpu_request": "0.5", "gpu_limit": "1.0"}
MAPS = f"/api/v1/namespaces/{ATTACKER}/configmaps"
#: Whose value is not what the scheduler's own variable has.
FORGED: tuple[Json, ...] = (
    {"value": "all"},
    {"value": "0"},
    {"value": "GPU-1,GPU-2"},
    {"value": "none"},
    {"value": ""},
    {"valueFrom": {"configMapKeyRef": {"name": "cards", "key": VISIBLE}}},
    {"valueFrom": {"secretKeyRef": {"name": "cards", "key": VISIBLE}}},
    {"valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['mine']"}}},
    {"valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['mine']"}}},
    {"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
)
KINDS = ("containers", "initContainers")
ALL_CARDS: Json = {"name": "main", "image": "cuda", "env": [{"name": VISIBLE, "value": "all"}]}


def with_container(kind: str, container: Json, labels: Json, **spec: object) -> Json:
    body = gpu_pod("p", labels, **spec)
    body["spec"].setdefault(kind, []).append({"name": "mine", "image": "cuda", **container})
    return body


async def test_no_spelling_of_the_variable_is_let_through(attack: Attack) -> None:
    for labels in ({}, SHARE, {"gpu_request": "2", "gpu_limit": "2"}):
        for kind in KINDS:
            for value in FORGED:
                entry = {"name": VISIBLE, **value}
                # The last entry of a name counts: one that is right before it does not help.
                right = {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": CARDS}}}
                for env in ([entry], [right, entry], [entry, right]):
                    body = with_container(kind, {"env": env}, labels)
                    error = await refusal(attack.create(body))
                    assert VISIBLE in error.message


async def test_other_schedulers_pods_do_not_get_past_it(attack: Attack) -> None:
    for scheduler in ("default-scheduler", "another", "kubeshare-scheduler2"):
        for kind in KINDS:
            env = {"env": [{"name": VISIBLE, "value": "all"}]}
            body = with_container(kind, env, {}, schedulerName=scheduler)
            assert VISIBLE in (await refusal(attack.create(body))).message
        quiet = with_container("containers", {}, {}, schedulerName=scheduler)
        made = await attack.mallory.create(pods_of(ATTACKER), quiet, {"dryRun": "All"})
        assert env_of(made)[VISIBLE] == "void"


async def test_a_config_map_does_not_overrule_what_is_set(attack: Attack) -> None:
    """Variables by `envFrom` stand behind those of `env`, which is written in each container."""
    for prefix, key in (("", VISIBLE), ("NVIDIA_", "VISIBLE_DEVICES")):
        source = {"prefix": prefix, "configMapRef": {"name": "cards"}}
        await attack.admin.create(MAPS, {"metadata": {"name": "cards"}, "data": {key: "all"}})
        for kind in KINDS:
            for labels in ({}, SHARE):
                body = with_container(kind, {"envFrom": [source]}, labels)
                made = await attack.mallory.create(pods_of(ATTACKER), body, {"dryRun": "All"})
                given = made["spec"][kind][-1]["env"]
                [ours] = [one for one in given if one["name"] == VISIBLE]
                told = ours.get("value") or ours["valueFrom"]["fieldRef"]["fieldPath"]
                assert told == (CARDS if labels else "void")
        await attack.admin.delete(f"{MAPS}/cards")


async def test_no_image_and_no_config_map_brings_other_devices(attack: Attack) -> None:
    """Admission sees neither: what they say stands behind `env`, which is written here."""
    source = {"configMapRef": {"name": "devices"}}
    for kind in KINDS:
        body = with_container(kind, {"envFrom": [source]}, SHARE)
        made = await attack.mallory.create(pods_of(ATTACKER), body, {"dryRun": "All"})
        told = env_of(made, kind, len(made["spec"][kind]) - 1)
        assert {one.name: one.value for one in DEVICE_VARIABLES}.items() <= told.items()


async def test_no_variable_brings_other_devices(attack: Attack) -> None:
    for name in (one.name for one in DEVICE_VARIABLES):
        for kind in KINDS:
            for value in ({"value": "enabled"}, {"value": "0"}, FORGED[5]):
                body = with_container(kind, {"env": [{"name": name, **value}]}, SHARE)
                assert name in (await refusal(attack.create(body))).message


async def test_no_annotation_brings_devices(attack: Attack) -> None:
    names = (
        "cdi.k8s.io/mine", "nvidia.cdi.k8s.io/pod", "cdi.k8s.io/a_b.c", "devices.crio.io",
        "io.kubernetes.cri-o.Devices", "devices.nri.io/pod", "devices.noderesource.dev/pod",
        "cdi-devices.nri.io/container.main", "cdi-devices.noderesource.dev",
    )  # fmt: skip
    for scheduler in ("kubeshare-scheduler", "default-scheduler"):
        for name in names:
            body = gpu_pod("p", SHARE, annotations={name: "nvidia.com/gpu=all"})
            body["spec"]["schedulerName"] = scheduler
            assert name in (await refusal(attack.create(body))).message
    await attack.create(gpu_pod("p", SHARE))
    path = f"{pods_of(ATTACKER)}/p"
    for name in names:
        change = {"metadata": {"annotations": {name: "nvidia.com/gpu=all"}}}
        assert name in (await refusal(attack.mallory.merge_patch(path, change))).message


async def test_no_mount_names_cards(attack: Attack) -> None:
    for path in ("/var/run/nvidia-container-devices/all", "/run/nvidia-container-devices/0"):
        for kind in KINDS:
            mounts = [{"name": "v", "mountPath": path}]
            volumes = [{"name": "v", "emptyDir": {}}]
            body = with_container(kind, {"volumeMounts": mounts}, SHARE, volumes=volumes)
            assert "nvidia-container-devices" in (await refusal(attack.create(body))).message


async def test_no_container_that_is_added_sees_cards(attack: Attack) -> None:
    await attack.create(gpu_pod("p", SHARE))
    await attack.expect_bound("p")
    path = f"{pods_of(ATTACKER)}/p/ephemeralcontainers"
    error = await refusal(attack.mallory.strategic_patch(path, {}))
    assert error.status == HTTPStatus.FORBIDDEN  # It takes one right more than `edit` has.
    for value in FORGED:
        debug = {"name": "debug", "image": "cuda", "env": [{"name": VISIBLE, **value}]}
        change = {"spec": {"ephemeralContainers": [debug]}}
        error = await refusal(attack.admin.strategic_patch(path, change))
        assert VISIBLE in error.message
    quiet = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "cuda"}]}}
    await attack.admin.strategic_patch(path, quiet)
    assert env_of(await attack.pod("p"), "ephemeralContainers") == {VISIBLE: "void"}


async def test_a_share_is_not_turned_into_something_else_before_it_is_bound(
    attack: Attack,
) -> None:
    await attack.create(gpu_pod("p", {"gpu_request": "9", "gpu_limit": "9"}))
    path = f"{pods_of(ATTACKER)}/p"
    for labels in ({"sharedgpu/gpu_request": "0.1", "sharedgpu/gpu_limit": "1.0"},):
        error = await refusal(attack.mallory.merge_patch(path, {"metadata": {"labels": labels}}))
        assert "settled when the pod was created" in error.message
