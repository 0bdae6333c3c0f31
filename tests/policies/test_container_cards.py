"""Policy and webhook give the same variables to containers that ask for cards themselves."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from kubeshare_py.admission.review import new_pod_patch
from kubeshare_py.dialects.card_visibility import CardVisibility, ContainerRule
from kubeshare_py.dialects.dialect import OwnedKeys
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.protocol.merge import json_patch
from kubeshare_py.manifests.admission import read_pod
from tests.admission.any_pod import pods
from tests.admission.patched import ALL, env_of
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.dialects.halves import HALF, Halves
from tests.policies.conftest import refused
from tests.policies.environment import (
    GUARDED,
    PERCENT,
    POLICY,
    TOLD,
    UNITS,
    UNTOLD,
    WHOLE,
    Clients,
    a_pod,
    clients,
    has_policies,
    pods_of,
)
from tests.scale import examples

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
VOID = {VISIBLE: "void"}
PATH = "metadata.annotations['sharedgpu/{}.{}']"
CARDS = "metadata.annotations['sharedgpu/gpu_uuid']"
INITS = [{"name": "init", "image": "x"}, {"name": "side", "image": "x", "restartPolicy": "Always"}]


class Both(Halves):
    """With the rules that the policies know."""

    name = "both"

    def __init__(self) -> None:
        super().__init__()
        self.owns = OwnedKeys(resources=frozenset({HALF, WHOLE, PERCENT, UNITS}))
        self.container_rules = (
            ContainerRule(HALF, CardVisibility.SHARE, variables=tuple(TOLD.items())),
            ContainerRule(WHOLE, CardVisibility.WHOLE),
            ContainerRule(PERCENT, CardVisibility.SHARE, whole_from=100),
            ContainerRule(
                UNITS, CardVisibility.SHARE, variables=tuple(TOLD.items()), init_containers=False
            ),
        )


RULES = replace(
    ALL, dialects=Dialects({"kubeshare-scheduler": (SHAREDGPU, Both())}), runtime_class="nvidia"
)


@pytest.fixture
async def cluster(installed_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Clients]:
    if not has_policies(installed_plane):
        pytest.skip("MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on")
    async with clients(installed_plane, tmp_path) as found:
        yield found


def asking(name: str = "main", resource: str = HALF, amount: str = "1") -> Json:
    return {"name": name, "image": "x", "resources": {"limits": {resource: amount}}}


def by_code(pod: Json) -> Json:
    """The pod as the webhook's code leaves it."""
    read = read_pod(Raw(json.dumps(pod).encode()))
    assert not isinstance(read, str)
    changed: Json = json_patch(pod, msgspec.to_builtins(new_pod_patch(read, RULES)))
    return changed


async def stored(cluster: Clients, pod: Json, namespace: str) -> Json:
    """What would be stored; of a refusal, which policies list names in any order in, the status."""
    try:
        found: Json = (await cluster.would_be(pod, namespace))["spec"]
        return found
    except KubeError as error:
        return {"status": error.status}


_AMOUNTS = ("0", "1", "99", "100", "101", "1k")
_ASKED = st.one_of(
    st.sampled_from([{}, {}, {HALF: "1"}, {HALF: "0"}, {WHOLE: "2"}, {HALF: "1", WHOLE: "1"}]),
    st.sampled_from([{UNITS: "1"}, {UNITS: "1", WHOLE: "1"}]),
    st.sampled_from([{PERCENT: amount} for amount in _AMOUNTS]),
)


@settings(examples(80), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods(), asked=st.lists(_ASKED, min_size=4, max_size=4))
async def test_policy_and_code_make_the_same_pod_and_the_guard_accepts_it(
    cluster: Clients, pod: Json, asked: list[dict[str, str]]
) -> None:
    spec = pod["spec"]
    for one, limits in zip(
        (*spec["containers"], *spec.get("initContainers", ())), asked, strict=False
    ):
        one["resources"] = {"limits": limits}
    assert await stored(cluster, pod, GUARDED) == await stored(cluster, by_code(pod), UNTOLD)
    by_policy = await stored(cluster, pod, POLICY)
    # Labels are looked at there, and nothing in the default namespace.
    assert "status" in by_policy or by_policy == await stored(cluster, by_code(pod), "default")


