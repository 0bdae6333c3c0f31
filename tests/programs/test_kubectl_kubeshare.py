"""`kubectl kubeshare` against the scheduler's real endpoint, directly and through an API server."""

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from kubeshare_cmd.kubectl_kubeshare import main
from kubeshare_cmd.kubectl_parser import COMMANDS
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient
from kubeshare_py.programs.kubectl_kubeshare import Question, answer
from kubeshare_py.terminal.gpu_tables import card_table, pod_details, shown_nodes, summary
from kubeshare_py.terminal.grid import table_lines
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import IslandView, LinkView, PodView, TopologyView
from tests.conformance.definitions import DEFINITIONS, definition, version
from tests.edges.served_state import Behind, Served, behind_api_server, served
from tests.terminal.views import a_small_view, a_view, a_why

Captured = pytest.CaptureFixture[str]
CARDS = [line.plain for line in table_lines(card_table(a_small_view(), a_small_view().nodes), None)]


def direct(state: Served) -> ApiAccess:
    return ApiAccess(scheduler=state.url, ca_file=state.ca_file, token_file=state.token_file)


def console(terminal: bool = False, width: int = 200, **environ: str) -> Console:
    return Console(
        file=io.StringIO(), force_terminal=terminal, width=width,
        _environ={"TERM": "xterm", **environ},
    )  # fmt: skip


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


async def ask(
    question: Question, out: Console | None = None, wait: Callable[[float], bool] | None = None
) -> tuple[int, str, str]:
    """Exit code, stdout, stderr; in a thread, since it waits for answers."""
    out, err = out or console(), console()
    client = StateClient(question.access, {"HOME": "/nonexistent"})
    pause = wait or (lambda seconds: False)
    try:
        code = await asyncio.to_thread(answer, question, client, out, err, pause)
    finally:
        client.close()
    return code, printed(out), printed(err)


async def command(*arguments: str) -> int:
    """The command line as it is typed."""
    return await asyncio.to_thread(main, arguments)


async def create_pod(behind: Behind, name: str, namespace: str = "default", **spec: Any) -> None:
    """A pod in the API server, of which the scheduler's views know nothing."""
    labels = spec.pop("labels", {})
    spec = {"containers": [{"name": "c", "image": "i"}], **spec}
    path = f"/api/v1/namespaces/{namespace}/pods"
    await behind.client.create(path, {"metadata": {"name": name, "labels": labels}, "spec": spec})


async def test_gpus_through_the_api_server(tmp_path: Path, capsys: Captured) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        at = ("--kubeconfig", behind.kubeconfig)
        assert await command("gpus", *at) == 0
        assert capsys.readouterr().out.splitlines() == CARDS
        assert await command("gpus", "n1", "--no-headers", *at) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
        assert await command("gpus", "--summary", *at) == 0
    view = a_small_view()
    assert capsys.readouterr().out == summary(view, shown_nodes(view), None).plain + "\n"


async def test_links_and_islands_are_asked_for_with_an_option(
    tmp_path: Path, capsys: Captured
) -> None:
    joined = TopologyView(
        cards=("GPU-n1-0", "GPU-n1-1"),
        numa_nodes=(0, None),
        links=(LinkView(uuid="GPU-n1-0", peer="GPU-n1-1", kind="NV4", bandwidth=200_000),),
        islands=(IslandView(bandwidth=200_000, cards=("GPU-n1-0", "GPU-n1-1"), intact=True),),
    )
    async with behind_api_server(tmp_path) as (behind, state):
        small = a_small_view()
        first, *others = small.nodes
        state.view = replace(small, nodes=(replace(first, topology=joined), *others))
        at = ("--kubeconfig", behind.kubeconfig)
        assert await command("gpus", "--topology", *at) == 0
        assert capsys.readouterr().out.splitlines() == [
            "n1",
            "      GPU0  GPU1  NUMA",
            "GPU0  X     NV4   0",
            "GPU1  NV4   X     -",
            "  200 GB/s: GPU0 GPU1 (intact)",
            "",
            "n2",
            "  It is not known how its cards are joined.",
        ]
        assert await command("gpus", "n1", "-t", "-o", "json", *at) == 0
        (node,) = json.loads(capsys.readouterr().out)["nodes"]
        assert node["topology"]["links"][0]["kind"] == "NV4"


