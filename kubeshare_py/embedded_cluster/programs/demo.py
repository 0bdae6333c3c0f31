"""kubeshare-demo: the embedded cluster, the scheduler, sample workloads, and a live view."""

import asyncio
import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live
from rich.text import Text

from kubeshare_py.configuration.leader_election import LeaderElection
from kubeshare_py.configuration.scheduler import SCHEDULER_NAME, SchedulerConfiguration
from kubeshare_py.documents.yaml_text import DocumentProblem
from kubeshare_py.domain.printable import printable
from kubeshare_py.edges.dashboard.server import serve
from kubeshare_py.edges.kube.errors import KubeError
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster, events_folder
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster
from kubeshare_py.embedded_cluster.serving.demo_files import (
    find,
    own_folder,
    read_nodes,
    read_workloads,
)
from kubeshare_py.framework.profile_making import PluginFactory
from kubeshare_py.programs.dashboard import past_of
from kubeshare_py.scheduling.explain.explanation import cluster_portions, whole_view
from kubeshare_py.scheduling.machine import Machine
from kubeshare_py.terminal.cards import (
    asks_of,
    card_label,
    counted,
    held_labels,
    is_unclear,
    node_state,
    ordered,
    warnings,
)
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.views.view import ClusterView, NodeView, PodView

# The changes between two views, one plain line each: for logs and without a terminal.


_PLACING = frozenset({"assumed", "unconfirmed"})


def change_lines(before: ClusterView | None, after: ClusterView) -> list[str]:
    """Lines for nodes, cards, then pods; `before` None describes everything that is there."""
    lines = [*_warnings(before, after), *_nodes(before, after), *_pods(before, after)]
    return [printable(line) for line in lines]


