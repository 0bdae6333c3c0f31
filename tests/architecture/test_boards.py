"""Grafana's boards are as they are generated, and ask for what there is."""

import json
import re

import pytest
from prometheus_client import CollectorRegistry, ProcessCollector

from deploy.boards.__main__ import BOARDS, FOLDER, files
from deploy.boards.grafana import Board, Panel, Table
from kubeshare_py.exporters import hami_metrics, hami_node_metrics
from tests.architecture.test_monitoring import JOBS, METRICS
from tests.each import each

#: What a target's labels are called besides those of its series, and that of collectors.
TARGET, OF_COLLECTORS = {"job", "instance"}, {"node"}
#: Labels of each metric that boards may ask for.
LABELS = {name: {*metric.labels} for name, metric in METRICS.items()}
for _metric in (*hami_metrics.CATALOGUE, *hami_node_metrics.CATALOGUE):
    LABELS.setdefault(_metric.name, set()).update(_metric.labels)
for _family in ProcessCollector(registry=CollectorRegistry()).collect():
    LABELS[_family.name + ("_total" if _family.type == "counter" else "")] = set()
LABELS["up"] = OF_COLLECTORS
SERIES = re.compile(
    r"\b((?:kubeshare|scheduler|rest_client|leader_election|gpu|hami|process)_\w+|up)\b"
    r"(?:\{([^}]*)\})?"
)
#: Other programs have metrics of these names too.
SHARED = ("scheduler_", "rest_client_", "leader_election_", "process_", "up", "kubeshare_build")
ABOUT = [
    pytest.param(query.expr, id=f"{board.uid}: {panel.title}")
    for board in BOARDS
    for panel in board.panels
    for query in panel.queries()
] + [
    pytest.param(variable.series, id=f"{board.uid}: ${variable.name}")
    for board in BOARDS
    for variable in board.variables
]
PANELS = [
    pytest.param(board, panel, id=f"{board.uid}: {panel.title}")
    for board in BOARDS
    for panel in board.panels
]


def metric_of(series: str) -> str:
    """The metric of a series, which of a histogram has a suffix."""
    return series if series in LABELS else re.sub(r"_(bucket|sum|count)$", "", series)


def test_the_chart_has_the_boards_as_they_are_generated() -> None:
    assert {path: path.read_text() for path in FOLDER.iterdir()} == files(), "make manifests"


@pytest.mark.parametrize("expr", ABOUT)
def test_boards_ask_for_metrics_and_labels_that_there_are(expr: str) -> None:
    for series, matchers in each(SERIES.findall(expr)):
        metric = metric_of(series)
        assert metric in LABELS
        asked = {*re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\"", matchers)}
        assert asked <= LABELS[metric] | TARGET
        jobs = re.findall(r'job="([^"]*)"', matchers)
        assert {*jobs} <= JOBS.keys()
        assert jobs or not series.startswith(SHARED)


@pytest.mark.parametrize(("board", "panel"), PANELS)
def test_every_panel_says_what_its_numbers_mean(board: Board, panel: Panel) -> None:
    assert panel.title
    assert panel.title[0].isupper()
    assert panel.description.endswith(".")
    assert len(panel.description.split()) > 3
    assert panel.unit
    chosen = {variable.name for variable in board.variables}
    asked = {name for query in panel.queries() for name in re.findall(r"\$([a-z]+)\b", query.expr)}
    assert asked <= chosen
    if isinstance(panel, Table):
        for key, uid in (panel.links or {}).items():
            [other] = [one for one in BOARDS if one.uid == uid]
            assert key in panel.keys
            assert key in {variable.name for variable in other.variables}


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
def test_panels_are_beside_and_below_each_other(board: Board) -> None:
    panels = json.loads(board.json())["panels"]
    numbers = [panel["id"] for panel in panels]
    assert len({*numbers}) == len(numbers)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert all(x < 24 for x, _ in cells)
        taken |= cells


def test_boards_lead_to_each_other() -> None:
    models = [json.loads(board.json()) for board in BOARDS]
    assert len({model["uid"] for model in models}) == len(BOARDS)
    for model in models:
        [link] = model["links"]
        assert link["tags"] == model["tags"]
