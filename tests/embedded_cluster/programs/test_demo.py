"""kubeshare-demo as a process: what it prints, what it leaves."""

import asyncio
import re
import signal
import socket
import sys
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.embedded_cluster.nodes.container_runtime import VISIBLE_DEVICES
from tests.patience import PATIENCE_S
from tests.programs.commands import PIPE, expect_said, run, running
from tests.stories.command import kubectl_kubeshare

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kubeshare-scheduler"


def children(pid: int) -> list[int]:
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        if int(fields[1]) == pid:
            found.append(int(file.parent.name))
    return found


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.mark.slow
async def test_for_some_seconds_in_plain_lines(tmp_path: Path) -> None:
    code, printed, errors = await run(tmp_path, "demo", "--plain", "--seconds", "1.5")
    assert (code, errors) == (0, "")
    kubeconfig = tmp_path / ".demo" / "kubeconfig"
    assert f"export KUBECONFIG={kubeconfig}" in printed
    assert "kubectl get pods -o wide -w" in printed
    assert "why preview" in printed
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    assert "pod default/mnist bound to" in printed
    assert "pod default/preview waiting" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)]
)
async def test_a_signal_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    async with running(tmp_path, "demo", "--plain", "--no-workloads") as process:
        await expect_said(process.stdout, "node a100-1 appeared")
        started = children(process.pid)
        assert started  # the process that asks Prometheus
        process.send_signal(number)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert not alive(started)


@pytest.mark.slow
async def test_the_kubeconfig_leads_to_the_demos_cluster(tmp_path: Path) -> None:
    async with running(
        tmp_path, "demo", "--plain", "--no-workloads", "--directory", "here"
    ) as process:
        await expect_said(process.stdout, "node a100-1 appeared")
        async with KubeClient(load(str(tmp_path / "here" / "kubeconfig"))) as client:
            names = {one["metadata"]["name"] for one in await client.list_all("/api/v1/nodes")}
            lease = await client.get(LEASE)
    assert {"a100-1", "t4-1", "cpu-1"} <= names
    # A process that stood still for long, as on a laptop that slept, goes on.
    assert lease["spec"]["leaseDurationSeconds"] == 600


@pytest.mark.slow
async def test_containers_of_the_sample_pods_see_the_cards_that_they_got(tmp_path: Path) -> None:
    async with running(tmp_path, "demo", "--plain") as process:
        await expect_said(process.stdout, "pod default/training bound to")
        async with KubeClient(load(str(tmp_path / ".demo" / "kubeconfig"))) as client:
            pods = await client.list_all("/api/v1/namespaces/default/pods")
    names = {
        pod["metadata"].get("labels", {}).get("job-name", pod["metadata"]["name"]) for pod in pods
    }
    assert {"mnist", "lstm", "serving", "training", "web"} <= names
    for pod in pods:
        if pod["spec"]["schedulerName"] == "default-scheduler":
            continue  # as in every cluster, nothing is added to such a pod
        meta = pod["metadata"]
        keys = {*meta.get("labels", {}), *meta.get("annotations", {})}
        labelled = bool(keys & {"sharedgpu/gpu_request", "kubeshare/gpu_request"})
        for container in pod["spec"]["containers"]:
            has_card = labelled or "limits" in container.get("resources", {})
            [visible] = [one for one in container["env"] if one["name"] == VISIBLE_DEVICES]
            assert ("value" in visible) != has_card


@pytest.mark.slow
async def test_one_card_has_tenants_of_every_language(tmp_path: Path) -> None:
    """Each says by `gpus` in which one it asked."""
    tenants = (
        "by-kubeshare,",
        "by-kubeshare-1 (pod of SharePod by-kubeshare-1 with GPUID ",
        "by-gpushare (gpushare)",
        "by-elastic-gpu (nano-gpu)",
        "by-nano-gpu (nano-gpu)",
        "by-hami (hami)",
    )
    async with running(tmp_path, "demo", "--plain") as process:
        await expect_said(process.stdout, "pod default/by-hami bound to")
        kubeconfig = tmp_path / ".demo/kubeconfig"
        code, printed, errors = await kubectl_kubeshare(kubeconfig, "gpus")
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert (code, errors) == (0, "")
    assert any(all(one in line for one in tenants) for line in printed.splitlines()), printed


