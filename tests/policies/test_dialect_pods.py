"""Pods that ask in dialects' resources: whose they become, and what is refused of them."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import Raw

from kubeshare_py.admission.review import new_pod_patch
from kubeshare_py.dialects.pod_request import first_problem
from kubeshare_py.domain.dialect_switch import ALL_ON
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.protocol.merge import json_patch
from kubeshare_py.embedded_cluster.protocol.mutation import environment
from kubeshare_py.manifests.admission import read_pod
from kubeshare_py.manifests.pods.effective_requests import container_amounts
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.dialects.halves import GPU, HALF
from tests.policies.environment import a_pod, pods_of
from tests.policies.opted_in import (
    CHOICES,
    DIALECTS,
    OPTED_IN,
    OURS,
    PLAIN_POLICY,
    PLAIN_WEBHOOK,
    POLICY,
    QUARTER,
    RULES,
    THIRD,
    WEBHOOK,
    administrator,
    installed,
    stored,
    taking,
)
from tests.scale import examples

pytestmark = pytest.mark.real_only("the embedded API server has no admission policies")

SHARE = {"sharedgpu/gpu_request": "0.5"}
DEFAULT = "default-scheduler"
ONE_DIALECT = "a pod can only use one dialect"


@pytest.fixture(scope="module")
def opted_in(
    plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    with installed(plane, tmp_path_factory.mktemp("dialects")) as found:
        yield found


@pytest.fixture
async def admin(opted_in: ControlPlane, tmp_path: Path) -> AsyncIterator[KubeClient]:
    async with administrator(opted_in, tmp_path) as client:
        yield client


def asking(name: str = "main", **amounts: str) -> Json:
    names = {"half": HALF, "third": THIRD, "quarter": QUARTER, "gpu": GPU}
    limits = {names[one]: amount for one, amount in amounts.items()}
    return {"name": name, "image": "x", "resources": {"limits": limits}}


def unnamed(*containers: Json, labels: Json | None = None, **spec: Any) -> Json:
    """A pod that leaves its scheduler open."""
    fields = {"schedulerName": DEFAULT, "containers": list(containers or (asking(),)), **spec}
    return a_pod(labels, **fields)


async def scheduler_of(admin: KubeClient, pod: Json, namespace: str) -> str:
    found = await stored(admin, pod, namespace)
    assert not isinstance(found, str), found
    name: str = found["schedulerName"]
    return name


@pytest.mark.parametrize(
    ("pod", "name"),
    [
        (unnamed(asking(half="1")), OURS),
        (unnamed(asking(third="1")), OURS),
        (unnamed(asking(quarter="1")), "batch"),
        (unnamed(asking(), asking("b", half="1")), OURS),
        (unnamed(asking(), initContainers=[asking("init", half="1")]), OURS),
        (unnamed(asking(half="0")), DEFAULT),
        (unnamed(asking(gpu="1")), DEFAULT),
        (unnamed(asking(half="1"), labels={"kubeshare.io/dialects": "false"}), DEFAULT),
        (unnamed(asking(half="1"), schedulerName="another"), "another"),
        (unnamed(asking(half="1"), nodeName="n1"), DEFAULT),
    ],
)
async def test_pods_that_ask_in_a_dialect_become_ours_where_the_namespace_opted_in(
    admin: KubeClient, pod: Json, name: str
) -> None:
    for namespace in (POLICY, WEBHOOK):
        assert await scheduler_of(admin, pod, namespace) == name
    for namespace in (PLAIN_POLICY, PLAIN_WEBHOOK):
        assert await scheduler_of(admin, pod, namespace) == pod["spec"]["schedulerName"]


async def test_containers_of_such_a_pod_are_told_whatever_order_policies_run_in(
    admin: KubeClient,
) -> None:
    for _ in range(20):
        made = await stored(admin, unnamed(asking("a"), asking("b", half="1")), POLICY)
        assert not isinstance(made, str), made
        told = [{one["name"] for one in each["env"]} for each in made["containers"]]
        assert [len(one) for one in told] == [1, 7]
        assert made["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(
    ("pod", "keys"),
    [
        (unnamed(asking(half="1", third="1")), (HALF, THIRD)),
        (unnamed(asking(half="1"), asking("b", third="1")), (HALF, THIRD)),
        (
            unnamed(asking(half="1"), initContainers=[asking("i", third="1")]),
            (HALF, THIRD),
        ),
        (unnamed(asking(half="1"), labels=SHARE), ("sharedgpu/gpu_request", HALF)),
        (unnamed(asking(gpu="1"), labels=SHARE), ("sharedgpu/gpu_request", GPU)),
        (
            unnamed(asking(half="1"), labels={"example.org/kind": "x"}),
            (HALF, "example.org/kind"),
        ),
        (
            unnamed(asking(gpu="1"), schedulerName="batch", labels={"example.net/kind": "x"}),
            (GPU, "example.net/kind"),
        ),
    ],
)
async def test_keys_of_two_dialects_are_refused_and_both_are_named(
    admin: KubeClient, pod: Json, keys: tuple[str, str]
) -> None:
    said = [await stored(admin, pod, namespace) for namespace in (POLICY, WEBHOOK)]
    assert said[0] == said[1]
    assert isinstance(said[0], str)
    assert all(key in said[0] for key in keys)
    assert said[0].endswith(ONE_DIALECT)


async def test_a_dialect_that_the_profile_does_not_enable_is_refused(admin: KubeClient) -> None:
    pod = unnamed(asking(), schedulerName="batch", labels=SHARE)
    rule = (
        "asks in dialect sharedgpu, which this pod's profile does not enable: "
        f"add it to the profile, or {ALL_ON}"
    )
    for namespace in (POLICY, WEBHOOK):
        assert await stored(admin, pod, namespace) == f"sharedgpu/gpu_request {rule}"


async def test_keys_of_another_dialect_cannot_be_added_later(admin: KubeClient) -> None:
    path = pods_of(POLICY)
    await admin.create(path, unnamed(asking(half="1")))
    change = {"metadata": {"labels": {"example.org/kind": "x"}}}
    with pytest.raises(KubeError, match=ONE_DIALECT):
        await admin.merge_patch(f"{path}/p", change)
    annotated = {"metadata": {"annotations": {"keys.example.org/a": "x"}}}
    with pytest.raises(KubeError, match=ONE_DIALECT):
        await admin.merge_patch(f"{path}/p", annotated)
    await admin.merge_patch(f"{path}/p", {"metadata": {"labels": {"app": "x"}}})
    await admin.delete(f"{path}/p", grace_period_s=0)


async def test_a_pod_that_opted_out_and_names_us_is_told_and_guarded(admin: KubeClient) -> None:
    for label in ("true", "false"):
        labels = {"kubeshare.io/dialects": label}
        pod = unnamed(asking(half="1"), labels=labels, schedulerName=OURS)
        made = await stored(admin, pod, POLICY)
        assert not isinstance(made, str), made
        names = [one["name"] for one in made["containers"][0]["env"]]
        assert "NVIDIA_VISIBLE_DEVICES" in names
        pod["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
        said = await stored(admin, pod, POLICY)
        assert isinstance(said, str)
        assert "take it out" in said


def by_code(pod: Json, *, opted_in: bool) -> Json:
    """The pod as the webhook's code leaves it."""
    read = read_pod(Raw(json.dumps(pod).encode()))
    assert not isinstance(read, str)
    rules = replace(RULES, taken=taking()) if opted_in else RULES
    changed: Json = json_patch(pod, msgspec.to_builtins(new_pod_patch(read, rules)))
    return changed


