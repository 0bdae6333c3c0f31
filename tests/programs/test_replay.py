"""kubeshare-replay after a kubeshare-scheduler with --event-log, both as processes."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubeshare_py.edges.event_log.log_folder import sessions
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER
from tests.event_log.histories import a_file, a_log
from tests.programs.commands import expect_said, run, running

PODS = "/api/v1/namespaces/default/pods"
SPREAD = {
    "profiles": [
        {"plugins": {"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Spread"}]}}}
    ]
}


def a_pod(name: str, request: str) -> dict[str, Any]:
    labels = {"sharedgpu/gpu_request": request, "sharedgpu/gpu_limit": "1.0"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "schedulerName": "kubeshare-scheduler",
            "containers": [{"name": "main", "image": "busybox"}],
        },
    }


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[EmbeddedCluster]:
    cards = "gpus: [{model: T4, memory: 16Gi}]"
    nodes = read_cluster(f"nodes: [{{name: n1, {cards}}}, {{name: n2, {cards}}}]")
    async with embedded_cluster(tmp_path, nodes) as cluster:
        settings = {"server": {"bindAddress": "127.0.0.1", "port": 0}}
        (tmp_path / "settings.yaml").write_text(yaml.safe_dump(settings))
        (tmp_path / "spread.yaml").write_text(yaml.safe_dump(SPREAD))
        cluster.server.write_kubeconfig(tmp_path / "mine", SCHEDULER)
        yield cluster


async def schedule(cluster: EmbeddedCluster, folder: Path) -> None:
    """Two pods are bound, and seen to be, before one waits, while the log is written."""
    url = cluster.collectors.url
    options = ("--config", "settings.yaml", "--kubeconfig", "mine", "--prometheus-url", url)
    logs = ("--event-log", "events", "--log-level", "debug")
    async with running(folder, "scheduler", *options, *logs) as process:
        for name in ("a", "b"):
            await cluster.client.create(PODS, a_pod(name, "0.4"))
            await expect_said(process.stderr, '"event":"bound"')
        await cluster.client.create(PODS, a_pod("c", "9"))
        await cluster.client.create(PODS, {**a_pod("d", "1.0"), "metadata": wants("A100")})
        await expect_said(process.stderr, '"event":"waiting"')
        process.terminate()
        assert await process.wait() == 0


def wants(model: str) -> dict[str, Any]:
    labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
    return {"name": "d", "labels": {**labels, "sharedgpu/gpu_model": model}}


@pytest.mark.slow
async def test_what_a_scheduler_did_is_the_same_again_in_another_process(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    await schedule(cluster, tmp_path)
    code, output, errors = await run(tmp_path, "replay", "events")
    assert (code, errors) == (0, "")
    assert output.splitlines()[-1] == "the effects of all events are those of the log"
    code, output, _ = await run(tmp_path, "replay", "events", "-o", "json")
    report = json.loads(output)
    assert (code, report["differing"], report["damage"]) == (0, 0, "")
    assert report["events"] > 10
    code, output, _ = await run(tmp_path, "replay", "events", "--pod", "default/d")
    assert code == 0
    assert "seen: unbound" in output
    assert "waits: impossible: no card here is called" in output
    code, output, _ = await run(tmp_path, "replay", "events", "--profile", "spread.yaml")
    assert code == 1, output
    assert "default/b: n" in output
    await expect_times_of_all_decisions(tmp_path)
    by_pod = ("usage", "--log", "events", "--by", "pod", "-o", "json")
    code, output, errors = await run(tmp_path, "kubectl_kubeshare", *by_pod)
    assert (code, errors) == (0, "")
    held = json.loads(output)["usage"]
    assert [(one["pod"], one["card_seconds"] > 0) for one in held] == [("a", True), ("b", True)]
    (file,) = sessions(tmp_path / "events")[0].files
    file.write_bytes(file.read_bytes()[:-1])
    code, output, errors = await run(tmp_path, "replay", "events", "--until", "600")
    assert code == 2
    assert "the effects of all events are those of the log" in output
    assert f"{file.name}: at byte " in errors


async def expect_times_of_all_decisions(folder: Path) -> None:
    """Those of the session, and of each decision in it, by which `--until` finds the moment."""
    _, output, _ = await run(folder, "replay", "events", "--list", "-o", "json")
    (session,) = json.loads(output)
    began = datetime.fromisoformat(session["began"])
    lasted = (datetime.fromisoformat(session["ended"]) - began).total_seconds()
    assert lasted == pytest.approx(session["lasted_s"], abs=0.002)
    _, output, _ = await run(folder, "replay", "events", "--list")
    times = f"{session['began']} to {session['ended']} ({session['lasted_s']:.3f} s)"
    assert output == f"{session['session']}  {times}  {session['size_bytes']} bytes\n"
    of_session = ("replay", "events", "--list", "--session", session["session"])
    _, output, _ = await run(folder, *of_session, "-o", "json")
    found = json.loads(output)
    pods = [one["decision"].split()[:2] for one in found]
    assert pods == [["Bind", "default/a"], ["Bind", "default/b"]]
    for one in found:
        since = (datetime.fromisoformat(one["time"]) - began).total_seconds()
        assert since == pytest.approx(one["since_start_s"], abs=0.002)
    _, output, _ = await run(folder, *of_session)
    assert output.splitlines() == [
        f"{one['time']} +{one['since_start_s']:.3f} s event {one['number']}: {one['decision']}"
        for one in found
    ]
    until = str(found[0]["since_start_s"] + 0.001)
    _, output, _ = await run(folder, *of_session, "--until", until)
    assert len(output.splitlines()) == 1
    _, output, _ = await run(folder, "replay", "events", "--pod", "default/a")
    placed = [line for line in output.splitlines() if "placed on" in line]
    assert placed[0].startswith(f"{found[0]['time']} +{found[0]['since_start_s']:.3f} s placed")


@pytest.mark.slow
async def test_a_plugin_that_is_not_installed_is_named(tmp_path: Path) -> None:
    session = tmp_path / "20260101T000000Z-test"
    session.mkdir()
    (session / "000000.events").write_bytes(a_file(a_log(0)[:20]))
    code, output, errors = await run(tmp_path, "replay", ".")
    assert (code, output) == (2, "")
    assert "no plugin Fickle" in errors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nowhere",), "nowhere: No such file or directory"),
        ((".",), "there is no event log in it"),
        ((".", "--pod", "nobody"), "must be NAMESPACE/NAME"),
        ((".", "--pod", "a/b", "--profile", "x"), "not allowed with argument"),
    ],
)
async def test_wrong_usage_ends_it_with_2(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    code, output, errors = await run(tmp_path, "replay", *arguments)
    assert (code, output) == (2, "")
    assert said in errors


@pytest.mark.slow
async def test_an_unwritable_folder_holds_up_no_pod(
    cluster: EmbeddedCluster, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    url = cluster.collectors.url
    options = ("--config", "settings.yaml", "--kubeconfig", "mine", "--prometheus-url", url)
    async with running(tmp_path, "scheduler", *options, "--event-log", "file") as process:
        await expect_said(process.stderr, '"event":"event log"')
        await cluster.client.create(PODS, a_pod("a", "0.4"))
        await expect_said(process.stderr, '"event":"bind"')
        await asyncio.sleep(0)
