"""The controller of SharePods as a command."""

import asyncio
import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from kubeshare_py.edges.kube.client import KubeClient
from tests.controlplane.processes import most_resident_bytes
from tests.embedded_cluster.embedded import cluster
from tests.patience import PATIENCE_S
from tests.programs.commands import expect_said, run, running
from tests.stories.share_pods import CRD, DEFINITIONS, SHARE_PODS, amounts, share_pod

LOCAL = ("--address", "127.0.0.1", "--port", "0")


async def test_it_waits_for_share_pods_to_be_defined_and_says_so(tmp_path: Path) -> None:
    """KubeShare 1.0's programs ended with exit code 1 without the definition."""
    async with cluster(tmp_path):
        options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--leader-elect", "false", *LOCAL)
        async with running(tmp_path, "controller", *options) as process:
            line = json.loads(await expect_said(process.stderr, '"started"'))
            assert line["program"] == "kubeshare-controller"
            said = json.loads(await expect_said(process.stderr, "not defined"))
            assert said["message"].endswith("install the chart with sharePods.enabled")
            url = line["addresses"][0]
            async with aiohttp.ClientSession() as session:
                async with session.get(f"{url}/readyz") as answer:
                    assert answer.status == 200
                async with session.get(f"{url}/metrics") as answer:
                    page = await answer.text()
            assert "kubeshare_controller_requests_under_way 0.0" in page
            assert "rest_client_requests_total" in page
            process.terminate()
            await process.communicate()
            assert process.returncode == 0


async def test_one_of_two_works_and_the_next_one_when_it_ended(tmp_path: Path) -> None:
    async with cluster(tmp_path):
        options = ("--kubeconfig", str(tmp_path / "kubeconfig"), *LOCAL)
        async with running(tmp_path, "controller", *options) as first:
            await expect_said(first.stderr, '"leads"')
            async with running(tmp_path, "controller", *options) as second:
                await expect_said(second.stderr, '"stands by"')
                first.terminate()
                await expect_said(second.stderr, '"leads"')


@pytest.mark.slow
async def test_large_share_pods_are_not_kept(tmp_path: Path) -> None:
    """No pod is made from 1.3 MB; kept, 30 of them would take 4 MiB each."""
    async with cluster(tmp_path) as (_, client):
        await defined(client)
        options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--leader-elect", "false", *LOCAL)
        async with running(tmp_path, "controller", *options) as process:
            await expect_said(process.stderr, '"started"')
            await client.create(SHARE_PODS, share_pod("small", amounts("0.01")))
            await shown(client, 1)
            before = most_resident_bytes(process.pid)
            large = share_pod("large", amounts("0.01"))
            entries = [{"name": f"N{number}", "value": "x" * 1000} for number in range(1260)]
            large["spec"]["containers"][0]["env"] = entries
            for number in range(30):
                large["metadata"]["name"] = f"large-{number}"
                await client.create(SHARE_PODS, large)
            await shown(client, 31)
            assert most_resident_bytes(process.pid) < before + 30 * 2**20


async def defined(client: KubeClient) -> None:
    """SharePods are, and are served."""
    made = await client.create(DEFINITIONS, yaml.safe_load(CRD.read_text()))
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if (await client.get(f"{DEFINITIONS}/{made['metadata']['name']}")).get("status"):
                return
            await asyncio.sleep(0.05)


async def shown(client: KubeClient, number: int) -> None:
    """So many SharePods say what became of them."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await client.list_all(SHARE_PODS)
            if sum(bool(one.get("status", {}).get("conditions")) for one in found) == number:
                return
            await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--lease-duration", "1s"), 2, "renewDeadline"),
        (("--retry-period", "x"), 2, "retryPeriod"),
        (("--kubeconfig", "none"), 3, "no such file"),
        (("--port", "99999"), 2, "--port"),
    ],
)
async def test_wrong_usage_is_told(
    options: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    found, _, errors = await run(tmp_path, "controller", *options)
    assert (found, said in errors) == (code, True), errors


async def test_an_address_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    async with cluster(tmp_path):
        options = ("--kubeconfig", str(tmp_path / "kubeconfig"), "--leader-elect", "false")
        found, _, errors = await run(tmp_path, "controller", *options, "--address", "192.0.2.1")
        assert (found, "kubeshare-controller: " in errors) == (3, True), errors
