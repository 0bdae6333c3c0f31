"""What pods' containers are told of cards, by policy and by webhook, and who else may say so."""

from base64 import b64decode
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.isolation.containers import DEVICE_VARIABLES
from tests.admission.any_pod import pods
from tests.admission.patched import env_of
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.each import each
from tests.policies.conftest import expect_accepted, refused
from tests.policies.environment import (
    ACCOUNT,
    BOTH,
    EXEMPT,
    GUARDED,
    POLICY,
    REPLICAS,
    UNTOLD,
    WEBHOOK,
    Clients,
    a_pod,
    clients,
    has_policies,
    pods_of,
)
from tests.scale import examples

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

NOT_THERE = "MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on"
NOTHING_ELSE = {one.name: one.value for one in DEVICE_VARIABLES}
VISIBLE, CAPABILITIES = "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
CARDS = "metadata.annotations['sharedgpu/gpu_uuid']"
SHARE = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
ALL = {"name": VISIBLE, "value": "all"}
VOID = {VISIBLE: "void"}
#: Not the default: what asks for a share and has that becomes ours.
OTHERS: Json = {"schedulerName": "another"}
GPU = {"name": "main", "image": "x", "env": [ALL], "resources": {"limits": {"nvidia.com/gpu": "1"}}}


@pytest.fixture
async def cluster(
    installed_plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Clients]:
    if not has_policies(installed_plane) and asked_by(request) == POLICY:
        pytest.skip(NOT_THERE)
    async with clients(installed_plane, tmp_path) as found:
        yield found


def asked_by(request: pytest.FixtureRequest) -> object:
    """The namespace that a test is about, if it is about one."""
    callspec = getattr(request.node, "callspec", None)
    return callspec.params.get("namespace") if callspec else None


async def stored(cluster: Clients, pod: Json, namespace: str) -> Json:
    """What would be stored, or why it would not, without what the two ways differ in."""
    try:
        found: Json = (await cluster.would_be(pod, namespace))["spec"]
        return found
    except KubeError as error:
        return {"status": error.status, "message": error.message.partition("request: ")[2]}


@settings(examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods())
async def test_policy_and_webhook_make_the_same_pod_and_so_do_both(
    cluster: Clients, pod: Json
) -> None:
    if not cluster.has_policies:
        pytest.skip(NOT_THERE)
    by_policy = await stored(cluster, pod, POLICY)
    assert by_policy == await stored(cluster, pod, WEBHOOK)
    assert by_policy == await stored(cluster, pod, BOTH)


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK])
async def test_every_container_is_told(cluster: Clients, namespace: str) -> None:
    inits = [{"name": "init", "image": "x"}, {"name": "s", "image": "x", "restartPolicy": "Always"}]
    labels = {**SHARE, "sharedgpu/isolation": "driver"}
    told = {VISIBLE: CARDS, CAPABILITIES: "compute,utility", **NOTHING_ELSE}
    told["NVIDIA_GPU_MEMORY_REQUEST"] = "metadata.annotations['sharedgpu/gpu_mem_mib']"
    told["NVIDIA_GPU_MEMORY_LIMIT"] = "metadata.annotations['sharedgpu/gpu_mem_mib']"
    made = await cluster.would_be(a_pod(labels, initContainers=inits), namespace)
    assert env_of(made) == env_of(made, "initContainers", 0) == told
    assert env_of(made, "initContainers", 1) == told
    assert env_of(await cluster.would_be(a_pod(), namespace)) == VOID


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
async def test_a_pod_that_gets_a_card_gets_the_runtime_that_brings_it(
    cluster: Clients, namespace: str
) -> None:
    made = await cluster.would_be(a_pod(SHARE), namespace)
    assert made["spec"]["runtimeClassName"] == "nvidia"
    assert "runtimeClassName" not in (await cluster.would_be(a_pod(), namespace))["spec"]


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK])
async def test_a_limit_of_0_brings_no_card_and_nothing_of_a_back_end(
    cluster: Clients, namespace: str
) -> None:
    labels = {"sharedgpu/gpu_limit": "0", "sharedgpu/isolation": "mps"}
    made = await cluster.would_be(a_pod(labels), namespace)
    assert env_of(made) == VOID
    assert "volumes" not in made["spec"]


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
async def test_a_container_says_itself_which_parts_of_the_driver_it_needs(
    cluster: Clients, namespace: str
) -> None:
    made = await cluster.would_be(a_pod(SHARE, {"name": CAPABILITIES, "value": "all"}), namespace)
    assert env_of(made) == {VISIBLE: CARDS, CAPABILITIES: "all", **NOTHING_ELSE}


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
async def test_a_container_that_is_added_gets_no_card(cluster: Clients, namespace: str) -> None:
    path = f"{pods_of(namespace)}/p"
    await cluster.admin.create(pods_of(namespace), a_pod(SHARE))
    added = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "cuda"}]}}
    await cluster.admin.strategic_patch(f"{path}/ephemeralcontainers", added)
    added["spec"]["ephemeralContainers"][0]["name"] = "again"
    await cluster.admin.strategic_patch(f"{path}/ephemeralcontainers", added)
    made = await cluster.admin.get(path)
    assert env_of(made, "ephemeralContainers", 0) == VOID
    assert env_of(made, "ephemeralContainers", 1) == VOID
    await cluster.admin.delete(path, grace_period_s=0)


