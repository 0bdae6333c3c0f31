"""Boards as values, and the JSON of a dashboard that Grafana 10 and newer load.

What the JSON leaves out has Grafana's default. Its fields:
https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from string import ascii_uppercase
from typing import Any

from deploy.boards.json_text import laid_out

#: Of every board: the links at the top of each lead to all boards with this tag.
TAG = "kubeshare"
#: Fits the distance of two scrapes and the zoom; Grafana puts it in.
RATE = "$__rate_interval"
#: The time that the board shows; Grafana puts it in.
RANGE = "$__range"
#: Which Prometheus is asked; the reader of a board chooses it.
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
#: Columns of a board.
_WIDTH = 24
_SCHEMA = 39

_Json = dict[str, Any]


class Unit(StrEnum):
    """How Grafana writes the numbers of a panel, by its own names of units."""

    COUNT = "short"
    PART = "percentunit"  # 1 is 100 %
    BYTES = "bytes"
    SECONDS = "s"
    PER_SECOND = "cps"
    CELSIUS = "celsius"
    WATTS = "watt"


@dataclass(frozen=True, slots=True)
class Query:
    """What Prometheus is asked, and what a line is called: text with {{label}} in it."""

    expr: str
    legend: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """A frame on a board. `description` is a sentence about what its numbers say.

    `bad_from`: from this value on a number is bad. `width` and `height` are in Grafana's grid, of
    which a board has 24 columns.
    """

    title: str
    description: str
    unit: Unit
    bad_from: float | None = None
    width: int = 8
    height: int = 8

    def queries(self) -> Sequence[Query]:
        """All that it asks."""
        raise NotImplementedError

    def drawn(self) -> _Json:
        """The fields of its JSON that are its kind's own."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Number(Panel):
    """One large number: the newest value."""

    query: str
    width: int = 3
    height: int = 4

    def queries(self) -> Sequence[Query]:
        """The one."""
        return (Query(self.query),)

    def drawn(self) -> _Json:
        """With the number's way through the time that the board shows behind it."""
        options = {
            "reduceOptions": {"calcs": ["lastNotNull"]},
            "colorMode": "value",
            "graphMode": "area",
        }
        return {
            "type": "stat",
            "targets": _targets(self.queries()),
            "fieldConfig": {"defaults": _defaults(self), "overrides": []},
            "options": options,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(Panel):
    """Lines over time; `stacked`, they add up."""

    lines: tuple[Query, ...]
    stacked: bool = False

    def queries(self) -> Sequence[Query]:
        """Each may have many lines."""
        return self.lines

    def drawn(self) -> _Json:
        """The axis begins at 0, and shows the whole of what parts are of, even if none is large."""
        custom: _Json = {"fillOpacity": 10, "showPoints": "never", "axisSoftMin": 0}
        if self.unit is Unit.PART:
            custom["axisSoftMax"] = 1
        if self.stacked:
            custom |= {"fillOpacity": 40, "stacking": {"mode": "normal"}}
        if self.bad_from is not None:
            custom["thresholdsStyle"] = {"mode": "dashed"}
        options = {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        return {
            "type": "timeseries",
            "targets": _targets(self.queries()),
            "fieldConfig": {"defaults": {**_defaults(self), "custom": custom}, "overrides": []},
            "options": options,
        }


@dataclass(frozen=True, slots=True)
class Column:
    """A column of numbers: its query has one series for each row, with the table's keys as labels.

    Without a unit it has the table's.
    """

    title: str
    expr: str
    unit: Unit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table(Panel):
    """A row for each combination of the labels `keys`, which are given with their titles.

    A key in `links` leads to the board of this uid, with the key's value in its variable of the
    same name. `columns` are newest values.
    """

    keys: Mapping[str, str]
    columns: tuple[Column, ...]
    links: Mapping[str, str] | None = None
    width: int = 24

    def queries(self) -> Sequence[Query]:
        """One for each column."""
        return [Query(column.expr) for column in self.columns]

    def drawn(self) -> _Json:
        """Grafana joins the answers by the keys, and calls the values after their queries."""
        targets = [
            {**target, "format": "table", "instant": True, "range": False}
            for target in _targets(self.queries())
        ]
        numbers = {
            f"Value #{target['refId']}" if len(targets) > 1 else "Value": column.title
            for target, column in zip(targets, self.columns, strict=True)
        }
        renamed = {**self.keys, **numbers}
        organized = {
            "excludeByName": {"Time": True},
            "indexByName": {name: place for place, name in enumerate(renamed)},
            "renameByName": renamed,
        }
        return {
            "type": "table",
            "targets": targets,
            "fieldConfig": {"defaults": _defaults(self), "overrides": [*self._overrides()]},
            "options": {"showHeader": True},
            "transformations": [
                {"id": "merge", "options": {}},
                {"id": "organize", "options": organized},
            ],
        }

    def _overrides(self) -> Iterator[_Json]:
        """Units of single columns, and links of keys."""
        for column in self.columns:
            if column.unit is not None:
                yield _override(column.title, "unit", column.unit.value)
        for key, board in (self.links or {}).items():
            url = f"/d/{board}?var-{key}=${{__value.raw}}&${{datasource:queryparam}}"
            link = {"title": f"This {key}", "url": f"{url}&${{__url_time_range}}"}
            yield _override(self.keys[key], "links", [link])


@dataclass(frozen=True, slots=True)
class Row:
    """Panels from left to right, as many in a line as fit; `title` is above them."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Variable:
    """What the reader of a board chooses, by name: values of a label of these series."""

    name: str
    title: str
    series: str

    @property
    def values(self) -> str:
        """How Grafana asks for them."""
        return f"label_values({self.series}, {self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """A dashboard; `uid` is its file's name, too, and part of its address."""

    uid: str
    title: str
    description: str
    variables: tuple[Variable, ...] = ()
    rows: tuple[Row, ...]

    @property
    def panels(self) -> Iterator[Panel]:
        """All of them, in their order."""
        return (panel for row in self.rows for panel in row.panels)

    def json(self) -> str:
        """The file that Grafana loads."""
        return f"{laid_out(self._model())}\n"

    def _model(self) -> _Json:
        links = {
            "type": "dashboards",
            "title": "KubeShare",
            "tags": [TAG],
            "includeVars": True,
            "keepTime": True,
        }
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.description,
            "tags": [TAG],
            "schemaVersion": _SCHEMA,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-1h", "to": "now"},
            "links": [links],
            "templating": {"list": [_CHOICE_OF_DATASOURCE, *map(_variable, self.variables)]},
            "panels": [*_placed(self.rows)],
        }


_CHOICE_OF_DATASOURCE = {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
}


def _variable(variable: Variable) -> _Json:
    """Of which several or all may be chosen."""
    return {
        "name": variable.name,
        "label": variable.title,
        "type": "query",
        "datasource": _DATASOURCE,
        "definition": variable.values,
        "query": {"query": variable.values, "refId": "values"},
        "refresh": 2,  # whenever the time changes
        "sort": 7,  # natural, ascending
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _placed(rows: Sequence[Row]) -> Iterator[_Json]:
    """Panels of a line begin at one height; the next line begins below the highest."""
    number, top = 1, 0
    for row in rows:
        place = {"h": 1, "w": _WIDTH, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "gridPos": place, "panels": []}
        number, top, left, highest = number + 1, top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > _WIDTH:
                top, left, highest = top + highest, 0, 0
            place = {"h": panel.height, "w": panel.width, "x": left, "y": top}
            left, highest = left + panel.width, max(highest, panel.height)
            yield {
                "id": number,
                "title": panel.title,
                "description": panel.description,
                "datasource": _DATASOURCE,
                "gridPos": place,
                **panel.drawn(),
            }
            number += 1
        top += highest


def _targets(queries: Sequence[Query]) -> list[_Json]:
    return [
        {
            "refId": ascii_uppercase[place],
            "datasource": _DATASOURCE,
            "expr": query.expr,
            **({"legendFormat": query.legend} if query.legend else {}),
        }
        for place, query in enumerate(queries)
    ]


def _defaults(panel: Panel) -> _Json:
    """Unit and colours; without thresholds of a panel's own, Grafana's would say that 80 is bad."""
    good = "blue" if panel.bad_from is None else "green"
    steps: list[_Json] = [{"color": good, "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    return {"unit": panel.unit.value, "thresholds": {"mode": "absolute", "steps": steps}}


def _override(column: str, field: str, value: object) -> _Json:
    return {
        "matcher": {"id": "byName", "options": column},
        "properties": [{"id": field, "value": value}],
    }