async def test_options_may_stand_before_the_command_too(tmp_path: Path, capsys: Captured) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        given = ("--kubeconfig", behind.kubeconfig, "-n", "team", "-o", "name")
        assert await command(*given, "pods") == 0
        assert capsys.readouterr().out == "pod/big\n"
        assert await command("-n", "team", "pods", *given[:2], "-o", "json") == 0
    assert [pod["name"] for pod in json.loads(capsys.readouterr().out)["pods"]] == ["big"]


async def test_details_of_one_node_directly(tmp_path: Path, capsys: Captured) -> None:
    async with served(tmp_path) as state:
        way = ("--scheduler", state.url, "--ca-file", state.ca_file)
        assert await command("gpus", "n2", "-d", *way, "--token-file", state.token_file) == 0
    view = a_small_view()
    expected = pod_details(view, shown_nodes(view, ("n2",)), None).plain
    assert capsys.readouterr().out == expected + "\n"


async def test_an_unknown_node_is_not_found(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        code, out, err = await ask(Question(command="gpus", names=("no",), access=direct(state)))
    assert (code, out) == (1, "")
    assert err.startswith('Error from server (NotFound): nodes "no" not found')


async def test_pods_of_the_contexts_namespace_of_another_and_of_all(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        path = tmp_path / "kubeconfig"
        path.write_text(path.read_text().replace("namespace: default", "namespace: team"))
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        question = Question(command="pods", output="json", access=access)
        other = replace(access, namespace="default")
        for asked, names in (
            (question, ["big"]),
            (replace(question, access=other), ["one", "two"]),
            (replace(question, all_namespaces=True), ["one", "two", "big"]),
            (replace(question, access=other, names=("two",)), ["two"]),
        ):
            code, out, _ = await ask(asked)
            assert code == 0
            assert [pod["name"] for pod in json.loads(out)["pods"]] == names


async def test_pods_and_nodes_are_chosen_by_labels(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        for name, app in (("one", "a"), ("two", "b"), ("other", "a")):
            await create_pod(behind, name, labels={"app": app})
        await behind.client.create(
            "/api/v1/nodes", {"metadata": {"name": "n2", "labels": {"zone": "a"}}}
        )
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        question = Question(command="pods", output="name", access=access)
        for asked, names in (
            (replace(question, selector="app=a"), "pod/one\n"),
            (replace(question, selector="app in (a,b)", all_namespaces=True), "pod/one\npod/two\n"),
            (replace(question, selector="!app"), ""),
            (
                replace(question, command="gpus", selector="zone=a"),
                "gpu/GPU-n2-0\ngpu/GPU-n2-1\n",
            ),
        ):
            assert (await ask(asked))[:2] == (0, names)
        code, _, err = await ask(replace(question, selector="app==="))
        assert code != 0
        assert "Error: " in err


async def test_where_there_is_nothing_that_is_said_beside_the_output(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        access = ApiAccess(kubeconfig=behind.kubeconfig, namespace="empty")
        found = await ask(Question(command="pods", access=access))
        assert found == (0, "", "No pods of the scheduler found in empty namespace.\n")
        state.view = a_view(inventory="unread", source="scrape")
        code, out, err = await ask(Question(command="gpus", access=access))
    assert (code, out) == (0, "")
    assert err.splitlines() == [
        "Warning: The GPU inventory has not been read yet: GPU pods wait.",
        "No GPUs found. The source of cards is scrape.",
    ]


async def test_why_of_a_waiting_pod_is_a_success(tmp_path: Path, capsys: Captured) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        at = ("--kubeconfig", behind.kubeconfig)
        for named in ("train", "pod/train", "po/train", "pods/train"):
            assert await command("why", named, *at) == 0
            assert capsys.readouterr().out == why_report(a_why(), None).plain + "\n"
        assert await command("why", "train", *at, "-o", "yaml") == 0
        assert yaml.safe_load(capsys.readouterr().out)["pod"]["memory_bytes"] == 30 << 30
        assert await command("why", "train", *at, "-o", "jsonpath={.pod.state}") == 0
    assert capsys.readouterr().out == "waiting"


async def test_why_of_a_job_shows_its_pods_and_the_one_that_says_most(
    tmp_path: Path, capsys: Captured
) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        template = {"metadata": {"labels": {"app": "t"}}, "spec": {"containers": []}}
        containers = [{"name": "c", "image": "i"}]
        template["spec"] = {"containers": containers, "restartPolicy": "Never"}
        await behind.client.create(
            "/apis/batch/v1/namespaces/default/jobs",
            {"metadata": {"name": "lstm"}, "spec": {"template": template}},
        )
        at = ("--kubeconfig", behind.kubeconfig)
        assert await command("why", "job/lstm", *at) == 1
        assert capsys.readouterr().err == "Error: job default/lstm has no pods\n"
        job = await behind.client.get("/apis/batch/v1/namespaces/default/jobs/lstm")
        labels = job["spec"]["selector"]["matchLabels"]
        await create_pod(behind, "one", labels=labels, schedulerName="other")
        await create_pod(behind, "train", labels=labels)
        small = a_small_view()
        state.view = replace(small, pods=(*small.pods, a_why().pod))
        assert await command("why", "job/lstm", *at) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines[:3]] == ["NAME", "one", "train"]
        assert lines[4:] == why_report(a_why(), None).plain.splitlines()
        assert await command("why", "jobs.batch/lstm", *at, "-o", "json") == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["pod"]["name"], len(found["pods"])) == ("train", 2)
        state.view = replace(small, pods=small.pods[:0])
        assert await command("why", "job/lstm", *at) == 1
        assert "pod default/one is scheduled by other" in capsys.readouterr().err
        assert await command("why", "deploy/none", *at) == 1
    expected = 'Error from server (NotFound): deployments.apps "none" not found\n'
    assert capsys.readouterr().err == expected


async def test_why_of_a_sharepod_is_about_its_pod_or_says_why_there_is_none(
    tmp_path: Path, capsys: Captured
) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        at = ("--kubeconfig", behind.kubeconfig)
        names = {"plural": "sharepods", "singular": "sharepod", "kind": "SharePod"}
        defined = definition(version(subresources={"status": {}}), kind="SharePod", names=names)
        defined["metadata"]["name"] = "sharepods.kubeshare.nthu"
        defined["spec"]["group"] = "kubeshare.nthu"
        await behind.client.create(DEFINITIONS, defined)
        path = "/apis/kubeshare.nthu/v1/namespaces/default/sharepods"
        for name in ("train", "lonely", "plain"):
            share = {"kind": "SharePod", "metadata": {"name": name}}
            await behind.client.create(path, {"apiVersion": "kubeshare.nthu/v1", **share})
        assert await command("why", "sharepod/train", *at) == 0
        assert capsys.readouterr().out == why_report(a_why(), None).plain + "\n"
        assert await command("why", "shp/lonely", *at) == 1
        told = "Error: sharepod default/lonely has no pod: kubeshare-controller has made none yet"
        assert capsys.readouterr().err.startswith(told)
        said = {"type": "Synced", "status": "False", "message": "exceeded quota"}
        status = {"status": {"conditions": [said]}}
        await behind.client.merge_patch(f"{path}/lonely/status", status)
        assert await command("why", "shp/lonely", *at) == 1
        told = "Error: sharepod default/lonely has no pod: exceeded quota\n"
        assert capsys.readouterr().err == told
        await create_pod(behind, "plain")
        assert await command("why", "shp/plain", *at) == 1
        assert "is scheduled by default-scheduler" in capsys.readouterr().err
        assert await command("why", "shp/none", *at) == 1
    assert "NotFound" in capsys.readouterr().err


async def test_why_of_an_unknown_pod_says_whose_it_is(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        await create_pod(behind, "plain")
        await create_pod(behind, "new", schedulerName="kubeshare-scheduler")
        await create_pod(behind, "batch", schedulerName="batch")
        await create_pod(behind, "ended", nodeName="n1")
        path = "/api/v1/namespaces/default/pods"
        await behind.client.merge_patch(f"{path}/ended/status", {"status": {"phase": "Succeeded"}})
        said = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
        await behind.client.merge_patch(f"{path}/plain/status", {"status": {"conditions": [said]}})
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        for command_name in ("why", "pods"):
            for name, told in (
                ("none", 'Error from server (NotFound): pods "none" not found'),
                ("plain", "scheduled by default-scheduler, which says: 0/3 nodes; kubeshare-"),
                ("new", "Error: the scheduler has not seen pod default/new yet\n"),
                ("batch", "Error: the scheduler has not seen pod default/batch yet\n"),
            ):
                asked = Question(command=command_name, names=(name,), access=access)
                code, out, err = await ask(asked)
                assert (code, out) == (1, "")
                assert told in err


async def test_what_has_ended_is_said_to_have_ended_which_is_no_failure(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, _):
        await create_pod(behind, "ended", nodeName="n1", labels={"job-name": "lstm"})
        pod = "/api/v1/namespaces/default/pods/ended/status"
        await behind.client.merge_patch(pod, {"status": {"phase": "Succeeded"}})
        await behind.client.create(
            "/apis/batch/v1/namespaces/default/jobs",
            {
                "metadata": {"name": "lstm"},
                "spec": {
                    "manualSelector": True,
                    "selector": {"matchLabels": {"job-name": "lstm"}},
                    "template": {
                        "metadata": {"labels": {"job-name": "lstm"}},
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "i"}],
                        },
                    },
                },
            },
        )
        access = ApiAccess(kubeconfig=behind.kubeconfig)
        for name, told in (
            ("ended", "pod default/ended has ended (Succeeded): it holds nothing any more"),
            (
                "job/lstm",
                "job default/lstm has ended, and so has its pod: nothing waits, nothing is held",
            ),
        ):
            asked = Question(command="why", names=(name,), access=access)
            assert await ask(asked) == (0, f"{told}\n", "")
        machine = replace(asked, output="json")
        code, out, err = await ask(machine)
        assert (code, out) == (1, "")
        assert err.startswith("Error: job default/lstm has ended")


