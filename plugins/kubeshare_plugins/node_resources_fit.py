"""Filter: cpu, memory, ephemeral storage, pods, extended resources and pod-manager ports."""

from collections.abc import Iterator, Mapping

import numpy as np

from kubeshare_py.plugin import (
    FIXED_RESOURCES,
    PODS,
    PORT_RESOURCE,
    PORTS,
    Depends,
    Ground,
    IntArray,
    ReasonTable,
    RowFilter,
    RowHeadroom,
    Rows,
    Shape,
    Shortfall,
)

# Below any free amount: a resource that is not asked for is never short, not even an overdrawn one.
_NOT_ASKED = -(1 << 62)
_TRUE = b"\x01"
_UNITS = {"cpu": "milli", "pods": "count", PORT_RESOURCE: "count"}


def _amounts(shape: Shape) -> Iterator[tuple[str, int]]:
    yield from ((name, amount) for name, amount in shape.resources if amount > 0)
    yield FIXED_RESOURCES[PODS], 1
    if shape.needs_port:
        yield FIXED_RESOURCES[PORTS], 1


def _text(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


class NodeResourcesFit:
    """The node must have free what the pod asks for."""

    name = "NodeResourcesFit"
    guards = Ground.NODE
    depends = Depends.ROW

    def filter(self, shape: Shape, reasons: ReasonTable) -> RowFilter | None:
        """One comparison of each row's free amounts with the requested ones."""
        asked = dict(_amounts(shape))
        masks = {name: reasons.register(self.name, _text(name)) for name in asked}
        # Once the reason table is full, several resources share a bit, and masks cannot be added.
        distinct = len({*masks.values()}) == len(masks)
        needed = bits = np.zeros(0, np.int64)
        known: Mapping[str, int] = {}
        unoffered = 0

        def ask(rows: Rows) -> IntArray | None:
            nonlocal needed, bits, known, unoffered
            free, columns = rows.free, rows.resources
            if columns is not known:
                known, unoffered = columns, 0
                needed = np.full(free.shape[1], _NOT_ASKED, np.int64)
                bits = np.zeros(free.shape[1], np.int64)
                for name, amount in asked.items():
                    if name not in columns:  # no node offers it
                        unoffered |= masks[name]
                        continue
                    needed[columns[name]] = amount
                    bits[columns[name]] = masks[name]
            short = free < needed
            # Usually nothing is short, and searching the bytes is cheaper than any().
            if not unoffered and _TRUE not in short.tobytes():
                return None
            mask: IntArray = (
                short.dot(bits) if distinct else np.bitwise_or.reduce(short * bits, axis=1)
            )
            return mask | unoffered if unoffered else mask

        return ask

    def queueing_hint(self, shape: Shape, row: Rows) -> bool:
        """Compare the pod's resources with the row's free amounts, in plain integers."""
        free, columns = row.free[0].tolist(), row.resources
        return all(
            name in columns and free[columns[name]] >= amount
            for name, amount in shape.resources
            if amount > 0
        )

    def capacity_bound(self, shape: Shape) -> RowHeadroom | None:
        """How many such requests each row's free amounts hold."""
        asked = dict(_amounts(shape))

        def room(rows: Rows) -> IntArray:
            free, columns = rows.free, rows.resources
            known = [(columns[name], amount) for name, amount in asked.items() if name in columns]
            counts = [free[:, column] // amount for column, amount in known]
            least: IntArray = np.minimum.reduce(counts)  # never empty: every pod takes a place
            return least

        return room

    def explain(self, shape: Shape, row: Rows) -> Iterator[Shortfall]:
        """Each resource of which too little is free."""
        for name, amount in _amounts(shape):
            column = row.resources.get(name)
            free = row.free.item(0, column) if column is not None else 0
            if free < amount:
                yield Shortfall(
                    reason=_text(name),
                    resource=name,
                    asked=amount,
                    free=free,
                    unit=_UNITS.get(
                        name, "bytes" if "memory" in name or "storage" in name else "count"
                    ),
                )
