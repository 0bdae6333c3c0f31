"""Rows of a what-if after any history: they say what the ledger says once the pods are gone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kubeshare_py.cluster.columns import CARD_COLUMNS, CHARGED_COLUMNS
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows
from kubeshare_py.domain.identity import NodeName, PodUid
from tests.cluster.history import NAMES, PODS, RESERVED, STEPS, History, Step
from tests.scale import examples

#: A what-if leaves the order in which idle cards should be broken as it is.
COMPARED = tuple(name for name in CHARGED_COLUMNS if name != "break_order")
NATIVE = tuple(PodUid(f"native-{name}") for name in NAMES)
COUNTS = st.lists(st.integers(0, 3), min_size=len(NAMES), max_size=len(NAMES))


def after(steps: list[Step], native: list[int]) -> History:
    """A history, and then pods on each of its nodes with so many GPUs that the kubelet picks."""
    history = History()
    history.begin()
    for step in steps:
        history.step(step)
    for uid, name, count in zip(NATIVE, NAMES, native, strict=True):
        if count and name in history.reference.nodes:
            history.ledger.charge(uid, name, (("nvidia.com/gpu", count),), None)
    return history


def of_node(ledger: Ledger, rows: Rows, name: NodeName) -> dict[str, object]:
    """All that is compared of one node: resources by name, and its own cards by uuid."""
    columns, row = ledger.columns, ledger.columns.row_of[name]
    known = {gpu.uuid for gpu in ledger.inventory.get(name, ())}
    slots = [(uuid, slot) for slot, uuid in enumerate(columns.uuids[row]) if uuid in known]
    found: dict[str, object] = {}
    for column in COMPARED:
        values = getattr(rows, column)[row]
        if column == "free":
            found[column] = {one: values[at] for one, at in columns.resources.items() if values[at]}
        elif column == "tag_set":
            counts = rows.tag_counts()[1]
            found[column] = {uuid: counts[values[slot]] for uuid, slot in slots}
        elif column in CARD_COLUMNS:
            found[column] = {uuid: values[slot] for uuid, slot in slots}
        else:
            found[column] = values
    return found


def nodes_of(ledger: Ledger) -> dict[NodeName, dict[str, object]]:
    return {name: of_node(ledger, AllRows(ledger.columns), name) for name in ledger.columns.row_of}


@examples(120)
@given(STEPS, COUNTS)
def test_many_rows_at_once_are_derived_as_one_card_after_the_other(
    steps: list[Step], native: list[int]
) -> None:
    ledger = after(steps, native).ledger
    every = np.arange(ledger.columns.rows)
    rows = ledger.what_if(every)
    rows.derive(every)
    for name in CHARGED_COLUMNS:
        assert getattr(rows, name).tolist() == getattr(ledger.columns, name).tolist(), name


@examples(120)
@given(STEPS, COUNTS)
def test_rows_without_a_pod_are_as_when_it_ended(steps: list[Step], native: list[int]) -> None:
    ledger = after(steps, native).ledger
    for uid in (*PODS, *NATIVE):
        charge = ledger.charge_of(uid) or ledger.lingering.get(uid)
        row = None if charge is None else ledger.columns.row_of.get(charge.node)
        if charge is None or row is None:
            continue
        rows, here = ledger.what_if(np.arange(ledger.columns.rows)), np.array([row])
        rows.add(here, ledger.amounts([[uid]]), np.array([0]), -1)
        rows.derive(here)
        without = of_node(ledger, rows, charge.node)
        ledger.release(uid)
        ledger.end_lingering(uid)
        if charge.node in ledger.columns.row_of:
            assert of_node(ledger, AllRows(ledger.columns), charge.node) == without


@examples(120)
@given(STEPS, COUNTS)
def test_emptied_rows_are_as_if_nothing_was_ever_charged(
    steps: list[Step], native: list[int]
) -> None:
    history = after(steps, native)
    history.reservation(0, 1, 1)
    ledger, fresh = history.ledger, Ledger()
    for name, node in history.reference.nodes.items():
        fresh.put_node(node)
        fresh.put_cards(name, ledger.inventory.get(name, ()))
    rows = ledger.what_if(np.arange(ledger.columns.rows))
    rows.empty()
    emptied = {name: of_node(ledger, rows, name) for name in history.reference.nodes}
    assert emptied == nodes_of(fresh)
    for uid in (*PODS, *NATIVE, *RESERVED):
        ledger.release(uid)
        ledger.end_lingering(uid)
        ledger.dissolve(uid)
    assert emptied == nodes_of(ledger)