@pytest.mark.slow
async def test_a_cluster_and_workloads_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "nodes: [{name: mine, gpus: [{model: Tesla-T4, count: 1, memory: 15GiB}]}]"
    )
    (tmp_path / "work.yaml").write_text(
        """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---
apiVersion: v1
kind: Pod
metadata: {name: quick}
spec:
  schedulerName: kubeshare-scheduler
  priorityClassName: urgent
  containers: [{name: main, image: busybox}]
"""
    )
    code, printed, errors = await run(
        tmp_path, "demo", "--plain", "--seconds", "1",
        "--cluster", "cluster.yaml", "--workloads", "work.yaml",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert "pod default/quick bound to mine" in printed


async def test_what_is_ignored_of_a_configuration_of_kube_scheduler_is_said(
    tmp_path: Path,
) -> None:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    profile = "profiles: [{schedulerName: kubeshare-scheduler}]\n"
    (tmp_path / "kube.yaml").write_text(f"{head}parallelism: 4\n{profile}")
    _, _, errors = await run(tmp_path, "demo", "--config", "kube.yaml", "--cluster", "none.yaml")
    warning, problem = errors.splitlines()
    assert warning.startswith("kubeshare-demo: warning: kube.yaml: parallelism: is ignored: ")
    assert "none.yaml" in problem


@pytest.mark.slow
async def test_nobody_has_to_read_to_the_end(tmp_path: Path) -> None:
    script = f"{sys.executable} -m kubeshare_cmd.demo --plain --seconds 60 | head -1"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{script}; exit ${{PIPESTATUS[0]}}", cwd=tmp_path, stdout=PIPE, stderr=PIPE
    )
    async with asyncio.timeout(PATIENCE_S):
        output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert output.count(b"\n") == 1


@pytest.mark.slow
async def test_a_second_demo_takes_another_folder(tmp_path: Path) -> None:
    async with running(tmp_path, "demo", "--plain", "--no-workloads") as first:
        await expect_said(first.stdout, "node a100-1 appeared")
        kubeconfig = (tmp_path / ".demo/kubeconfig").read_text()
        options = ("--plain", "--no-workloads", "--seconds", "0.5")
        code, printed, errors = await run(tmp_path, "demo", *options)
        assert (code, errors) == (0, "")
        assert f"export KUBECONFIG={tmp_path}/.demo-2/kubeconfig\n" in printed
        assert "why preview" not in printed  # no such pod
        code, _, errors = await run(tmp_path, "demo", *options, "--directory", ".demo")
        assert (code, errors) == (
            2,
            f"kubeshare-demo: another demo uses {tmp_path}/.demo: choose another --directory\n",
        )
        assert (tmp_path / ".demo/kubeconfig").read_text() == kubeconfig


@pytest.mark.slow
async def test_the_sample_pods_ask_for_a_scheduler_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "apiVersion: kubeshare.io/v1\nkind: KubeShareSchedulerConfiguration\n"
        "profiles: [{schedulerName: mine}]\n"
    )
    options = ("--plain", "--seconds", "1.5", "--config", "own.yaml")
    code, printed, errors = await run(tmp_path, "demo", *options)
    assert (code, errors) == (0, "")
    assert "pod default/mnist bound to" in printed
    assert re.search("pod default/lstm-.* bound to", printed)  # of a template


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(
            ("--workloads", "bad.yaml"),
            "bad.yaml: document 1: needs apiVersion and kind",
            marks=pytest.mark.long,
        ),
        (("--workloads", "pod.yaml"), 'pod.yaml: Pod BAD: Pod "BAD" is invalid'),
        pytest.param(
            ("--workloads", "kind.yaml"),
            "kind.yaml: Gateway g: no kind Gateway in v1",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("--directory", "/proc/none"), "API server in /proc/none: ", marks=pytest.mark.long
        ),
    ],
)
async def test_what_cannot_be_used_ends_it_with_2_in_one_line(
    tmp_path: Path, arguments: tuple[str, str], said: str
) -> None:
    (tmp_path / "bad.yaml").write_text("nodes: []")
    (tmp_path / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: BAD}}")
    (tmp_path / "kind.yaml").write_text("{apiVersion: v1, kind: Gateway, metadata: {name: g}}")
    code, _, errors = await run(tmp_path, "demo", "--plain", "--seconds", "5", *arguments)
    assert code == 2
    [line] = errors.splitlines()
    assert line.startswith(f"kubeshare-demo: {said}")


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, errors = await run(tmp_path, "demo", "--plain", "--port", str(port))
    assert code == 2
    assert str(port) in errors
    assert "address already in use" in errors