_AMOUNTS = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from("011") for name in ("half", "third", "quarter", "gpu")}
)
_LABELS = st.sampled_from(
    [
        *({}, {}, {}, SHARE, {"kubeshare.io/dialects": "false"}, {"kubeshare.io/dialects": "true"}),
        *({"example.org/kind": "x"}, {"keys.example.net/a": "x"}, {"example.com/a": "x"}),
    ]
)
_SCHEDULERS = st.sampled_from([DEFAULT, DEFAULT, DEFAULT, "another", OURS, "batch"])


@st.composite
def pods(draw: st.DrawFn) -> Json:
    """Pods that ask in any of the dialects, in any of their containers."""
    containers = [asking(f"c{at}", **draw(_AMOUNTS)) for at in range(draw(st.integers(1, 2)))]
    inits = [asking(f"i{at}", **draw(_AMOUNTS)) for at in range(draw(st.integers(0, 2)))]
    spec = {"initContainers": inits} if inits else {}
    pod = unnamed(*containers, labels=draw(_LABELS), schedulerName=draw(_SCHEDULERS), **spec)
    pod["metadata"]["annotations"] = draw(st.sampled_from([{}, {}, {"keys.example.org/b": "x"}]))
    return pod


@settings(examples(120), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pod=pods())
async def test_policy_webhook_and_the_embedded_server_do_the_same(
    admin: KubeClient, pod: Json
) -> None:
    for opted_in, policy, hook in ((True, POLICY, WEBHOOK), (False, PLAIN_POLICY, PLAIN_WEBHOOK)):
        made = by_code(pod, opted_in=opted_in)
        mutated = environment(CHOICES, DIALECTS)(pod, OPTED_IN if opted_in else {})
        assert mutated["spec"]["schedulerName"] == made["spec"]["schedulerName"]
        found = [await stored(admin, pod, one) for one in (policy, hook)]
        assert found[0] == found[1]
        problem = _problem(made)
        if problem and made["spec"]["schedulerName"] in CHOICES:
            assert found[0] == problem
        else:
            assert found[0] == await stored(admin, made, "default")


def _problem(pod: Json) -> str:
    """What the scheduler would say of the pod."""
    read = read_pod(Raw(json.dumps(pod).encode()))
    assert not isinstance(read, str)
    table = DIALECTS.of(read.spec.scheduler_name)
    amounts = container_amounts(read.spec.init_containers, read.spec.containers, table.resources)
    labels, annotations = read.metadata.labels or {}, read.metadata.annotations or {}
    return str(first_problem(labels, annotations, table, amounts) or "")
