"""Why a shape does not fit: the masks of its rows, and their count by reason."""

from collections import Counter
from zlib import crc32

import numpy as np

from kubeshare_py.cluster.columns import Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import SomeRows
from kubeshare_py.domain.diagnosis import UNCOUNTED, Diagnosis, WaitingReason
from kubeshare_py.domain.pod import Shape
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.impossible import impossible
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.reasons import BINDING_REFUSED, NO_CARD, NO_NODE
from kubeshare_py.framework.result_cache import CachedResults


def masks(answers: CachedResults, columns: Columns) -> IntArray:
    """The mask of reasons of every row, (rows,) int64: 0 where the shape fits.

    Rows without a node carry NO_NODE.
    """
    found: IntArray = np.maximum(-answers.keys, 0)
    if answers.questions.asks_cards:
        rows = np.flatnonzero(found & NO_CARD)
        found[rows] &= ~NO_CARD
        found[rows] |= _card_reasons(answers.questions, SomeRows(columns, rows))
    return found


def diagnosis(shape: Shape, answers: CachedResults, columns: Columns, ledger: Ledger) -> Diagnosis:
    """How many nodes give which reason, for a shape that fits nowhere now."""
    if answers.failure is not None:
        return failed(answers.failure)
    found, counts = np.unique(_first_masks(answers, columns), return_counts=True)
    reasons = answers.questions.reasons
    totals: Counter[str] = Counter()
    plugins: set[str] = set()
    nodes, in_reach, union = 0, 0, int(np.bitwise_or.reduce(found, initial=0))
    about_the_pod = reasons.first_of_pod(union)
    for mask, count in zip(found.tolist(), counts.tolist(), strict=True):
        if mask & NO_NODE:
            continue
        nodes += count
        first = reasons.first(mask)
        in_reach += count * all(one.resolvable for one in first)
        for reason in first:
            totals[reason.text] += count
            plugins.add(reason.plugin)
    if about_the_pod is not None:
        # As in kube-scheduler, nothing is said of nodes then.
        text, plugin = about_the_pod.text, about_the_pod.plugin
        return Diagnosis(nodes=nodes, counts=((text, UNCOUNTED),), plugins=(plugin,))
    return Diagnosis(
        nodes=nodes,
        counts=tuple(sorted(totals.items())),
        in_reach=in_reach,
        plugins=tuple(sorted(plugins)),
        # A new node would help no pod that could go to the present ones.
        reason=(
            WaitingReason.SCHEDULER_ERROR
            if totals.keys() == {BINDING_REFUSED}
            else WaitingReason.UNSCHEDULABLE
        ),
        # Of pods without GPUs, reports say what kube-scheduler's say.
        limit=impossible(shape, ledger) if shape.claims else "",
    )


def failed(failure: PluginFailed) -> Diagnosis:
    """The diagnosis of a pod that waits because a plugin failed."""
    return Diagnosis(
        sentence=str(failure),
        topic=failure.topic,
        reason=WaitingReason.SCHEDULER_ERROR,
        plugins=(failure.plugin,),
    )


def reason_set(answers: CachedResults) -> int:
    """The union of all rows' masks, with one bit for all reasons of cards.

    A cheap sign of change.
    """
    if answers.failure is not None:
        return -1 - crc32(str(answers.failure).encode())
    return int(np.bitwise_or.reduce(np.maximum(-answers.keys, 0))) & ~NO_NODE


def _first_masks(answers: CachedResults, columns: Columns) -> IntArray:
    """`masks`, with reasons of cards only on rows that are refused for nothing else."""
    found: IntArray = np.maximum(-answers.keys, 0)
    if answers.questions.asks_cards:
        rows = np.flatnonzero(found == NO_CARD)
        found[rows] = _card_reasons(answers.questions, SomeRows(columns, rows))
        found &= ~NO_CARD
    return found


def _card_reasons(prepared: PreparedPlugins, rows: SomeRows) -> IntArray | int:
    """The reasons of these rows' cards; that a plugin failed, if it cannot give them."""
    try:
        return prepared.card_reasons(rows)
    except PluginFailed as failure:
        return prepared.reasons.register(failure.plugin, str(failure), resolvable=False)