async def test_without_an_api_server_the_schedulers_own_words_are_shown(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        asked = Question(command="why", names=("no",), access=direct(state))
        code, out, err = await ask(asked)
    assert (code, out) == (1, "")
    told = "Error from server (NotFound): the scheduler knows no pod default/no of its own\n"
    assert err == told


async def test_a_scheduler_that_cannot_be_reached_is_another_failure(
    tmp_path: Path, capsys: Captured
) -> None:
    async with served(tmp_path) as state:
        gone = state.url
    assert await command("pods", "--scheduler", gone, "--token-file", state.token_file) == 3
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith(f"Error: cannot reach the scheduler at {gone}: ")


async def test_a_watch_prints_what_changes_and_outlives_a_failure(tmp_path: Path) -> None:
    async with behind_api_server(tmp_path) as (behind, state):
        small = a_small_view()
        one, two, big = small.pods
        placed = replace(big, state="bound", node="n1", message="")
        steps: list[tuple[PodView, ...] | None] = [(one, two, big), None, (one, placed)]

        def wait(_: float) -> bool:
            if not steps:
                return False
            pods = steps.pop(0)
            behind.server.target = state if pods is not None else None
            state.view = replace(small, pods=pods or ())
            return True

        access = ApiAccess(kubeconfig=behind.kubeconfig)
        question = Question(command="pods", watch=True, all_namespaces=True, access=access)
        code, out, err = await ask(question, wait=wait)
    assert code == 0
    assert [line.split()[1:3] for line in out.splitlines()[4:]] == [
        ["big", "bound"],
        ["two", "gone"],
    ]
    assert "does not serve state.kubeshare.io" in err


async def test_a_terminal_gets_colours_and_its_own_width(tmp_path: Path) -> None:
    out = console(terminal=True, width=76)
    async with served(tmp_path) as state:
        code, shown, _ = await ask(Question(command="gpus", access=direct(state)), out)
        assert code == 0
        wide = console(terminal=True, width=40)
        _, endless, _ = await ask(
            Question(command="gpus", output="wide", access=direct(state)), wide
        )
    assert "\x1b[1m" in shown
    assert "default/one" in endless


async def test_a_pipe_gets_neither(tmp_path: Path) -> None:
    async with served(tmp_path) as state:
        _, out, _ = await ask(Question(command="gpus", summary=True, access=direct(state)))
    assert "\x1b" not in out
    assert "GPU0(Allocated/Total)" in out


async def test_no_color_is_honoured_on_a_terminal(tmp_path: Path) -> None:
    out = console(terminal=True, NO_COLOR="1")
    async with served(tmp_path) as state:
        small = a_small_view()
        state.view = replace(small, pods=small.pods[2:])
        question = Question(command="pods", all_namespaces=True, access=direct(state))
        _, shown, _ = await ask(question, out)
    assert "waiting" in shown
    assert "\x1b[33m" not in shown


@pytest.mark.parametrize(
    "arguments",
    [
        (), ("cards",), ("why",), ("why", "x/y"), ("gpus", "-o", "xml"), ("gpus", "-t", "-d"),
        ("gpus", "-w", "-o", "json"), ("gpus", "-w", "-d"), ("pods", "a", "-A"), ("gpus", "-A"),
        ("pods", "-o", "jsonpath={.x"), ("pods", "--request-timeout", "soon"), ("why", "-w", "x"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_is_told_apart(arguments: tuple[str, ...], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert left.value.code == 2
    sentence, help_line = capsys.readouterr().err.splitlines()
    assert sentence.startswith("Error: ")
    assert help_line.startswith("See `kubectl kubeshare")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("gups", 'unknown command "gups"; did you mean gpus?'),
        ("version", 'unknown command "version"; it is an option: kubectl kubeshare --version'),
        ("pods --namspace x", "unknown option --namspace; did you mean --namespace?"),
        ("pods --state waiting", "unknown option --state"),
        ("why job lstm", '"job" is a kind; did you mean why job/lstm?'),
        ("why a b", 'unexpected word "b"; why is about one pod, or one KIND/NAME'),
        ("why", "why is about a pod: why POD, or why KIND/NAME such as why job/lstm"),
        ("check pod.yaml", 'unexpected word "pod.yaml"; did you mean -f pod.yaml?'),
        ("check", "check needs manifests: -f FILE, or -f - for standard input"),
        ("check -f x -o yml", '-o/--output: "yml" is none of its values; did you mean yaml?'),
        ("top x", 'unexpected word "x"'),
        ("top --interval soon", "--interval: 'soon' is not a time such as 5, 30s or 2m"),
        ("gpus --context", "--context: needs a value"),
        ("what-if job.yaml", 'unexpected word "job.yaml"; did you mean -f job.yaml?'),
        ("what-if", "what if what? -f FILE, --without, --cordon, --add-nodes or --profile"),
        ("what-if --add-nodes 2", "--add-nodes N and --like NODE go together"),
        ("what-if --add-nodes 0", "--add-nodes: '0' is not a number from 1 to 5000"),
        ("what-if -f x --until 5", "--until is about --log"),
        ("capacity", "capacity needs manifests: --like FILE"),
        ("history x", "history needs a subject and an event log: history POD --log DIR"),
        ("when", "when is about a pod: when POD"),
        ("", f"which command? {', '.join(COMMANDS)}"),
    ],
)
def test_wrong_usage_is_one_sentence(line: str, told: str, capsys: Captured) -> None:
    with pytest.raises(SystemExit):
        main(line.split())
    assert capsys.readouterr().err.splitlines()[0] == f"Error: {told}"


@pytest.mark.parametrize(
    "arguments",
    [(), *((one,) for one in COMMANDS if one not in ("check", "usage"))],
    ids=" ".join,
)
def test_help_has_examples_at_each_level(arguments: tuple[str, ...], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as left:
        main((*arguments, "--help"))
    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert f"\n  kubectl kubeshare {' '.join(arguments) or 'gpus'}" in shown
    # What the command does comes first, the connection last and in short.
    own, _, connection = shown.partition("connection (kubectl's")
    assert "--kubeconfig" in connection
    assert "--kubeconfig" not in own
    assert len(own.splitlines()) < 27
    assert "exit codes:" in shown


def test_the_version_is_that_of_the_distribution(capsys: Captured) -> None:
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("kubectl-kubeshare 0.")
