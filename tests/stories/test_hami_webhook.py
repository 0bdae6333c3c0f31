"""HAMi's registration of its webhook, turned to the extender's port of this scheduler."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.hami.hami_dialect import Hami
from kubeshare_py.dialects.sharedgpu_dialect import SHAREDGPU
from kubeshare_py.edges.kube.certificates import Certificates, make_certificates
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.protocol.merge import json_patch
from tests.admission.hami_pods import CORES, GPU, MEM, PRIORITY, a_pod, privileged
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.token_limits import limits_with
from tests.patience import PATIENCE_S
from tests.stories.conftest import PODS, Json, Stage

OWN, THEIRS = "kubeshare-scheduler", "hami-scheduler"
DIALECTS = Dialects({OWN: (SHAREDGPU,), THEIRS: (SHAREDGPU, Hami())})
#: The version that HAMi's chart asks for, alone.
BETA = "admission.k8s.io/v1beta1"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CLUSTER = "nodes: [{name: n1, gpus: [{model: T4, count: 1, memory: 16GiB}]}]"


@pytest.fixture(scope="module", autouse=True)
def limits(plane: ControlPlane | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The scheduler's account may read ResourceQuotas."""
    with limits_with(Hami(), plane, tmp_path_factory.mktemp("limits")):
        yield


@asynccontextmanager
async def extending(stage: Stage) -> AsyncIterator[tuple[str, Certificates]]:
    """The URL of /webhook of a scheduler that is kube-scheduler's extender."""
    made = make_certificates(stage.folder / "extender")
    [port] = free_ports(1)
    files = {"certificateFile": str(made.certificate_file), "keyFile": str(made.key_file)}
    document = {
        "profiles": [
            {"schedulerName": OWN},
            {
                "schedulerName": THEIRS,
                "extender": True,
                "dialects": [{"name": "sharedgpu"}, {"name": "hami"}],
            },
        ],
        "extender": {"bindAddress": "127.0.0.1", "port": port, **files},
    }
    async with stage.scheduler(document, dialects=DIALECTS):
        await stage.warm_up()
        yield f"https://127.0.0.1:{port}/webhook", made


async def test_a_review_is_answered_in_hamis_version_as_its_webhook_did(empty_stage: Stage) -> None:
    """By hand, since the embedded API server calls no webhooks: counts, priorities, refusals."""
    async with extending(empty_stage) as (url, made), aiohttp.ClientSession() as session:

        async def answer(pod: Json) -> Json:
            asked = {"uid": "u", "operation": "CREATE", "object": pod}
            review = {"apiVersion": BETA, "kind": "AdmissionReview", "request": asked}
            async with session.post(url, json=review, ssl=made.client_context()) as response:
                found: Json = await response.json()
            assert (found["apiVersion"], found["response"]["uid"]) == (BETA, "u")
            said: Json = found["response"]
            return said

        pod = a_pod({MEM: 4096, PRIORITY: 1})
        steps = json.loads(base64.b64decode((await answer(pod))["patch"]))
        changed: Json = json_patch(pod, steps)
        assert changed["spec"]["schedulerName"] == THEIRS
        [container] = changed["spec"]["containers"]
        assert container["resources"]["limits"] == {GPU: "1", MEM: "4096", PRIORITY: "1"}
        assert {"name": "CUDA_TASK_PRIORITY", "value": "1"} in container["env"]
        refused = await answer(privileged(a_pod({GPU: 1})))
        assert "container c0 is privileged" in refused["status"]["message"]
        for other in (a_pod({}), a_pod({GPU: 1}, schedulerName="my-sched")):
            assert await answer(other) == {"uid": "u", "allowed": True}


def registration(url: str, made: Certificates) -> Json:
    """As HAMi's chart makes it (templates/scheduler/webhook.yaml), with another address."""
    bundle = base64.b64encode(made.ca_file.read_bytes()).decode()
    ignored = {"key": "hami.io/webhook", "operator": "NotIn", "values": ["ignore"]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hami-webhook"},
        "webhooks": [
            {
                "name": "vgpu.hami.io",
                "admissionReviewVersions": ["v1beta1"],
                "clientConfig": {"url": url, "caBundle": bundle},
                "failurePolicy": "Ignore",
                "matchPolicy": "Equivalent",
                "namespaceSelector": {"matchExpressions": [ignored]},
                "objectSelector": {"matchExpressions": [ignored]},
                "reinvocationPolicy": "Never",
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                        "scope": "*",
                    }
                ],
                "sideEffects": "None",
                "timeoutSeconds": 10,
            }
        ],
    }


@pytest.mark.real_only("the embedded API server calls no webhooks")
async def test_hamis_registration_works_with_another_address(empty_stage: Stage) -> None:
    """An API server asks in version v1beta1; pods that opted out by label stay as they are."""
    client = empty_stage.client

    async def stored(pod: Json) -> Json:
        return await client.create(PODS, pod, {"dryRun": "All"})

    async def until(pod: Json, holds: Callable[[Json], bool]) -> Json:
        """API servers notice a new registration after a while."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                made = await stored(pod)
                if holds(made):
                    return made
                await asyncio.sleep(0.1)

    async with extending(empty_stage) as (url, certificates):
        await client.create(WEBHOOKS, registration(url, certificates))
        try:
            made = await until(
                a_pod({CORES: 30}), lambda pod: pod["spec"]["schedulerName"] == THEIRS
            )
            [container] = made["spec"]["containers"]
            assert container["resources"]["limits"] == {GPU: "1", CORES: "30"}
            with pytest.raises(KubeError, match="container c0 is privileged"):
                await stored(privileged(a_pod({GPU: 1, MEM: 1})))
            left = await stored(a_pod({GPU: 1}, labels={"hami.io/webhook": "ignore"}))
            assert left["spec"]["schedulerName"] == "default-scheduler"
        finally:
            await client.delete(f"{WEBHOOKS}/hami-webhook")
