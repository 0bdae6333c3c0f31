"""The controller of SharePods with the rights that the chart gives it, and with no others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient, decode
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.programs import controller
from kubeshare_py.programs.controller import ELECTION, ControllerSettings
from tests.controlplane.helm import NAMESPACE
from tests.controlplane.running import ControlPlane
from tests.controlplane.shipped import Json
from tests.deploy.conftest import Release, expect_eventually, kubectl
from tests.stories.conftest import PODS, Stage
from tests.stories.share_pods import (
    SHARE_PODS,
    amounts,
    condition,
    create,
    expect,
    expect_failing,
    expect_garbage_collection,
    expect_gone,
)

pytestmark = pytest.mark.real_only("it needs Helm, which make e2e builds")

NAME = "kubeshare-controller"
DRY_DELETION = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}
BOUND = "--serviceaccount=default:narrow"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"


def kubeconfig(plane: ControlPlane, folder: Path) -> Path:
    """Of the controller's own account."""
    tokens = {**plane.secrets.tokens, USER: plane.token_of(NAMESPACE, NAME)}
    secrets = replace(plane.secrets, tokens=tokens)
    return secrets.write_kubeconfig(folder / "of-controller", plane.url, USER)


@asynccontextmanager
async def controlling(credentials: Path) -> AsyncIterator[None]:
    """The whole program, with its Lease, while entered."""
    settings = ControllerSettings(
        address="127.0.0.1", port=0, scheduler="kubeshare-scheduler",
        election=ELECTION, kubeconfig=str(credentials),
    )  # fmt: skip
    async with asyncio.TaskGroup() as group:
        running = group.create_task(controller.main(settings))
        yield
        running.cancel()


async def test_the_controller_does_all_its_work_with_the_rights_of_the_chart(
    stage: Stage, release: Release, bare: ControlPlane, tmp_path: Path
) -> None:
    await release.upgrade("sharePods.enabled=true")
    await kubectl(bare, "wait", "--for=condition=Established", "crd/sharepods.kubeshare.nthu")
    await expect_garbage_collection(stage)
    async with controlling(kubeconfig(bare, tmp_path)):
        for name, given in (("one", amounts("0.5")), ("wrong", {"kubeshare/gpu_mem": "x"})):
            await create(stage, name, given)
        await expect(stage, "one", lambda share: condition(share).get("status") == "True")
        await expect_failing(stage, "wrong", "ErrValueError")
        await stage.expect_event("one", "Synced")
        first = (await stage.pod("one"))["metadata"]["uid"]
        # An edit, an orphan that is adopted, and a SharePod that keeps its pod until it is gone.
        await stage.client.merge_patch(f"{SHARE_PODS}/one", {"spec": {"hostname": "x"}})
        await expect(stage, "one", lambda share: uid_of_pod(share) not in ("", first))
        await delete(stage, "one", "Orphan")
        orphan = (await stage.pod("one"))["metadata"]["uid"]
        await create(stage, "one", amounts("0.5"), hostname="x")
        await expect(stage, "one", lambda share: uid_of_pod(share) == orphan)
        await delete(stage, "one", "Foreground")
        await expect_gone(stage, PODS, "one")


def uid_of_pod(share: Json) -> str:
    return str(share.get("status", {}).get("PodObjectMeta", {}).get("uid", ""))


async def delete(stage: Stage, name: str, policy: str) -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    await stage.client.request("DELETE", f"{SHARE_PODS}/{name}", body=options)
    await expect_gone(stage, SHARE_PODS, name)