def _warnings(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    known = set(warnings(before)) if before is not None else set()
    yield from (sentence for sentence in warnings(after) if sentence not in known)


def _nodes(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    old = {node.name: node for node in before.nodes} if before is not None else {}
    new = {node.name: node for node in after.nodes}
    yield from (f"node {name} gone" for name in old if name not in new)
    for name, node in new.items():
        if name not in old:
            yield f"node {name} appeared with {_cards(node)}{_state(node)}"
        elif old[name] != node:
            yield from _node_changes(old[name], node)


def _node_changes(old: NodeView, new: NodeView) -> Iterator[str]:
    if node_state(old) != node_state(new):
        yield f"node {new.name}: {node_state(new) or 'in order again'}"
    if _cards(old) != _cards(new):
        yield f"node {new.name} has {_cards(new)}"
    healthy = {card.uuid: card.healthy for card in old.cards}
    for card in ordered(new.cards):
        if healthy.get(card.uuid, True) != card.healthy:
            state = "healthy again" if card.healthy else "unhealthy"
            yield f"GPU {card_label(card)} of {new.name} ({card.uuid}) is {state}"


def _cards(node: NodeView) -> str:
    models = sorted({card.model for card in node.cards if card.known and card.model})
    named = f" ({', '.join(models)})" if models else ""
    return counted(sum(card.known for card in node.cards), "GPU") + named


def _state(node: NodeView) -> str:
    return f", {node_state(node)}" if node_state(node) else ""


def _pods(before: ClusterView | None, after: ClusterView) -> Iterator[str]:
    old = dict(_pod_lines(before)) if before is not None else {}
    new = dict(_pod_lines(after))
    for pod in before.pods if before is not None else ():
        if pod.uid not in new:
            yield f"pod {pod.namespace}/{pod.name} gone"
    yield from (line for uid, line in new.items() if old.get(uid) != line)


def _pod_lines(view: ClusterView) -> Iterator[tuple[str, str]]:
    """Each pod's uid and its line."""
    for pod in view.pods:
        yield pod.uid, _pod(pod, held_labels(pod))


def _pod(pod: PodView, held: str) -> str:
    state = "being bound" if pod.state in _PLACING else pod.state
    place = f" to {pod.node}" + (f" GPU {held}" if held else "") if pod.node else ""
    asked = "" if is_unclear(pod) else f" ({asks_of(pod)})"
    line = f"pod {pod.namespace}/{pod.name} {state}{place}{asked}"
    return f"{line}: {pod.message}" if pod.message else line


# The demo's screen: the live view on a terminal, or a line per change.


REFRESH_S = 0.25
#: How many times as long as it took to take and draw a view no other is taken.
RESTS = 4


async def show(
    view: Callable[[], Iterable[ClusterView]],
    *,
    footer: str,
    plain: bool = False,
    seconds: float | None = None,
) -> None:
    """Show until cancelled, or for `seconds`; `footer` is below the view, or before the lines.

    `view` gives the cluster in portions: the scheduler and the API server are on the same event
    loop, which must not be kept for long, or a Lease of the scheduler runs out. The view also ends
    when the lines are no longer read, as behind `| head`.
    """
    console = Console()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            if plain or not console.is_terminal or console.is_dumb_terminal:
                with _to_the_end():
                    await _lines(view, footer)
            else:
                await _screen(view, footer, console)


async def _screen(view: Callable[[], Iterable[ClusterView]], footer: str, console: Console) -> None:
    last = Text()
    try:
        with Live(console=console, screen=True, auto_refresh=False) as live:

            def draw(portions: Sequence[ClusterView]) -> None:
                nonlocal last
                width, height = console.size
                shown = whole_view(portions)
                last = live_view(shown, width=width, height=height - footer.count("\n") - 2)
                live.update(last + f"\n\n{footer}", refresh=True)

            while True:
                await _in_turns(view, draw)
    finally:
        # The terminal goes back to what was there before; the footer's commands reach nothing now.
        if last:
            console.print(last)


async def _in_turns(
    view: Callable[[], Iterable[ClusterView]], draw: Callable[[Sequence[ClusterView]], None]
) -> None:
    """Take a view with turns for others between its portions, draw it, and rest.

    It is drawn on a thread, so that the loop goes on; the rest is a multiple of the time that all
    that took.
    """
    loop = asyncio.get_running_loop()
    began_s, portions = loop.time(), list[ClusterView]()
    for portion in view():
        portions.append(portion)
        await asyncio.sleep(0)
    await asyncio.to_thread(draw, portions)
    await asyncio.sleep(max(REFRESH_S, RESTS * (loop.time() - began_s)))


@contextlib.contextmanager
def _to_the_end() -> Iterator[None]:
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Buffered output must go somewhere when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _lines(view: Callable[[], Iterable[ClusterView]], footer: str) -> None:
    print(footer, flush=True)
    before: ClusterView | None = None

    def draw(portions: Sequence[ClusterView]) -> None:
        nonlocal before
        after = whole_view(portions)
        for line in change_lines(before, after):
            print(line, flush=True)
        before = after

    # Without changes nothing is written, and a closed pipe would not be noticed.
    unread = select.poll()
    unread.register(sys.stdout.fileno(), 0)
    while not unread.poll(0):
        await _in_turns(view, draw)


LANDING = """In a browser:  {page}
In another terminal:  export KUBECONFIG={kubeconfig}
  kubectl get pods -o wide -w       (your own kubectl, if you have one)
  {plugin} {question:<24} (also: {others}; also as `kubectl kubeshare`)
Ctrl-C ends everything."""

PAUSE_S = 0.05
PAUSES_FOR_INVENTORY = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """The command line's options; None means the files of the package. `seconds` ends the demo.

    `directory` None is the first of .demo, .demo-2, ... that no other demo uses.
    """

    directory: Path | None = None
    plugin: str = "kubectl-kubeshare"
    cluster: str | None = None
    workloads: str | None = None
    without_workloads: bool = False
    port: int = 0
    page_port: int = 0
    plain: bool = False
    seconds: float | None = None


def chosen(configuration: str | None) -> str:
    """The path of the scheduler's configuration: this one, or the demo's own."""
    return configuration or str(find("demo-scheduler.yaml"))


async def main(
    options: DemoOptions,
    configuration: SchedulerConfiguration,
    in_tree: Mapping[str, PluginFactory],
) -> None:
    """Run until cancelled, or for `seconds`.

    Raises DocumentProblem for files and workloads, ConfigurationError for other options.
    """
    configuration = patient(configuration)
    nodes = read_nodes(options.cluster)
    workloads = _workloads(options, configuration)
    with own_folder(options.directory) as directory:
        past = past_of(str(events_folder(directory)), lambda: in_tree)
        async with (
            demo_cluster(directory, nodes, configuration, in_tree, port=options.port) as (
                cluster,
                machine,
            ),
            serve(cluster.server.anonymous(), "127.0.0.1", options.page_port, past=past) as page,
        ):
            await _until_inventory(machine)
            for workload in workloads:
                await _apply(workload, cluster, options.workloads or "demo-workloads.yaml")
            await show(
                lambda: cluster_portions(machine),
                footer=landing(options, cluster.kubeconfig, signed_in(page, cluster.admin_token())),
                plain=options.plain,
                seconds=options.seconds,
            )


async def _until_inventory(machine: Machine) -> None:
    for _ in range(PAUSES_FOR_INVENTORY):
        if machine.inventory_read:
            break
        await asyncio.sleep(PAUSE_S)


async def _apply(workload: dict[str, Any], cluster: EmbeddedCluster, file: str) -> None:
    try:
        await cluster.apply(workload)
    except KubeError as error:
        name = workload.get("metadata", {}).get("name", "")
        raise DocumentProblem(file, f"{workload['kind']} {name}", error.message) from error
    # One after the other, as typed: each is placed before the next comes.
    await asyncio.sleep(PAUSE_S)


def patient(configuration: SchedulerConfiguration) -> SchedulerConfiguration:
    """The same with a Lease that outlasts pauses of the process, unless the file sets another.

    The API server is in the same process: when the process gets no CPU for ten seconds, or a laptop
    sleeps, no other scheduler could have taken the Lease over, and ending would end the cluster.
    """
    if configuration.leader_election != LeaderElection():
        return configuration
    election = LeaderElection(lease_duration="10m", renew_deadline="9m")
    return msgspec.structs.replace(configuration, leader_election=election)


def signed_in(page: str, token: str) -> str:
    """The dashboard's address, with a token in the part that browsers send to no server.

    The page takes the token from there, and shows an address without it.
    """
    return f"{page}/#token={token}"


def landing(options: DemoOptions, kubeconfig: Path, page: str) -> str:
    """What to try in another terminal, and in a browser."""
    samples = not options.without_workloads and options.workloads is None
    question, others = ("why preview", "gpus, pods") if samples else ("gpus", "pods, why POD")
    return LANDING.format(
        page=page, kubeconfig=kubeconfig, plugin=options.plugin, question=question, others=others
    )


def _workloads(
    options: DemoOptions, configuration: SchedulerConfiguration
) -> Sequence[dict[str, Any]]:
    """The objects to create; samples ask for a scheduler that the configuration has."""
    if options.without_workloads:
        return ()
    workloads = read_workloads(options.workloads)
    names = [profile.scheduler_name for profile in configuration.profiles]
    if options.workloads is not None or SCHEDULER_NAME in names:
        return workloads
    return [_scheduled_by(names[0], workload) for workload in workloads]


def _scheduled_by(name: str, part: Any) -> Any:
    """The same object with another name for the scheduler, in templates of pods as well."""
    if isinstance(part, list):
        return [_scheduled_by(name, one) for one in part]
    if not isinstance(part, dict):
        return part
    return {
        key: name
        if (key, value) == ("schedulerName", SCHEDULER_NAME)
        else _scheduled_by(name, value)
        for key, value in part.items()
    }