async def test_nobody_sees_cards_by_a_container_that_is_added(cluster: Clients) -> None:
    for spec in ({}, OTHERS):
        await cluster.user.create(pods_of(GUARDED), a_pod(SHARE, **spec))
        debug = {"name": "debug", "image": "cuda", "env": [ALL]}
        path = f"{pods_of(GUARDED)}/p"
        asked = cluster.admin.strategic_patch(
            f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [debug]}}
        )
        assert f"{VISIBLE} cannot be set in an ephemeral container" in await refused(asked)
        await cluster.admin.delete(path, grace_period_s=0)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        *(({}, VISIBLE), (SHARE, VISIBLE), ({**SHARE, "sharedgpu/gpu_request": "1"}, VISIBLE)),
        ({**SHARE, "sharedgpu/isolation": "driver"}, "NVIDIA_GPU_MEMORY_LIMIT"),
        ({**SHARE, "sharedgpu/isolation": "mps"}, "CUDA_MPS_PIPE_DIRECTORY"),
        ({**SHARE, "sharedgpu/isolation": "gemini"}, "POD_NAME"),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
async def test_no_user_says_what_the_scheduler_says(
    cluster: Clients, labels: Json, name: str, kind: str
) -> None:
    """A pod that chooses cards itself is refused; gpushare warns about it."""
    pod = a_pod(labels)
    mine = {"name": "mine", "image": "x", "env": [{"name": name, "value": "all"}]}
    pod["spec"].setdefault(kind, []).append(mine)
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert f"{name} of a container: take it out" in said