async def test_who_may_not_create_pods_describes_none(
    stage: Stage, release: Release, bare: ControlPlane, tmp_path: Path
) -> None:
    await release.upgrade("sharePods.enabled=true")
    await kubectl(bare, "wait", "--for=condition=Established", "crd/sharepods.kubeshare.nthu")
    await kubectl(bare, "create", "serviceaccount", "narrow")
    rights = ("--verb=create,update,patch,delete", "--resource=sharepods.kubeshare.nthu")
    await kubectl(bare, "create", "role", "narrow", *rights)
    await kubectl(bare, "create", "rolebinding", "narrow", "--role=narrow", BOUND)
    user = "system:serviceaccount:default:narrow"
    tokens = {**bare.secrets.tokens, user: bare.token_of("default", "narrow")}
    secrets = replace(bare.secrets, tokens=tokens)
    config = secrets.write_kubeconfig(tmp_path / "narrow", bare.url, user)
    share = {
        "apiVersion": "kubeshare.nthu/v1",
        "kind": "SharePod",
        "metadata": {"name": "mine"},
        "spec": {"serviceAccountName": "admin", "containers": []},
    }
    async with KubeClient(load(str(config))) as narrow:
        wish = partial(narrow.create, f"{SHARE_PODS}?dryRun=All", share)
        right = "must have the right to create pods"
        await expect_eventually(
            partial(refusal_of, wish), lambda found: right in found.get("message", "")
        )
        await stage.client.create(SHARE_PODS, share)
        for change in (
            {"spec": {"serviceAccountName": "other"}},
            {"metadata": {"annotations": {"kubeshare/gpu_request": "1"}}},
            {"metadata": {"labels": {"a": "b"}}},
        ):
            ask = partial(narrow.merge_patch, f"{SHARE_PODS}/mine", change)
            assert right in (await refusal_of(ask))["message"]
        # As the garbage collector does it, which creates no pods.
        finalizers = {"metadata": {"finalizers": ["example.com/x"]}}
        await narrow.merge_patch(f"{SHARE_PODS}/mine", finalizers)
        await narrow.merge_patch(f"{SHARE_PODS}/mine", {"metadata": {"finalizers": None}})
        await kubectl(bare, "create", "rolebinding", "pods", "--clusterrole=edit", BOUND)
        change = {"spec": {"hostname": "x"}}
        ask = partial(narrow.merge_patch, f"{SHARE_PODS}/mine", change)
        await expect_eventually(partial(refusal_of, ask), lambda found: not found)
        await narrow.delete(f"{SHARE_PODS}/mine")


def owned(kind: str = "SharePod", **spec: str) -> Json:
    """A pod that a SharePod of its name may control."""
    owner = {
        "apiVersion": "kubeshare.nthu/v1", "kind": kind, "name": "x", "uid": "u",
        "controller": True,
    }  # fmt: skip
    containers = [{"name": "main", "image": "busybox"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "x", "ownerReferences": [owner]},
        "spec": {"containers": containers, "automountServiceAccountToken": False, **spec},
    }


async def test_a_stolen_token_of_the_controller_makes_share_pods_pods_and_no_others(
    stage: Stage, release: Release, bare: ControlPlane, tmp_path: Path
) -> None:
    await release.upgrade("sharePods.enabled=true")
    other = {**owned(schedulerName="another"), "metadata": {"name": "other"}}
    await stage.client.create(PODS, other)
    async with KubeClient(load(str(kubeconfig(bare, tmp_path)))) as client:
        dry = f"{PODS}?dryRun=All"
        label = {"metadata": {"labels": {"a": "b"}}}
        for ask, said in (
            (partial(client.create, dry, owned("ReplicaSet")), "pods of SharePods and no others"),
            (partial(client.create, dry, owned(nodeName="n1")), "leaves it to schedulers"),
            (partial(client.merge_patch, f"{PODS}/other?dryRun=All", label), "pods of SharePods"),
            (partial(dry_deletion, client, f"{PODS}/other"), "that wait and no others"),
        ):
            found = await expect_eventually(partial(refusal_of, ask), bool)
            assert said in found["message"], found
        await client.create(dry, owned())
        for ask in (
            partial(client.get, "/api/v1/secrets"),
            partial(client.get, "/api/v1/nodes"),
            partial(client.create, SHARE_PODS, {}),
        ):
            assert "403" in (await refusal_of(ask))["message"]


async def dry_deletion(client: KubeClient, path: str) -> Json:
    """Ask for it; with a body, the API server takes no options from the query."""
    answer = await client.request("DELETE", path, body=DRY_DELETION)
    return decode(answer.body)


async def refusal_of(ask: Callable[[], Awaitable[Json]]) -> Json:
    """What the API server says against it, {} if nothing."""
    try:
        await ask()
    except KubeError as error:
        return {"message": str(error)}
    return {}


@pytest.mark.parametrize(
    ("role", "verb", "allowed"),
    [
        ("view", "list", True), ("view", "create", False),
        ("edit", "create", True), ("admin", "deletecollection", True),
    ],
)  # fmt: skip
async def test_users_may_do_with_share_pods_what_they_may_do_with_pods(
    stage: Stage, release: Release, role: str, verb: str, allowed: bool
) -> None:
    await release.upgrade("sharePods.enabled=true")
    user = f"user-of-{role}-{verb}"
    rbac = "rbac.authorization.k8s.io"
    binding = {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": user}],
    }
    await stage.client.create(f"/apis/{rbac}/v1/namespaces/default/rolebindings", binding)
    what = {"group": "kubeshare.nthu", "resource": "sharepods", "namespace": "default"}
    review = {"spec": {"user": user, "resourceAttributes": {**what, "verb": verb}}}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

    async def said() -> Json:
        status: Json = (await stage.client.create(path, review))["status"]
        return status

    # Roles are put together a moment after they are made.
    assert (await expect_eventually(said, lambda one: one["allowed"] is allowed))[
        "allowed"
    ] is allowed
