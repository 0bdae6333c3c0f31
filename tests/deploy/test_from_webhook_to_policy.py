"""From webhook to policy and back, while pods are created: each gets its environment, none waits.

The webhook is a process of its own at this machine, because there is no network to Services here:
the chart's copy names it by its URL. It ends when Helm deletes its Deployment, or earlier than any
pod of a real cluster would.
"""

import asyncio
import re
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import pytest

from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.isolation.containers import CAPABILITIES, DEVICE_VARIABLES
from tests.admission.patched import SHARE, env_of
from tests.controlplane.helm import CHART, NAMESPACE
from tests.controlplane.processes import Process, process
from tests.controlplane.running import ControlPlane, free_ports
from tests.controlplane.shipped import Json
from tests.deploy.conftest import Release, expect_eventually
from tests.policies.environment import a_pod, has_policies
from tests.stories.conftest import PODS, Stage

pytestmark = pytest.mark.real_only("it needs admission policies, webhooks and Helm")

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
POLICY = f"{ADMISSION}/mutatingadmissionpolicybindings/kubeshare-environment"
WEBHOOK = f"{ADMISSION}/mutatingwebhookconfigurations/kubeshare-admission"
SERVER = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/kubeshare-admission"
WITH_CARD = {
    "NVIDIA_VISIBLE_DEVICES": "metadata.annotations['sharedgpu/gpu_uuid']",
    **{one.name: one.value for one in (CAPABILITIES, *DEVICE_VARIABLES)},
}
#: Creations at a time.
CREATORS = 3


def chart_calling(port: int, folder: Path) -> Path:
    """A copy of the chart, whose webhook is at this port of this machine."""
    copy = shutil.copytree(CHART, folder / "chart")
    template = copy / "templates/admission-webhook.yaml"
    service = r"service: \{name: .*, path: (\{\{.*?\}\})\}"
    text, found = re.subn(service, rf"url: https://127.0.0.1:{port}\1", template.read_text())
    assert found == 1
    template.write_text(text)
    return copy


@dataclass
class Creations:
    """What became of pods that were created all the time."""

    client: KubeClient
    made: int = 0
    wrong: list[str] = field(default_factory=list)

    async def run(self) -> None:
        """Create until cancelled; nothing is stored."""
        async with asyncio.TaskGroup() as group:
            for _ in range(CREATORS):
                group.create_task(self._create())

    async def more(self, count: int) -> None:
        """Wait for so many further ones."""
        wanted = self.made + count

        async def asked() -> Json:
            return {"made": self.made}

        await expect_eventually(asked, lambda found: found["made"] >= wanted)

    async def _create(self) -> None:
        while True:
            try:
                made = await self.client.create(PODS, a_pod(SHARE), {"dryRun": "All"})
                if env_of(made) != WITH_CARD:
                    self.wrong.append(str(made["spec"]["containers"]))
            except KubeError as error:
                self.wrong.append(str(error))
            self.made += 1


async def is_there(client: KubeClient, path: str) -> bool:
    try:
        await client.get(path)
    except KubeError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            return False
        raise
    return True


@dataclass
class Changeover:
    """A release in whose cluster pods are created, and the webhook's process."""

    stage: Stage
    release: Release
    port: int
    stack: ExitStack
    process: Process | None = None

    def start_webhook(self) -> None:
        """Run it as the chart's account."""
        plane, folder = self.release.plane, self.stage.folder
        account = "kubeshare-admission"
        secrets = replace(plane.secrets, tokens={account: plane.token_of(NAMESPACE, account)})
        kubeconfig = secrets.write_kubeconfig(folder / account, plane.url, account)
        command = [
            *(sys.executable, "-m", "kubeshare_cmd.admission", "--address=127.0.0.1"),
            *(f"--port={self.port}", f"--kubeconfig={kubeconfig}", "--runtime-class=nvidia"),
        ]
        self.process = self.stack.enter_context(process(command, folder / "webhook.log"))

    async def end_webhook_with_its_deployment(self) -> None:
        """Like a kubelet, but at once."""
        while True:
            if not await is_there(self.stage.client, SERVER):
                break
            await asyncio.sleep(0.005)
        assert self.process is not None
        await asyncio.to_thread(self.process.stop)

    async def in_force(self) -> None:
        """Wait until pods are patched."""

        async def asked() -> Json:
            try:
                return await self.stage.client.create(PODS, a_pod(SHARE), {"dryRun": "All"})
            except KubeError as error:
                return {"spec": {"containers": [{"env": []}]}, "refused": str(error)}

        await expect_eventually(asked, lambda made: env_of(made) == WITH_CARD)

    async def there(self) -> tuple[bool, bool]:
        """Whether there are policy and webhook."""
        client = self.stage.client
        return await is_there(client, POLICY), await is_there(client, WEBHOOK)

    @asynccontextmanager
    async def creating(self) -> AsyncIterator[Creations]:
        """Pods are created while entered; afterwards none of them may have been wrong."""
        found = Creations(self.stage.client)
        async with asyncio.TaskGroup() as group:
            running = group.create_task(found.run())
            await found.more(20)
            yield found
            await found.more(20)
            running.cancel()
        assert found.wrong == []


@pytest.fixture
async def changeover(stage: Stage, bare: ControlPlane, tmp_path: Path) -> AsyncIterator[Changeover]:
    if not has_policies(bare):
        pytest.skip("MutatingAdmissionPolicy is v1 from Kubernetes 1.36 on")
    bare.start_server_again()  # it knows nothing of an earlier test's Lease
    [port] = free_ports(1)
    release = Release(plane=bare, home=tmp_path / "helm", chart=chart_calling(port, tmp_path))
    with ExitStack() as stack:
        yield Changeover(stage, release, port, stack)
        await release.uninstall()


async def test_from_webhook_to_policy_no_pod_is_refused_and_none_misses_its_environment(
    changeover: Changeover,
) -> None:
    release = changeover.release
    await release.install('admission.by="webhook"', "collector.enabled=false")
    changeover.start_webhook()
    await changeover.in_force()
    assert await changeover.there() == (False, True)
    async with changeover.creating() as created, asyncio.TaskGroup() as group:
        group.create_task(changeover.end_webhook_with_its_deployment())
        said = await release.upgrade('admission.by="auto"')
        assert "The webhook of the previous revision stays" in said
        assert await changeover.there() == (True, True)
        await created.more(50)
        said = await release.upgrade()
        assert "of the previous revision" not in said
        assert await changeover.there() == (True, False)


async def test_from_policy_to_webhook_the_policy_stays_until_the_webhook_runs(
    changeover: Changeover,
) -> None:
    release = changeover.release
    await release.install("collector.enabled=false")
    await changeover.in_force()
    assert await changeover.there() == (True, False)
    async with changeover.creating() as created:
        said = await release.upgrade('admission.by="webhook"')
        assert "The policy of the previous revision stays" in said
        assert await changeover.there() == (True, True)
        await created.more(50)
        changeover.start_webhook()
        server = changeover.stage.client.get
        await expect_eventually(
            lambda: server(SERVER), lambda one: "availableReplicas" in one["status"]
        )
        await expect_eventually(
            lambda: server(WEBHOOK), lambda one: "caBundle" in one["webhooks"][0]["clientConfig"]
        )
        await created.more(50)
        await release.upgrade()
        assert await changeover.there() == (False, True)
