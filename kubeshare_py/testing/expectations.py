"""What a test expects of plugins in a small cluster; AssertionError says what was found instead."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from kubeshare_py.cluster.columns import IntArray
from kubeshare_py.cluster.rows import AllRows, OneRow, Rows, SomeRows
from kubeshare_py.domain.pod import Shape, by_claim
from kubeshare_py.framework.boundary import PreFilters
from kubeshare_py.framework.points import CardFilter
from kubeshare_py.framework.reasons import ReasonTable
from kubeshare_py.testing.small_cluster import SmallCluster


def expect_fits(cluster: SmallCluster, shape: Shape, nodes: Collection[str]) -> None:
    """Expect that the shape fits these nodes and no others, and that no plugin fails."""
    _expect_no_failure(cluster, shape)
    _expect("the shape fits", cluster.where(shape), set(nodes))


def expect_reason(cluster: SmallCluster, shape: Shape, reason: str, nodes: int = 1) -> None:
    """Expect that so many nodes refuse the shape for this reason."""
    found = cluster.why(shape)
    if found.get(reason) != nodes:
        raise AssertionError(f"{nodes} nodes were to say {reason!r}, but reasons are {found}")


def expect_score(
    cluster: SmallCluster, shape: Shape, scores: Mapping[str, int], plugin: str = ""
) -> None:
    """Expect that a score gives each node these points, 0…100; `plugin` names it among several."""
    _expect_no_failure(cluster, shape)
    _expect("the points of nodes are", cluster.scores(shape, plugin), dict(scores))


def expect_best(cluster: SmallCluster, shape: Shape, node: str, cards: Sequence[str] = ()) -> None:
    """Expect that the shape gets this node, and these cards of it, best first."""
    _expect_no_failure(cluster, shape)
    _expect("the best place is", cluster.best(shape), (node, list(cards)))


def expect_failure(cluster: SmallCluster, shape: Shape, text: str) -> None:
    """Expect that a plugin fails for the shape, with this sentence."""
    _expect("the failure is", cluster.failure(shape), text)


def expect_contract(cluster: SmallCluster, shape: Shape) -> None:
    """Expect that the plugins keep what `kubeshare_py.plugin` asks of their answers.

    The same rows get the same answers, whichever rows are asked about with them; a card filter
    gives a reason exactly for cards that do not fit; no hint rules out a row that fits.
    """
    _expect_no_failure(cluster, shape)
    evaluator, columns = cluster.evaluator, cluster.ledger.columns
    used = sorted(columns.row_of.values())
    once = evaluator.negated_masks_on(shape, AllRows(columns))
    _expect("asked again, answers are", _masks(cluster, shape, AllRows(columns)), once.tolist())
    for row in used:
        name = columns.names[row]
        alone = _masks(cluster, shape, SomeRows(columns, np.array([row])))
        _expect(f"asked about {name} alone, the answer is", alone, [once.item(row)])
        if once.item(row) == 0 and not evaluator.may_fit(shape, row):
            raise AssertionError(f"a queueing hint rules out {name}, where the shape fits")
    for plugin in cluster.plugins:
        if isinstance(plugin, CardFilter):
            for alone_shape in by_claim(shape):
                _expect_reasons(cluster, plugin, alone_shape, used)


def _expect_reasons(
    cluster: SmallCluster, plugin: CardFilter, shape: Shape, used: Sequence[int]
) -> None:
    if not shape.claims:
        return
    before = PreFilters(cluster.evaluator.boundary, shape).arguments(plugin)
    predicate = plugin.card_filter(shape, ReasonTable(), *before)
    columns = cluster.ledger.columns
    for row in used if predicate is not None else ():
        assert predicate is not None
        fits, reasons = (ask(OneRow(columns, row)) for ask in (predicate.fits, predicate.reasons))
        for slot, uuid in enumerate(columns.uuids[row]):
            if bool(fits[0, slot]) == bool(reasons[0, slot]):
                fits_too = bool(fits[0, slot])
                has = "fits, but it has a reason" if fits_too else "does not fit without a reason"
                raise AssertionError(f"{plugin.name}: card {uuid} {has}")


def _masks(cluster: SmallCluster, shape: Shape, rows: Rows) -> list[int]:
    found: IntArray = cluster.evaluator.negated_masks_on(shape, rows)
    masks: list[int] = found.tolist()
    return masks


def _expect_no_failure(cluster: SmallCluster, shape: Shape) -> None:
    failure = cluster.failure(shape)
    if failure:
        raise AssertionError(failure)


def _expect(what: str, found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"{what} {found!r}, not {wanted!r}")
