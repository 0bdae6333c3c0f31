"""Rows of `kubectl get` for custom objects, by their definition's additionalPrinterColumns."""

from collections.abc import Sequence
from typing import Any

import msgspec

from kubeshare_py.embedded_cluster.protocol.resources import PrinterColumn, TableCells
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.manifests.json_paths import BadPath, found_at
from kubeshare_py.views.ages import age

_AGE = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def printed(columns: Sequence[Json]) -> Sequence[Json]:
    """The columns as declared, or the age alone."""
    return columns or [_AGE]


def custom_columns(columns: Sequence[Json]) -> tuple[PrinterColumn, ...]:
    """The headers; those of one version of a definition."""
    return tuple(
        PrinterColumn(
            name=column["name"],
            type=column["type"],
            priority=column.get("priority", 0),
            format=column.get("format", ""),
            description=column.get("description", "")
            or f"Custom resource definition column (in JSONPath format): {column['jsonPath']}",
        )
        for column in columns
    )


def custom_cells(columns: Sequence[Json]) -> TableCells:
    """The cells below them; what is missing is null, and a null text `<no value>`."""

    def cells(obj: Json, now: float) -> list[object]:
        return [_cell(column, obj, now) for column in columns]

    return cells


def _cell(column: Json, obj: Json, now: float) -> object:
    try:
        found = found_at(column["jsonPath"], obj)
    except BadPath:
        return None
    if not found:
        return None
    if found[0] is None:
        return "<no value>" if column["type"] == "string" else None
    return _shown(column["type"], found[0], now)


def _shown(kind: str, value: Any, now: float) -> object:
    if kind == "string":
        return value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if kind == "date":
        return _age(value, now) if isinstance(value, str) else None
    if kind == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if kind == "integer" else value


def _age(value: str, now: float) -> str:
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"
