"""Why a shape does not fit: now, by row and reason, or ever, on nodes however empty."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from kubeshare_py.cluster.columns import ABSENT, Columns, IntArray
from kubeshare_py.cluster.ledger import Ledger
from kubeshare_py.cluster.rows import AllRows, Rows, SomeRows
from kubeshare_py.domain.diagnosis import UNCOUNTED, Diagnosis, WaitingReason
from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.domain.node import CONTESTED_OF
from kubeshare_py.domain.pod import Shape
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.request import TOO_MUCH, CardRelation, GpuClaim
from kubeshare_py.framework.boundary import PluginFailed
from kubeshare_py.framework.claim_fit import asked_bytes, asked_milli, names_cards
from kubeshare_py.framework.prepared_plugins import PreparedPlugins
from kubeshare_py.framework.reasons import BINDING_REFUSED, NO_CARD, NO_NODE
from kubeshare_py.framework.result_cache import CachedResults

# What several claims of a pod need of one node together, and what its cards have in all.
#
# Only necessary conditions: a row that meets them all may still be too small. Arrays have the shape
# (k,) for k rows, or (k, width) for their cards.


_MOST = np.iinfo(np.int64).max


class JointAmount(Enum):
    """The kind of amounts that are compared: numbers of cards, shares in milli, or bytes."""

    CARDS = "cards"
    SHARE = "share"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class JointNeed:
    """How much the claims need at least on each row, and how much there is; (k,) both."""

    amount: JointAmount
    needed: IntArray
    there: IntArray


def joint_needs(
    shape: Shape, rows: Rows, fitting: Sequence[NDArray[np.bool_]], *, free: bool
) -> Iterator[JointNeed]:
    """The needs of a shape of several claims, of what is `free`, or of whole cards.

    `fitting` are, for each claim, the cards that it alone may be put on, (k, width) each.
    """
    share = rows.free_milli if free else rows.capacity_milli
    memory = rows.free_bytes if free else rows.capacity_bytes
    if shape.relation is CardRelation.SAME_CARD:
        takes_all = np.logical_and.reduce(fitting)
        takes_all &= sum(_milli(claim, rows) for claim in shape.claims) <= share
        takes_all &= sum(_bytes(claim, rows) for claim in shape.claims) <= memory
        there: IntArray = takes_all.sum(1)
        yield JointNeed(JointAmount.CARDS, np.full(len(there), shape.claims[0].count), there)
        return
    every = np.logical_or.reduce(fitting)
    cards: IntArray = every.sum(1)
    apart = shape.relation is CardRelation.DIFFERENT_CARDS
    own = [claim.count for claim in shape.claims if claim.exclusive or apart]
    shared = [claim.count for claim in shape.claims if not claim.exclusive and not apart]
    needed = np.full(len(cards), sum(own) + max(shared, default=0))
    yield JointNeed(JointAmount.CARDS, needed, cards)
    for amount, column, part_of in (
        (JointAmount.SHARE, share, _milli),
        (JointAmount.MEMORY, memory, _bytes),
    ):
        least = np.zeros(len(cards), np.int64)
        for claim, fits in zip(shape.claims, fitting, strict=True):
            of_each = np.where(fits, part_of(claim, rows), _MOST).min(1)
            # A claim of more cards than there are is another reason.
            count = min(claim.count, fits.shape[1])
            least += count * np.where(fits.any(1), of_each, 0)
        yield JointNeed(amount, least, np.where(every, column, 0).sum(1))


def _milli(claim: GpuClaim, rows: Rows) -> IntArray | int:
    """What one part of the claim takes of each card's share."""
    return rows.capacity_milli if claim.exclusive else asked_milli(claim)(rows)


def _bytes(claim: GpuClaim, rows: Rows) -> IntArray | int:
    """What one part of the claim takes of each card's memory."""
    if claim.exclusive:
        return rows.capacity_bytes
    return asked_bytes(claim, asked_milli(claim)(rows), rows)


# Finds shapes that no node could hold even if it were empty, and names the largest node there is.
#
# All cards of the inventory count, unhealthy ones included, and so do cordoned and tainted nodes,
# which may come back at any time. Charges do not count. While the cards of some node are unknown,
# no claim is called impossible.


