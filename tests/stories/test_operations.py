"""The operator's view of a whole cluster: probes, metrics, and who may look."""

import asyncio
import json
from contextlib import AsyncExitStack

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_py.manifests.state_group import ROOT
from tests.patience import PATIENCE_S
from tests.stories.command import kubectl_kubeshare
from tests.stories.conftest import Stage, annotations, gpu
from tests.stories.scheduler_port import SchedulerPort, bearer_of, port_of

OWN_USERS = pytest.mark.embedded_only("a real server's users are in its own files")


async def scraped(port: SchedulerPort) -> dict[tuple[str, ...], float]:
    """Series by name and values of labels."""
    status, text = await port.fetch("/metrics")
    assert status == 200, text
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_probes_say_that_all_is_well_and_need_no_token(stage: Stage) -> None:
    port = await port_of(stage)
    for path in ("/livez", "/readyz"):
        assert await port.fetch(path, {}) == (200, "ok")
    status, listed = await port.fetch("/readyz?verbose")
    assert status == 200
    for check in (
        "decision-loop",
        "pods-and-nodes-listed",
        "watch-pods",
        "watch-nodes",
        "inventory",
    ):
        assert f"[+]{check} ok" in listed


@pytest.mark.slow
async def test_what_happens_can_be_seen_in_the_metrics(stage: Stage) -> None:
    port, profile = await port_of(stage), "kubeshare-scheduler"
    before = await scraped(port)
    await stage.create("half", gpu("0.5"))
    pod = await stage.expect_running("half")
    await stage.create("never", gpu("0.5", gpu_model="none-such"))
    await stage.expect_waiting("never")
    after = await scraped(port)
    attempts = "scheduler_schedule_attempts_total"
    assert after[attempts, profile, "scheduled"] == before[attempts, profile, "scheduled"] + 1
    assert after[attempts, profile, "unschedulable"] > before[attempts, profile, "unschedulable"]
    assert after["scheduler_pending_pods", "unschedulable"] == 1
    assert after["scheduler_unschedulable_pods", "GpuModel", profile] == 1
    uuid = annotations(pod)["sharedgpu/gpu_uuid"]
    [held] = [v for n, v in after.items() if n[0] == "kubeshare_card_allocated_milli" and uuid in n]
    assert held == 500
    assert after["kubeshare_overcommitted_cards",] == 0
    assert after["scheduler_pod_scheduling_sli_duration_seconds_count", "1"] >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("header", "status"), [({}, 401), ({"Authorization": "Bearer x"}, 401)])
async def test_metrics_are_not_for_everybody(
    stage: Stage, header: dict[str, str], status: int
) -> None:
    port = await port_of(stage)
    assert (await port.fetch("/metrics", header))[0] == status


@OWN_USERS
async def test_an_ordinary_user_needs_the_right_to_look(stage: Stage) -> None:
    server = stage.cluster.server
    for user in ("jane", "tom"):
        server.add_user(user)
    server.service.access.objects["jane"] = {("gpus.state.kubeshare.io", "")}
    jane, tom = (server.write_kubeconfig(stage.folder / user, user) for user in ("jane", "tom"))
    await stage.cluster.state_served()
    code, shown, _ = await kubectl_kubeshare(jane, "gpus")
    assert (code, "n1" in shown) == (0, True)
    assert (await (await port_of(stage, "jane")).fetch("/metrics"))[0] == 403
    code, _, said = await kubectl_kubeshare(tom, "gpus")
    assert code == 1
    assert 'gpus.state.kubeshare.io is forbidden: User "tom" cannot list resource "gpus"' in said


async def test_a_workload_without_pods_is_said_to_have_none(stage: Stage) -> None:
    await stage.cluster.state_served()
    selector = {"matchLabels": {"app": "zero"}}
    template = {
        "metadata": {"labels": {"app": "zero"}},
        "spec": {"containers": [{"name": "a", "image": "x"}]},
    }
    spec = {"replicas": 0, "selector": selector, "template": template}
    await stage.client.create(
        "/apis/apps/v1/namespaces/default/deployments", {"metadata": {"name": "zero"}, "spec": spec}
    )
    kubeconfig = stage.cluster.kubeconfig
    code, _, said = await kubectl_kubeshare(kubeconfig, "why", "deploy/zero")
    assert (code, said) == (1, "Error: deployment default/zero has no pods\n")
    for command in ("pods", "gpus"):
        code, _, said = await kubectl_kubeshare(kubeconfig, command, selector="none=such")
        assert (code, said.startswith("No ")) == (0, True), said