@pytest.mark.parametrize("name", NOTHING_ELSE)
async def test_no_user_gets_devices_that_nobody_counts(cluster: Clients, name: str) -> None:
    hidden = {"name": name, "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    for entry in ({"name": name, "value": "enabled"}, hidden):
        said = await refused(cluster.user.create(pods_of(GUARDED), a_pod(SHARE, entry)))
        assert f"{name} of a container brings devices of the node" in said


@pytest.mark.parametrize("labels", [SHARE, {}])
async def test_a_pod_may_say_itself_that_it_wants_none_of_these_devices(
    cluster: Clients, labels: Json
) -> None:
    env = [{"name": name, "value": value} for name, value in NOTHING_ELSE.items()]
    made = await cluster.would_be(a_pod(labels, *env), GUARDED)
    assert NOTHING_ELSE.items() <= env_of(made).items()


@pytest.mark.parametrize("spec", [{}, OTHERS])
@pytest.mark.parametrize(
    "key",
    [
        "cdi.k8s.io/mine",
        "nvidia.cdi.k8s.io/container.main",
        "nvidia.cdi.k8s.io/pod",
        "io.kubernetes.cri-o.Devices",
        "devices.crio.io",
        "devices.nri.io/container.main",
        "devices.noderesource.dev",
        "devices.noderesource.dev/pod",
        "cdi-devices.nri.io/pod",
        "cdi-devices.noderesource.dev/container.main",
    ],
)
async def test_no_user_names_devices_to_the_runtime(cluster: Clients, spec: Json, key: str) -> None:
    wish = {key: "nvidia.com/gpu=all"}
    pod = a_pod(SHARE, **spec)
    pod["metadata"]["annotations"] = wish
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert f"annotation {key} brings devices of the node into containers" in said
    pod["metadata"]["annotations"] = {
        "my.example/cdi.k8s.io": "x",
        "cdi.k8s.iox/a": "y",
        "io.kubernetes.cri-o.Devices": "/dev/fuse,/dev/net/tun",
        "io.kubernetes.cri-o.DevicesX": "y",
        "my-devices.nri.io/pod": "y",
        "devices.nri.iox/pod": "y",
    }
    await cluster.user.create(pods_of(GUARDED), pod)
    asked = cluster.user.merge_patch(f"{pods_of(GUARDED)}/p", {"metadata": {"annotations": wish}})
    assert f"annotation {key} brings devices" in await refused(asked)
    await cluster.admin.delete(f"{pods_of(GUARDED)}/p", grace_period_s=0)


@pytest.mark.parametrize("resource", ["nvidia.com/hostdev", "nvidia.com/rdma_shared_device_a"])
async def test_asking_for_what_is_no_gpu_is_asking_for_none(
    cluster: Clients, resource: str
) -> None:
    container = {**GPU, "resources": {"limits": {resource: "1"}}}
    pod = a_pod(containers=[container], **OTHERS)
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert "in a pod that asks for no GPU" in said
    quiet = {"name": "main", "image": "cuda", "resources": {"limits": {resource: "1"}}}
    for namespace in (WEBHOOK, GUARDED):
        made = await cluster.would_be(a_pod(containers=[quiet], **OTHERS), namespace)
        assert env_of(made) == VOID


async def test_what_the_back_end_does_not_use_is_the_users(cluster: Clients) -> None:
    mine = {"name": "CUDA_MPS_PIPE_DIRECTORY", "value": "/mine"}
    await expect_accepted(
        cluster.user.create(pods_of(GUARDED), a_pod(SHARE, mine), {"dryRun": "All"})
    )


@pytest.mark.parametrize("spec", [{}, OTHERS])
@pytest.mark.parametrize(
    "root", ["/var/run", "//var/run", "/var/./run", "var/run", "/x/../var/run"]
)
async def test_a_mount_that_names_cards_is_refused(cluster: Clients, spec: Json, root: str) -> None:
    pod = a_pod(SHARE, volumes=[{"name": "null", "hostPath": {"path": "/dev/null"}}], **spec)
    mount = {"name": "null", "mountPath": f"{root}/nvidia-container-devices/all"}
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    assert "names cards" in await refused(cluster.user.create(pods_of(GUARDED), pod))


@pytest.mark.parametrize(
    ("isolation", "mount"),
    [
        ("mps", {"name": "kubeshare-mps", "mountPath": "/all"}),
        ("mps", {"name": "kubeshare-mps", "mountPath": "/tmp/nvidia-mps", "subPath": "GPU-1/pipe"}),
        ("gemini", {"name": "kubeshare-lib", "mountPath": "/kubeshare/library"}),
    ],
)
async def test_a_back_ends_folder_is_mounted_as_it_says_and_not_otherwise(
    cluster: Clients, isolation: str, mount: Json
) -> None:
    pod = a_pod({**SHARE, "sharedgpu/isolation": isolation})
    said = await cluster.would_be(pod, GUARDED)
    proper = [one for one in said["spec"]["containers"][0]["volumeMounts"] if "k" in one["name"]]
    pod["spec"]["containers"][0]["volumeMounts"] = proper
    await cluster.user.create(pods_of(GUARDED), pod)
    debug: Json = {"name": "debug", "image": "x", "volumeMounts": [{**mount, "mountPath": "/x"}]}
    debug["volumeMounts"][0].pop("subPath", None)
    added = {"spec": {"ephemeralContainers": [debug]}}
    asked = cluster.admin.strategic_patch(f"{pods_of(GUARDED)}/p/ephemeralcontainers", added)
    assert "mounts a volume of kubeshare-scheduler" in await refused(asked)
    await cluster.admin.delete(f"{pods_of(GUARDED)}/p", grace_period_s=0)
    pod["spec"]["containers"][0]["volumeMounts"] = [mount]
    told = f"a container mounts {mount['name']}: kubeshare-scheduler mounts it"
    assert told in await refused(cluster.user.create(pods_of(GUARDED), pod))


@pytest.mark.parametrize("spec", [{}, OTHERS])
async def test_nobody_mounts_cards_into_a_container_that_is_added(
    cluster: Clients, spec: Json
) -> None:
    pod = a_pod(SHARE, volumes=[{"name": "null", "hostPath": {"path": "/dev/null"}}], **spec)
    await cluster.user.create(pods_of(GUARDED), pod)
    mount = {"name": "null", "mountPath": "/var/run/nvidia-container-devices/all"}
    debug = {"name": "debug", "image": "cuda", "volumeMounts": [mount]}
    path = f"{pods_of(GUARDED)}/p"
    asked = cluster.admin.strategic_patch(
        f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [debug]}}
    )
    assert "names cards" in await refused(asked)
    await cluster.admin.delete(path, grace_period_s=0)