#: The most models that a text names.
MODELS_NAMED = 4
#: The most models of a cluster among which one is looked for that may be meant.
_MODELS_SEARCHED = 64
_ALIKE = 0.8
_GIB = 1 << 30
_BYTES = ("memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class CardsThere:
    """The cards that a claim may be put on, bool, (rows, width) each.

    `any_model` are all cards, `of_models` those of models that the claim takes, `named` those of
    the latter that it takes by their UUIDs, and `fitting` those of these whose capacity is enough.
    """

    any_model: NDArray[np.bool_]
    of_models: NDArray[np.bool_]
    named: NDArray[np.bool_]
    fitting: NDArray[np.bool_]


def impossible(shape: Shape, ledger: Ledger) -> str:
    """A sentence if the shape fits no node, however much were free; else ""."""
    if not ledger.columns.present.any():
        return ""
    what = next(_all_cards(shape, ledger), "")
    if what:
        return impossible_sentence(what, ledger)
    what = next(_resources(shape, ledger.columns), "")
    return f"impossible: {what}" if what else ""


def impossible_sentence(what: str, ledger: Ledger) -> str:
    """The sentence that this is impossible, unless the cards of some nodes are unknown."""
    columns = ledger.columns
    if not (columns.gpu_count[columns.present] > 0).any():
        return "no GPU of any node is known"
    known = ledger.silent.intersection(columns.row_of)
    unknown = sum(columns.gpu_count[columns.row_of[name]] == 0 for name in known)
    if not unknown:
        return f"impossible: {what}"
    nodes = "1 node" if unknown == 1 else f"{unknown} nodes"
    return f"{what}; which GPUs {nodes} {'has' if unknown == 1 else 'have'} is not known"


def cards_there(claim: GpuClaim, columns: Columns) -> CardsThere:
    """The cards that could hold one share of the claim if they were idle."""
    there = ((columns.flags & ABSENT) == 0) & columns.present[:, None]
    names = columns.model_names
    takes = [claim.takes(name) and claim.milli_on(name) < TOO_MUCH for name in names]
    # (rows, width): each model is judged once, not each card.
    of_models = there & np.array(takes)[columns.model]
    named = of_models
    if names_cards(claim):
        named = of_models & ~columns.among(claim.denied_uuids)
        named &= columns.among(claim.uuids) if claim.uuids else True
    fitting = named & (columns.capacity_bytes >= (claim.memory_bytes or 0))
    if not claim.exclusive:
        shares = np.array([claim.milli_on(name) for name in names])[columns.model]
        fitting &= columns.capacity_milli >= shares
    return CardsThere(there, of_models, named, fitting)


def no_such_model(claim: GpuClaim, columns: Columns, there: NDArray[np.bool_]) -> str:
    """That no card is of a model of the claim, which models there are, and which may be meant.

    `there` are the cards that count, (rows, width) bool.
    """
    codes, numbers = np.unique(columns.model[there], return_counts=True)
    counts = Counter(
        {columns.model_names[code]: n for code, n in zip(codes, numbers.tolist(), strict=True)}
    )
    by_count = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{name} ({count})" for name, count in by_count[:MODELS_NAMED]]
    rest = len(by_count) - MODELS_NAMED
    models = ", ".join(named) + (f" and {rest} other models" if rest > 0 else "")
    if not claim.models:
        return f"no card here is of a model that it takes ({claim.preferred}); there are {models}"
    meant = _meant(claim.models[0], [name for name, _ in by_count[:_MODELS_SEARCHED]])
    hint = f"; did you mean {meant}?" if meant else ""
    return f'no card here is called "{listed(claim.models)}"; there are {models}{hint}'


def _meant(asked: str, models: list[str]) -> str:
    """The model of these of which `asked` is a part or a misspelling; "" if none is.

    Another number is another model: H100 is not meant by A100, nor A100 by A10.
    """
    letters = [re.escape(letter) for letter in asked.lower() if letter.isalnum()]
    words = re.compile(rf"(?<![a-z0-9]){'[^a-z0-9]?'.join(letters)}(?![a-z0-9])")
    found = [model for model in models if letters and words.search(model.lower())]
    if not found:
        lower = {model.lower(): model for model in models}
        alike = get_close_matches(asked.lower(), lower, n=1, cutoff=_ALIKE)
        found = [lower[one] for one in alike if _numbers(one) == _numbers(asked)]
    return found[0] if found else ""


def _numbers(model: str) -> list[str]:
    return re.findall("[0-9]+", model)


def _all_cards(shape: Shape, ledger: Ledger) -> Iterator[str]:
    for claim in dict.fromkeys(shape.claims):
        yield from _cards(claim, ledger.columns)
    if len(shape.claims) > 1:
        yield from _cards_together(shape, ledger.columns)


def _cards_together(shape: Shape, columns: Columns) -> Iterator[str]:
    """That no node could hold all claims at once, though for each claim there is one."""
    fitting = [cards_there(claim, columns).fitting for claim in shape.claims]
    lacks: NDArray[np.bool_] = ~columns.present
    for claim, fits in zip(shape.claims, fitting, strict=True):
        lacks |= _together(claim, columns, fits) < claim.count
    needs = [*joint_needs(shape, AllRows(columns), fitting, free=False)]
    short = [need.needed > need.there for need in needs]
    if not np.logical_or.reduce([lacks, *short]).all():
        return
    for need, rows in zip(needs, short, strict=True):
        # (rows,): one sentence names one amount, so it is said only if all rows ask for the same
        # and none has it.
        asked = np.unique(need.needed[rows & ~lacks])
        if (lacks | rows).all() and len(asked) == 1 and need.there.max() < asked[0]:
            yield _joint_lack(shape, need.amount, int(asked[0]), need.there, columns)
            return
    yield "no node has GPUs for all of its containers together"


def _cards(claim: GpuClaim, columns: Columns) -> Iterator[str]:
    there = cards_there(claim, columns)
    if not there.any_model.any():
        yield "no node has a GPU"
    elif not there.of_models.any():
        yield no_such_model(claim, columns, there.any_model)
    elif not there.named.any():
        yield "no node has a GPU of a UUID that it takes"
    elif not there.fitting.any():
        yield _too_small(claim, columns, there.named)
    else:
        yield from _too_few(claim, columns, there)


def _too_small(claim: GpuClaim, columns: Columns, there: NDArray[np.bool_]) -> str:
    memory = claim.memory_bytes or 0
    # (rows, width): what is named is what no card has, memory first.
    lacks_memory = not (there & (columns.capacity_bytes >= memory)).any()
    sizes = np.where(there, columns.capacity_bytes if lacks_memory else columns.capacity_milli, -1)
    most = sizes.max(1)
    row = _largest(columns, most)
    model = columns.model_names[columns.model.item(row, int(sizes[row].argmax()))]
    where = f"{model}, node {columns.names[row]}" if model else f"node {columns.names[row]}"
    if lacks_memory:
        asked, largest = amounts("memory", memory, most.item(row))
        return f"no GPU has {asked}: the largest has {largest} ({where})"
    return (
        f"no GPU has enough of both share and memory: the largest share is that of "
        f"{most.item(row) / WHOLE_MILLI:g} GPUs ({where})"
    )


def _too_few(claim: GpuClaim, columns: Columns, there: CardsThere) -> Iterator[str]:
    of_models, fitting = (_together(claim, columns, t) for t in (there.named, there.fitting))
    if fitting.max() >= claim.count:
        return
    of = " of one model" if claim.one_model else ""
    near = " near one NUMA node" if claim.one_numa_node else ""
    named = claim.models or claim.preferred is not None or claim.share_of
    of_uuid = " of a UUID that it takes" if names_cards(claim) else ""
    kind = f"{of}{near}{' of a model that it takes' if named else ''}{of_uuid}"
    size = ""
    if of_models.max() >= claim.count:
        memory = claim.memory_bytes
        size = f" with {amounts('memory', memory, memory)[0]} each" if memory else " of such a size"
        of_models = fitting
    row = _largest(columns, of_models)
    yield (
        f"no node has {claim.count} GPUs{kind}{size}: the largest has {of_models.item(row)} "
        f"(node {columns.names[row]})"
    )


def _together(claim: GpuClaim, columns: Columns, there: NDArray[np.bool_]) -> IntArray:
    """The most of these cards that one pod may have together on each row, (rows,)."""
    counts: IntArray = there.sum(1)
    for column, asked in ((columns.model, claim.one_model), (columns.numa, claim.one_numa_node)):
        if asked:
            kinds = np.unique(column[there]).tolist()
            # (kinds, rows): cards of each kind on each row; a pod may have those of one kind.
            alike = [(there & (column == kind)).sum(1) for kind in kinds]
            counts = np.minimum(counts, np.max(alike, axis=0))
    return counts


def _joint_lack(
    shape: Shape, kind: JointAmount, needed: int, there: IntArray, columns: Columns
) -> str:
    """That no node has so much for all claims; `there` is what each has, (rows,)."""
    row = _largest(columns, there)
    asked, most = _joint_amounts(kind, needed, there.item(row))
    largest = f"the largest has {most} (node {columns.names[row]})"
    if shape.relation is not CardRelation.SAME_CARD:
        return f"its containers need {asked} of one node: {largest}"
    if not there[row]:
        return "no GPU has room for all of its containers together"
    return f"no node has {asked} with room for all of its containers: {largest}"


def _joint_amounts(kind: JointAmount, needed: int, there: int) -> list[str]:
    if kind is JointAmount.MEMORY:
        return [f"{one} of GPU memory" for one in amounts("memory", needed, there)]
    unit = WHOLE_MILLI if kind is JointAmount.SHARE else 1
    return [f"{one / unit:g} GPU{'' if one == unit else 's'}" for one in (needed, there)]


def _resources(shape: Shape, columns: Columns) -> Iterator[str]:
    for name, asked in shape.resources:
        column = columns.resources.get(name)
        offered = columns.allocatable[:, column] if column is not None else None
        if asked <= 0 or (offered is not None and offered.max() >= asked):
            continue
        if offered is None or not offered.max():
            served, is_contested, dialects = name.partition(CONTESTED_OF)
            yield (
                f"no node is set up for pods of {dialects}: on none is {served} served by its "
                "device plugin or by the node agent (docs/dialects.md)"
                if is_contested
                else f"no node has any {name}"
            )
        else:
            row = _largest(columns, np.where(columns.present, offered, -1))
            needed, largest = amounts(name, asked, offered.item(row))
            yield (
                f"no node has {needed} {'of ' if name in _BYTES else ''}{name}: the largest has "
                f"{largest} (node {columns.names[row]})"
            )


def _largest(columns: Columns, amounts: IntArray) -> int:
    """The row with the largest amount; of equal rows the first by name."""
    # (rows,): of rows that are equally large the name decides, as rows move when nodes come anew.
    rows = np.flatnonzero((amounts == amounts.max()) & columns.present).tolist()
    return min(rows, key=lambda row: columns.names[row] or "")


def amounts(resource: str, asked: int, there: int) -> tuple[str, str]:
    """Two amounts of a resource that are compared: cores, GiB, or a count.

    Different amounts have as many digits as it takes to see that.
    """
    if resource == "cpu":
        return f"{asked / 1000}".removesuffix(".0"), f"{there / 1000}".removesuffix(".0")
    if resource not in _BYTES:
        return str(asked), str(there)
    for digits in (4, 6, 9):
        pair = tuple(f"{one / _GIB:.{digits}g} GiB" for one in (asked, there))
        if asked == there or pair[0] != pair[1]:
            return pair[0], pair[1]
    return f"{asked} bytes", f"{there} bytes"


# Why a shape does not fit: the masks of its rows, and their count by reason.


def masks(answers: CachedResults, columns: Columns) -> IntArray:
    """The mask of reasons of every row, (rows,) int64: 0 where the shape fits.

    Rows without a node carry NO_NODE.
    """
    found: IntArray = np.maximum(-answers.row_scores, 0)
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
    # (rows,): row scores below 0 are minus the mask of reasons; those of 0 or more have none.
    return int(np.bitwise_or.reduce(np.maximum(-answers.row_scores, 0))) & ~NO_NODE


def _first_masks(answers: CachedResults, columns: Columns) -> IntArray:
    """`masks`, with reasons of cards only on rows that are refused for nothing else."""
    found: IntArray = np.maximum(-answers.row_scores, 0)
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
