"""The pictures of the README: today's demo, and `why` of the pod that waits in it.

`python -m tests.documents.pictures` draws them anew.
"""

import asyncio
import re
import tempfile
from collections.abc import Callable, Mapping
from html import unescape
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

from kubeshare_plugins import IN_TREE
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.process.plugin_entry_points import with_entry_points
from kubeshare_py.edges.scheduler import configuration_file
from kubeshare_py.embedded_cluster.programs import demo
from kubeshare_py.embedded_cluster.programs.demo_cluster import demo_cluster
from kubeshare_py.embedded_cluster.serving.demo_files import read_nodes, read_workloads
from kubeshare_py.scheduling.explain.explanation import cluster_portions, whole_view, why
from kubeshare_py.terminal.live_view import live_view
from kubeshare_py.terminal.why_report import why_report
from kubeshare_py.views.view import ClusterView
from tests.architecture.sources import ROOT
from tests.patience import PATIENCE_S

WIDTH, HEIGHT = 132, 40
#: The sample pods in the end, and those of them that are not bound.
SAMPLES, WAITS = 33, {"preview": "waiting", "typo": "gated"}


async def pictures(directory: Path) -> Mapping[Path, str]:
    """By file, as SVG."""
    view, answer = await _texts(directory)
    docs = ROOT / "docs"
    return {
        docs / "demo.svg": _drawn(view, "make demo"),
        docs / "why.svg": _drawn(answer, "kubectl kubeshare why preview"),
    }


def words(svg: str) -> set[str]:
    """The words of a picture; which of two equal cards a pod has, and its number, may differ."""
    texts = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    return set(re.findall(r"(?<![\w…-])[A-Za-z]{4,}(?![\w…-])", unescape(texts)))


async def _texts(directory: Path) -> tuple[Text, Text]:
    factories = with_entry_points(IN_TREE)
    configuration = configuration_file.load(demo.chosen(None), print, factories)
    nodes = read_nodes(None)
    async with (
        asyncio.timeout(PATIENCE_S),
        demo_cluster(directory, nodes, configuration, factories) as (cluster, machine),
    ):
        await _until(lambda: machine.inventory_read)
        for workload in read_workloads(None):
            await cluster.apply(workload)
            await asyncio.sleep(demo.PAUSE_S)
        await _until(lambda: _is_settled(whole_view(list(cluster_portions(machine)))))
        view = whole_view(list(cluster_portions(machine)))
        view = replace(view, scheduler="kubeshare-scheduler")
        answer = why(machine, PodKey("default", "preview"))
        assert answer is not None
        return live_view(view, width=WIDTH, height=HEIGHT), why_report(answer, WIDTH)


async def _until(happened: Callable[[], bool]) -> None:
    while True:
        if happened():
            return
        await asyncio.sleep(demo.PAUSE_S)


def _is_settled(view: ClusterView) -> bool:
    unbound = {pod.name: pod.state for pod in view.pods if pod.state != "bound"}
    return len(view.pods) == SAMPLES and unbound == WAITS


def _drawn(text: Text, title: str) -> str:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(text)
    return console.export_svg(title=title, unique_id=title.rsplit(maxsplit=1)[-1])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for path, svg in asyncio.run(pictures(Path(folder))).items():
            path.write_text(svg)