async def test_a_back_end_that_the_profile_does_not_allow_is_refused(cluster: Clients) -> None:
    pod = a_pod({**SHARE, "sharedgpu/isolation": "other"})
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert 'sharedgpu/isolation="other": this scheduler allows none, driver, mps, gemini' in said


@pytest.mark.parametrize(
    "change",
    [
        {"sharedgpu/gpu_request": "2", "sharedgpu/gpu_limit": "2"},
        {"sharedgpu/isolation": "driver"},
        {"sharedgpu/gpu_request": None, "sharedgpu/gpu_limit": None},
    ],
)
@pytest.mark.parametrize("subresource", ["", "/status"])
async def test_labels_do_not_change_what_containers_were_told(
    cluster: Clients, change: Json, subresource: str
) -> None:
    path = f"{pods_of(GUARDED)}/p"
    await cluster.user.create(pods_of(GUARDED), a_pod(SHARE))
    fine = {"metadata": {"labels": {"sharedgpu/gpu_request": "0.25"}}}
    await cluster.user.merge_patch(path, fine)
    asked = cluster.admin.merge_patch(f"{path}{subresource}", {"metadata": {"labels": change}})
    assert "create it anew" in await refused(asked)
    await cluster.user.delete(path, grace_period_s=0)


async def test_annotations_of_a_share_do_not_vanish_from_containers_that_were_told(
    cluster: Clients,
) -> None:
    path = f"{pods_of(GUARDED)}/p"
    share = {"kubeshare/gpu_request": "0.5", "kubeshare/gpu_limit": "1.0", "kubeshare/gpu_mem": "8"}
    pod = a_pod()
    pod["metadata"]["annotations"] = share
    await cluster.user.create(pods_of(GUARDED), pod)
    none = {"metadata": {"annotations": dict.fromkeys(share)}}
    assert "create it anew" in await refused(cluster.admin.merge_patch(path, none))
    await cluster.user.delete(path, grace_period_s=0)


