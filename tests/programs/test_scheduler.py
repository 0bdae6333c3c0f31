"""kubeshare-scheduler as a process: how it starts, refuses to start, and ends."""

import asyncio
import copy
import json
import platform
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_py.configuration.scheduler import SchedulerConfiguration, read
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER, Fault
from tests.patience import PATIENCE_S
from tests.programs.commands import expect_said, run, running

PODS = "/api/v1/namespaces/default/pods"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a"},
    "spec": {
        "schedulerName": "kubeshare-scheduler",
        "containers": [{"name": "main", "image": "busybox"}],
    },
}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    async with embedded_cluster(tmp_path, read_cluster("nodes: [{name: n1}]")) as cluster:
        settings = {"server": {"bindAddress": "127.0.0.1", "port": 0}}
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
        cluster.server.write_kubeconfig(tmp_path / "mine", SCHEDULER)
        yield cluster


def options(cluster: EmbeddedCluster) -> tuple[str, ...]:
    url = cluster.collectors.url
    return ("--config", "settings.yaml", "--kubeconfig", "mine", "--prometheus-url", url)


async def test_check_config_prints_what_is_in_effect(tmp_path: Path) -> None:
    (tmp_path / "few.yaml").write_text("parallelBinds: 4")
    code, printed, errors = await run(
        tmp_path, "scheduler", "--check-config", "--config", "few.yaml",
        "--prometheus-url", "http://here:1", "--leader-elect", "false",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    found = read(yaml.safe_load(printed))
    assert isinstance(found, SchedulerConfiguration)
    assert (found.parallel_binds, found.inventory.url) == (4, "http://here:1")
    assert not found.leader_election.leader_elect


async def test_check_config_begins_with_what_differs_from_the_defaults(tmp_path: Path) -> None:
    spread = {"score": {"enabled": [{"name": "Spread", "weight": 7}]}}
    document = {"parallelBinds": 4, "profiles": [{"schedulerName": "gpu", "plugins": spread}]}
    (tmp_path / "some.yaml").write_text(yaml.safe_dump(document))
    code, printed, errors = await run(
        tmp_path, "scheduler", "--check-config", "--config", "some.yaml"
    )
    assert code == 0
    comments = [line for line in printed.splitlines() if line.startswith("#")]
    assert comments == [
        "# Differs from the defaults in:",
        '#   profiles[0].schedulerName: "gpu" (default: "kubeshare-scheduler")',
        '#   profiles[0].plugins.score.enabled: + Spread {"weight": 7}',
        "#   parallelBinds: 4 (default: 32)",
    ]
    assert "BinPack and Spread are both enabled: one scores what is in use" in errors


async def test_an_empty_file_is_said_to_be_one(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing\n")
    code, printed, errors = await run(
        tmp_path, "scheduler", "--check-config", "--config", "empty.yaml"
    )
    assert (code, printed.partition("\n")[0]) == (0, "# Nothing differs from the defaults.")
    warning = "empty.yaml: it is empty: all defaults apply"
    assert errors == f"kubeshare-scheduler: warning: {warning}\n"


async def test_check_config_warns_of_what_a_profile_does_not_look_at(tmp_path: Path) -> None:
    lax = {"profiles": [{"plugins": {"cardFilter": {"disabled": [{"name": "*"}]}}}]}
    (tmp_path / "lax.yaml").write_text(yaml.safe_dump(lax))
    check = ("--check-config", "--config", "lax.yaml")
    code, printed, errors = await run(tmp_path, "scheduler", *check)
    assert code == 0
    assert "cardFilter" in printed
    [first, *rest] = errors.splitlines()
    assert first.startswith("kubeshare-scheduler: warning: profiles[0] (kubeshare-scheduler): ")
    assert "(GpuFit does): the ledger refuses what does not fit" in first
    assert any("without GpuModel, or a plugin in its place" in warning for warning in rest)


async def test_check_config_warns_of_a_key_of_an_earlier_version(tmp_path: Path) -> None:
    (tmp_path / "old.yaml").write_text("earmarkSeconds: 5")
    code, printed, errors = await run(
        tmp_path, "scheduler", "--check-config", "--config", "old.yaml"
    )
    assert (code, yaml.safe_load(printed)["reservationSeconds"]) == (0, 5.0)
    warning = "old.yaml: earmarkSeconds is called reservationSeconds now"
    assert errors == f"kubeshare-scheduler: warning: {warning}\n"


KUBE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: nowhere}
leaderElection: {leaderElect: false}
profiles:
  - schedulerName: mine
    plugins: {filter: {disabled: [{name: NodeAffinity}]}, score: {enabled: [{name: Rate}]}}
"""


async def test_check_config_says_what_a_file_of_kube_scheduler_becomes(tmp_path: Path) -> None:
    (tmp_path / "kube.yaml").write_text(KUBE)
    check = ("--check-config", "--config", "kube.yaml")
    code, printed, errors = await run(tmp_path, "scheduler", *check)
    found = read(yaml.safe_load(printed))
    assert code == 0
    assert [one.scheduler_name for one in found.profiles] == ["mine"]
    rate = "profiles[0].plugins.score.enabled[0].name: no plugin Rate here: it is ignored"
    assert f"kubeshare-scheduler: warning: kube.yaml: {rate}" in errors.splitlines()
    assert "without NodeAffinity, or a plugin in its place, nodeSelector and" in errors


async def test_the_kubeconfig_of_the_configuration_is_used(tmp_path: Path) -> None:
    (tmp_path / "kube.yaml").write_text(KUBE.replace("score: {enabled: [{name: Rate}]}", ""))
    code, _, errors = await run(tmp_path, "scheduler", "--config", "kube.yaml")
    assert code == 3
    assert "nowhere" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            "profiles: [{schedulerName: 3}]",
            "bad.yaml: profiles[0].schedulerName: Expected `str`, got `int`",
        ),
        pytest.param(
            "server: {tokenFile: nowhere}",
            "bad.yaml: server.tokenFile: nowhere: No such file or directory",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "inventory: {caFile: nowhere}",
            "inventory.caFile: nowhere: No such file or directory",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "inventory: {url: here}",
            "bad.yaml: inventory.url: must be a URL such as http://",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "inventory: {selector: job}",
            "bad.yaml: inventory.selector: expected label, operator",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_configuration_that_cannot_be_used_ends_it_with_2(
    cluster: EmbeddedCluster, tmp_path: Path, content: str, said: str
) -> None:
    (tmp_path / "bad.yaml").write_text(content)
    for purpose in (["--kubeconfig", "mine"], ["--check-config"]):
        code, printed, errors = await run(tmp_path, "scheduler", "--config", "bad.yaml", *purpose)
        assert (code, printed) == (2, "")
        [line] = errors.splitlines()
        assert line.startswith("kubeshare-scheduler: ")
        assert said in line


async def test_an_address_of_prometheus_without_a_scheme_ends_it_with_2(tmp_path: Path) -> None:
    code, _, errors = await run(tmp_path, "scheduler", "--prometheus-url", "here:9090")
    assert code == 2
    assert errors.startswith("kubeshare-scheduler: --prometheus-url: must be a URL such as http://")


@pytest.mark.parametrize(
    "program", ["admission", "collector", pytest.param("demo", marks=pytest.mark.long)]
)
@pytest.mark.parametrize(
    "port",
    ["99999", *(pytest.param(port, marks=pytest.mark.long) for port in ("-1", "https"))],
)
async def test_every_program_refuses_a_port_that_is_none(
    tmp_path: Path, program: str, port: str
) -> None:
    code, printed, errors = await run(tmp_path, program, f"--port={port}")
    assert (code, printed) == (2, "")
    said = f"--port: must be a whole number from 0 to 65535, such as 9443, not '{port}'"
    assert said in errors.splitlines()[-1]


@pytest.mark.parametrize("content", [pytest.param(None, marks=pytest.mark.long), "clusters: 3"])
async def test_credentials_that_cannot_be_used_end_it_with_3(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "kubeconfig").write_text(content)
    code, _, errors = await run(tmp_path, "scheduler", "--kubeconfig", "kubeconfig")
    assert code == 3
    [line] = errors.splitlines()
    assert "kubeconfig" in line


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM]
)
async def test_told_to_end_it_hears_the_answers_to_its_binds_first(
    cluster: EmbeddedCluster, tmp_path: Path, number: signal.Signals
) -> None:
    slow = Fault(method="POST", path="/binding$", only_slow=True, delay_s=0.3)
    cluster.server.faults.inject(slow)
    await cluster.client.create(PODS, POD)
    async with running(tmp_path, "scheduler", *options(cluster)) as process:
        await expect_said(process.stderr, '"event":"bind"')
        process.send_signal(number)
        await expect_said(process.stderr, '"event":"drain"')
        output, errors = await process.communicate()
    assert (process.returncode, output) == (0, b"")
    assert [line for line in errors.decode().splitlines() if '"info"' not in line] == []
    assert (await cluster.client.get(f"{PODS}/a"))["spec"]["nodeName"] == "n1"


@pytest.mark.slow
async def test_it_says_its_version_and_its_addresses_first_and_then_what_it_found(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    async with running(tmp_path, "scheduler", *options(cluster)) as process:
        assert process.stderr is not None
        started = json.loads(await process.stderr.readline())
        assert (started["event"], started["program"]) == ("started", "kubeshare-scheduler")
        assert re.fullmatch(r"\d+\.\d+\.\d+.*", started["version"])
        assert started["python"] == platform.python_version()
        [address] = started["addresses"]
        assert re.fullmatch(r"https://127\.0\.0\.1:\d+", address)
        found = json.loads(await expect_said(process.stderr, '"event":"found"'))
        assert (found["nodes"], found["cards"]) == (1, 0)


@pytest.mark.slow
async def test_told_twice_it_waits_for_nothing(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.server.faults.inject(Fault(method="POST", path="/binding$", delay_s=60))
    await cluster.client.create(PODS, POD)
    async with running(tmp_path, "scheduler", *options(cluster)) as process:
        await expect_said(process.stderr, '"event":"bind"')
        process.terminate()
        await expect_said(process.stderr, '"event":"drain"')
        process.terminate()
        async with asyncio.timeout(PATIENCE_S):
            output, errors = await process.communicate()
    assert (process.returncode, output, errors) == (0, b"", b"")
    assert "nodeName" not in (await cluster.client.get(f"{PODS}/a"))["spec"]


@pytest.mark.slow
async def test_an_api_server_that_is_not_there_yet_is_waited_for(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    # The list in a watch, and a list by pages.
    unavailable = Fault(method="GET", path="^/api/v1/nodes$", status=503, times=2)
    cluster.server.faults.inject(unavailable)
    await cluster.client.create(PODS, POD)
    async with running(tmp_path, "scheduler", *options(cluster)) as process:
        warning = json.loads(await expect_said(process.stderr, '"event":"list"'))
        assert warning["path"] == "/api/v1/nodes"
        assert "503" in warning["message"]
        await expect_said(process.stderr, '"event":"bind"')


@pytest.mark.slow
async def test_a_changed_configuration_is_taken_over_and_a_wrong_one_is_not(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    settings = tmp_path / "settings.yaml"
    before = settings.read_text()
    async with running(tmp_path, "scheduler", *options(cluster)) as process:
        await expect_said(process.stderr, '"event":"leads"')
        settings.write_text("profiles: 3")
        line = await expect_said(process.stderr, '"event":"configuration"')
        assert '"warning"' in line
        assert "profiles: Expected `array`" in line
        without = "profiles: [{plugins: {filter: {disabled: [{name: NodeAffinity}]}}}]"
        settings.write_text(f"{before}\n{without}")
        assert '"info"' in await expect_said(process.stderr, '"event":"configuration"')
        choosy = copy.deepcopy(POD)
        choosy["spec"]["nodeSelector"] = {"disk": "fast"}
        await cluster.client.create(PODS, choosy)
        await expect_said(process.stderr, '"event":"bind"')