async def test_each_container_refers_to_its_own_annotations(cluster: Clients) -> None:
    labels = {"sharedgpu/isolation": "mps"}
    containers = [{"name": "log", "image": "x"}, asking(), asking("whole", WHOLE)]
    inits = [*INITS, {**asking("worker"), "restartPolicy": "Always"}]
    made = await cluster.would_be(
        a_pod(labels, containers=containers, initContainers=inits), GUARDED
    )
    for kind, index, name in (("containers", 1, "container-1"), ("initContainers", 2, "init-2")):
        env = env_of(made, kind, index)
        assert env[VISIBLE] == PATH.format(name, "gpu_uuid")
        assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == PATH.format(name, "mps_memory")
        assert len(made["spec"][kind][index]["volumeMounts"]) == 2
        assert env["OWN_SHARE"] == f"metadata.annotations['example.com/{name}.share']"
        assert env["CARD"] == "metadata.annotations['example.com/card']"
    assert env_of(made, "containers", 2)[VISIBLE] == PATH.format("container-2", "gpu_uuid")
    assert not {"CUDA_MPS_PIPE_DIRECTORY", "CARD"} & env_of(made, "containers", 2).keys()
    assert env_of(made) == env_of(made, "initContainers") == VOID
    assert env_of(made, "initContainers", 1) == VOID
    assert made["spec"]["runtimeClassName"] == "nvidia"


async def test_init_containers_see_nothing_of_what_is_not_counted_for_them(
    cluster: Clients,
) -> None:
    """As gpushare's, sidecars included."""
    inits = [asking("init", UNITS), {**asking("side", UNITS), "restartPolicy": "Always"}]
    pod = a_pod(containers=[asking("main", UNITS)], initContainers=inits)
    made = await cluster.would_be(pod, GUARDED)
    assert env_of(made)["CARD"] == "metadata.annotations['example.com/card']"
    assert [env_of(made, "initContainers", at) for at in (0, 1)] == [VOID, VOID]


async def test_a_variable_of_the_users_own_stays_what_he_says(cluster: Clients) -> None:
    one = {**asking(), "env": [{"name": "CARD", "value": "mine"}]}
    made = await cluster.would_be(a_pod(containers=[one]), GUARDED)
    assert env_of(made)["CARD"] == "mine"


@pytest.mark.parametrize(
    ("index", "path"),
    [
        (0, PATH.format("container-1", "gpu_uuid")),
        (0, CARDS),
        (1, PATH.format("container-0", "gpu_uuid")),
        (1, PATH.format("init-0", "gpu_uuid")),
    ],
)
async def test_no_user_shows_a_container_the_cards_of_another(
    cluster: Clients, index: int, path: str
) -> None:
    containers = [asking(), {"name": "log", "image": "x"}]
    entry = {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}
    containers[index]["env"] = [entry]
    said = await refused(
        cluster.user.create(pods_of(GUARDED), a_pod(containers=containers, initContainers=INITS))
    )
    assert f"{VISIBLE} of a container: take it out" in said


async def test_a_pod_whose_containers_were_told_alike_is_refused(cluster: Clients) -> None:
    # As a webhook that does not know the dialect tells them.
    void = {"name": VISIBLE, "value": "void"}
    pods_cards = {"name": VISIBLE, "valueFrom": {"fieldRef": {"fieldPath": CARDS}}}
    for entry in (void, pods_cards):
        one = {**asking(), "env": [entry]}
        said = await refused(cluster.would_be(a_pod(containers=[one]), UNTOLD))
        assert f"{VISIBLE} of a container" in said
    said = await refused(cluster.would_be(a_pod(containers=[asking()]), UNTOLD))
    assert f"{VISIBLE} is not set in every container" in said


async def test_labels_do_not_change_what_containers_of_such_a_pod_were_told(
    cluster: Clients,
) -> None:
    path = f"{pods_of(GUARDED)}/p"
    await cluster.user.create(pods_of(GUARDED), a_pod(containers=[asking()]))
    asks = {"metadata": {"labels": {"sharedgpu/gpu_request": "0.5"}}}
    await cluster.user.merge_patch(path, asks)
    change = {"metadata": {"labels": {"sharedgpu/isolation": "mps"}}}
    assert "create it anew" in await refused(cluster.user.merge_patch(path, change))
    await cluster.user.delete(path, grace_period_s=0)


@pytest.mark.parametrize(("amount", "shared"), [("99", True), ("100", False), ("200", False)])
async def test_from_an_amount_on_a_container_sees_whole_cards(
    cluster: Clients, amount: str, shared: bool
) -> None:
    pod = a_pod({"sharedgpu/isolation": "mps"}, containers=[asking("one", PERCENT, amount)])
    made = await cluster.would_be(pod, GUARDED)
    assert ("CUDA_MPS_PIPE_DIRECTORY" in env_of(made)) is shared
    assert env_of(made)[VISIBLE] == PATH.format("container-0", "gpu_uuid")