async def test_a_pod_that_nobody_told_is_refused(cluster: Clients) -> None:
    # As if the webhook had let it through without understanding it.
    for labels in ({}, SHARE):
        said = await refused(cluster.would_be(a_pod(labels), UNTOLD))
        assert f"{VISIBLE} is not set in every container" in said
    told: list[Json] = [
        {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": CARDS}}},
        {"name": "USER", "value": "x"},
    ]
    await cluster.would_be(a_pod(SHARE, *told), UNTOLD)
    await cluster.would_be(a_pod(**OTHERS), UNTOLD)


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
async def test_pods_of_others_without_gpus_are_told_void(cluster: Clients, namespace: str) -> None:
    inits = [{"name": "init", "image": "x"}]
    made = await cluster.would_be(a_pod(initContainers=inits, **OTHERS), namespace)
    assert env_of(made) == env_of(made, "initContainers") == VOID


@pytest.mark.parametrize("namespace", [POLICY, WEBHOOK, GUARDED])
@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/mig-1g.5gb", "hami.io/x"])
async def test_pods_of_others_with_gpus_are_left_alone(
    cluster: Clients, namespace: str, resource: str
) -> None:
    container = {**GPU, "resources": {"limits": {resource: "1"}}}
    made = await cluster.would_be(a_pod(containers=[container], **OTHERS), namespace)
    assert env_of(made) == {VISIBLE: "all"}


async def test_no_user_shows_cards_to_a_pod_that_asks_for_none(cluster: Clients) -> None:
    said = await refused(cluster.user.create(pods_of(GUARDED), a_pod({}, ALL, **OTHERS)))
    assert "in a pod that asks for no GPU" in said
    for value in ("void", "none", ""):
        entry = {"name": VISIBLE, "value": value}
        await cluster.user.create(pods_of(GUARDED), a_pod({}, entry, **OTHERS), {"dryRun": "All"})


@pytest.mark.parametrize("nothing", ["0", "0.0", "0Ki", "0e3"])
async def test_asking_for_zero_gpus_is_asking_for_none(cluster: Clients, nothing: str) -> None:
    resources = {"limits": {"nvidia.com/gpu": nothing}, "requests": {"nvidia.com/gpu": nothing}}
    pod = a_pod(containers=[{**GPU, "resources": resources}], **OTHERS)
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert "in a pod that asks for no GPU" in said
    quiet = {"name": "main", "image": "cuda", "resources": resources}
    for namespace in (WEBHOOK, GUARDED):
        made = await cluster.would_be(a_pod(containers=[quiet], **OTHERS), namespace)
        assert env_of(made) == VOID


async def test_a_claim_for_no_gpu_shows_none(cluster: Clients) -> None:
    claims = [{"name": "any", "resourceClaimName": "of-anything"}]
    pod = a_pod({}, ALL, resourceClaims=claims, **OTHERS)
    assert "in a pod that asks for no GPU" in await refused(
        cluster.user.create(pods_of(GUARDED), pod)
    )
    for namespace in (WEBHOOK, GUARDED):
        made = await cluster.would_be(a_pod(resourceClaims=claims, **OTHERS), namespace)
        assert env_of(made) == VOID


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "jane.example/gpu"])
async def test_nobody_takes_gpus_to_a_node_that_does_not_count_them(
    cluster: Clients, resource: str
) -> None:
    container = {**GPU, "resources": {"limits": {resource: "1"}}}
    pod = a_pod(containers=[container], nodeName="n1", **OTHERS)
    said = await refused(cluster.user.create(pods_of(GUARDED), pod))
    assert "a pod that asks for a GPU and names its node itself" in said
    container = {"name": "main", "image": "x", "resources": {"limits": {resource: "1"}}}
    ours = a_pod(containers=[container], nodeName="n1")
    said = await refused(cluster.user.create(pods_of(GUARDED), ours))
    assert "a pod that asks for a vendor's GPUs and names its node itself" in said
    made = await cluster.would_be(a_pod(nodeName="n1", **OTHERS), GUARDED)
    assert env_of(made) == VOID
    await cluster.would_be(pod, EXEMPT)


async def test_an_exempt_namespace_keeps_its_drivers(cluster: Clients) -> None:
    made = await cluster.would_be(a_pod({}, ALL, **OTHERS), EXEMPT)
    assert env_of(made) == {VISIBLE: "all"}


async def test_a_user_cannot_exempt_the_namespace(cluster: Clients) -> None:
    change = {"metadata": {"labels": {"kubeshare.io/exempt": "true"}}}
    with pytest.raises(KubeError) as error:
        await cluster.user.merge_patch(f"/api/v1/namespaces/{GUARDED}", change)
    assert error.value.status == 403


async def test_the_api_server_is_told_to_trust_every_replica(cluster: Clients) -> None:
    root = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    found = await cluster.admin.get(f"{root}/{ACCOUNT}")
    for webhook in each(found["webhooks"]):
        bundle = b64decode(webhook["clientConfig"]["caBundle"])
        assert bundle.count(b"BEGIN CERTIFICATE") == REPLICAS