async def test_check_asks_the_api_server_what_would_become_of_pods(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    share: dict[str, object] = {"resources": {"limits": {"aliyun.com/gpu-mem": "3"}}}
    asked: tuple[tuple[str, str, dict[str, object], dict[str, object]], ...] = (
        ("ours", "default", {"labels": gpu("0.5")}, {}),
        ("share", "default", {}, share),
        ("nowhere", "no-such", {}, share),
    )
    path = stage.folder / "pods.yaml"
    path.write_text(
        "---\n".join(
            json.dumps(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": name, "namespace": namespace, **metadata},
                    "spec": {
                        "schedulerName": "kubeshare-scheduler" if metadata else "",
                        "containers": [{"name": "a", "image": "x", **container}],
                    },
                }
            )
            + "\n"
            for name, namespace, metadata, container in asked
        )
    )
    command = ["check", "-f", str(path), "--kubeconfig", str(stage.cluster.kubeconfig)]
    assert await asyncio.to_thread(main, command) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["pod/ours", "kubeshare-scheduler", "sharedgpu"]
    assert lines[1].split() == ["pod/share", "default-scheduler", "gpushare", "refused"]
    assert "label namespace default kubeshare.io/dialects=true" in lines[2]
    unknown = 'the API server does not say what it would make of it: namespaces "no-such" not found'
    assert unknown in "\n".join(lines[4:])
    pods = await stage.client.get("/api/v1/namespaces/default/pods")
    assert pods["items"] == []


@pytest.mark.slow
@OWN_USERS
@pytest.mark.tls
async def test_users_with_a_client_certificate_look_and_act_as_others(stage: Stage) -> None:
    server = stage.cluster.server
    admin = server.write_client_kubeconfig(stage.folder / "ann", "ann", "system:masters")
    eve = server.write_client_kubeconfig(stage.folder / "eve", "eve")
    server.service.access.objects["bob"] = {("pods.state.kubeshare.io", "default")}
    await stage.create("half", gpu("0.5"))
    await stage.expect_running("half")
    await stage.cluster.state_served()
    for command in ("pods", "gpus"):
        code, shown, _ = await kubectl_kubeshare(admin, command)
        assert (code, "half" in shown) == (0, True)
    assert (await kubectl_kubeshare(admin, "why", "half"))[0] == 0
    assert (await kubectl_kubeshare(eve, "pods"))[0] == 1
    code, shown, said = await kubectl_kubeshare(admin, "pods", as_user="bob")
    assert (code, "half" in shown) == (0, True), said
    code, _, said = await kubectl_kubeshare(admin, "pods", all_namespaces=True, as_user="bob")
    assert (code, 'User "bob" cannot list' in said) == (1, True)


@OWN_USERS
async def test_without_the_api_servers_word_nobody_new_is_let_in(stage: Stage) -> None:
    stage.cluster.server.add_user("jane", "/metrics")
    port = await port_of(stage, "jane")
    stage.spoil(method="POST", path="tokenreviews", status=500)
    status, said = await port.fetch("/metrics")
    assert (status, "cannot be asked" in said) == (503, True)
    assert (await port.fetch("/metrics"))[0] == 200


RBAC = "/apis/rbac.authorization.k8s.io/v1"


async def grant(stage: Stage, account: str) -> AsyncExitStack:
    """The roles that `readers` get, bound to a service account."""
    stack, path = AsyncExitStack(), f"{RBAC}/clusterrolebindings"
    for role in ("kubeshare-gpu-reader", "kubeshare-state-reader"):
        name, group = f"{role}-{account}", "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
        }
        await stage.client.create(path, binding)
        stack.push_async_callback(stage.client.delete, f"{path}/{name}")
    return stack


@pytest.mark.real_only("it judges by RBAC")
async def test_a_service_account_may_look_with_the_roles_that_come_along(stage: Stage) -> None:
    server, accounts = stage.cluster.server, "/api/v1/namespaces/default/serviceaccounts"
    for name in ("reader", "stranger"):
        await stage.client.create(accounts, {"metadata": {"name": name}})
        asked = await stage.client.create(f"{accounts}/{name}/token", {"spec": {}})
        server.tokens[name] = asked["status"]["token"]
    reader = server.write_kubeconfig(stage.folder / "reader", "reader")
    async with await grant(stage, "reader"):
        async with asyncio.timeout(
            PATIENCE_S
        ):  # the API server needs a moment to know a new binding
            while (shown := await kubectl_kubeshare(reader, "gpus"))[0]:
                pass
        assert "n1" in shown[1]
        port = await port_of(stage, "reader")
        status, said = await port.fetch("/metrics")
        assert status == 403
        message = json.loads(said)["message"]
        assert message.startswith(
            'user "system:serviceaccount:default:reader" may not get /metrics'
        )
        stranger = bearer_of(stage, "stranger")
        assert (await port.fetch(f"{ROOT}/gpus", stranger))[0] == 403
