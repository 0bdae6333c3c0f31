"""`kubectl kubeshare why`: first the answer in words, then node by node and card by card."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from rich.text import Text

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.amounts import (
    asks_of,
    counted,
    gpus,
    held,
    is_unclear,
    memory,
    memory_pair,
    relation,
    without_share,
)
from kubeshare_py.terminal.cards import card_name
from kubeshare_py.terminal.containers import container_lines, containers_in_words
from kubeshare_py.terminal.evictions import preemption_lines
from kubeshare_py.terminal.grid import GAP, GridColumn, Row, grouped, joined, wrapped
from kubeshare_py.terminal.placement_lines import placement_lines
from kubeshare_py.terminal.topology_tables import ring_sentence
from kubeshare_py.views.view import NodeWhy, PodView, WhyView

#: The most nodes, or groups of nodes that are alike, that are shown; the rest is counted.
#: Machine-readable forms have all of them.
MAX_NODES = 20
#: The most nodes of a group that are all named, and how many are named of more.
MAX_NAMES, NAMES_OF_MANY = 6, 3

#: The framework's reason for nodes with fewer cards than a pod asks for.
TOO_FEW_GPUS = "too few GPUs"
_STATES = {
    "gated": "is held back",
    "waiting": "waits",
    "backoff": "waits for its next try",
    "assumed": "is being bound",
    "unconfirmed": "is being bound",
    "bound": "is bound",
}
_NOTHING = ("", "", "")
#: A problem with the value of a label that no annotation is named like, and one with a label's key.
_WRONG_VALUE = re.compile(
    r"(sharedgpu/(?:gpu_request|gpu_limit|gpu_mem|gpu_exclusive|numa_bind|priority"
    r'|group_headcount|group_threshold))="'
)
_WRONG_LABEL = re.compile(r"label (sharedgpu/[A-Za-z0-9_.-]+) is not known")
_EXAMPLE = re.compile(r'(?:such as |must be ")([A-Za-z0-9.]+)')
_OTHER = (
    "Its labels ask for something else than it holds: they were changed after it was bound. What "
    "it holds stays until it ends; a new pod gets what the labels say."
)


def why_report(why: WhyView, width: int | None) -> Text:
    """Paragraph, nodes, advice."""
    lines = _paragraph(why, width)
    if why.placement is not None:
        lines += placement_lines(why.placement, why.pod.node, width)
    shown = sorted(why.nodes, key=lambda node: (not node.fits, not _in_amounts(node)))
    rest = shown[MAX_NODES:]
    if shown:
        lines += [Text(), *_nodes(shown[:MAX_NODES], why.indexes, width)]
    if rest:
        count = sum(1 + len(node.alike) for node in rest)
        lines.append(Text(f"… and {counted(count, 'more node')}: {_reasons(rest)}"))
    if why.preemption is not None:
        lines += [Text(), *preemption_lines(why.preemption, why.indexes, width)]
    if why.advice:
        lines += [Text(), Text("What would make it fit:", style="bold")]
        for sentence in why.advice:
            lines += _item(sentence, width)
    return joined(lines)


def _paragraph(why: WhyView, width: int | None) -> list[Text]:
    pod = why.pod
    state = _STATES.get(pod.state, f"is {pod.state}")
    where = f" to {pod.node}" if pod.node else ""
    held_cards = [card_name(one.uuid, one.index) for one in pod.holds]
    cards = f", {', '.join(held_cards or pod.cards)}" if pod.cards else ""
    message = why.message or pod.message
    if _is_mislabelled(pod, message):
        state = "is not scheduled until its labels are corrected"
    if why.waits_for:
        state = f"waits for {why.waits_for}"
    verdict = f"{pod.namespace}/{pod.name} {state}{where}{cards}"
    said = ". " if why.waits_for else ": "
    verdict += f"{said}{message}" if message else "."
    called = f" Its namespace calls the GPU {pod.card_name}." if pod.card_name else ""
    isolated = f"{_unheld(pod)}{_unknown(why)}"
    rank = _rank(pod)
    comma = "," if rank or without_share(pod) else ""
    amounts = f"{comma} and holds {held(pod)}" if pod.holds else ""
    asked = f"It asks for {_asked(pod)}{rank}{amounts}.{called}{isolated}"
    style = "bold green" if pod.state == "bound" else "bold"
    lines = [Text(text, style=style) for text in wrapped(printable(verdict), width)]
    for sentence, colour in (
        ("" if is_unclear(pod) else asked, ""),
        (_OTHER if pod.asks_for_other else "", "yellow"),
        (ring_sentence(why.ring), ""),
    ):
        shown = wrapped(printable(sentence), width) if sentence else ()
        lines += [Text(text, style=colour) for text in shown]
    for sentence in container_lines(pod):
        lines += _item(sentence, width)
    if _is_mislabelled(pod, message):
        lines += [Text(), Text("To correct it:", style="bold")]
        lines += [
            Text(f"  kubectl label pod {pod.name} -n {pod.namespace} {change} --overwrite")
            for change in _corrections(message)
        ]
    return lines


def _is_mislabelled(pod: PodView, message: str) -> bool:
    """Whether it is held for what its labels say."""
    return pod.state == "gated" and any(_corrections(message))


def _corrections(message: str) -> Iterator[str]:
    """What `kubectl label` is to be given: `sharedgpu/gpu_limit=0.5`, `sharedgpu/gpu_lmit-`.

    The value is the rule's own example, where it has one.
    """
    for problem in message.split("; "):
        if found := _WRONG_VALUE.match(problem):
            example = _EXAMPLE.search(problem, found.end())
            yield f"{printable(found[1])}={example[1] if example else 'VALUE'}"
        elif found := _WRONG_LABEL.match(problem):
            yield f"{printable(found[1])}-"


def _item(sentence: str, width: int | None) -> list[Text]:
    """A sentence as an item of a list."""
    first, *more = wrapped(printable(sentence), None if width is None else width - 4)
    return [Text(f"  - {first}"), *(Text(f"    {text}") for text in more)]


def _asked(pod: PodView) -> str:
    """What it asks for; of many containers how many, because each is listed."""
    asking = {one.container for one in pod.containers if one.count}
    if len(asking) <= 1:
        return f"{asks_of(pod)}{without_share(pod)}"
    return f"GPUs for {len(asking)} containers{relation(pod)}"


def _unheld(pod: PodView) -> str:
    """The parts of its share that nothing enforces; nothing while it has no card."""
    parts = [part for part in map(_PARTS.get, pod.unheld) if part is not None]
    said = " and ".join(filter(None, (part(pod) for part in parts)))
    if not said or not pod.node:
        return ""
    because = [f"{one.uuid} has {one.reason}" for one in pod.not_ready if one.reason]
    why = ", ".join(because) or f"isolation: {pod.isolation}"
    return f" Nothing limits it to {said} ({why})."


def _held_memory(pod: PodView) -> str:
    total = sum(one.memory_bytes for one in pod.holds)
    return f"its {memory(total)}" if total else "its memory"


def _held_time(pod: PodView) -> str:
    """Its part of the cards' time; "" for a pod that has none of its own."""
    shares = {one.milli for one in pod.holds}
    if shares == {0}:
        return ""
    of_what = "its card's time" if len(pod.holds) == 1 else "its cards' time"
    if len(shares) != 1:
        return f"its part of {of_what}"
    return f"{_IN_WORDS.get(milli := shares.pop(), gpus(milli))} of {of_what}"


_PARTS = {"memory": _held_memory, "time": _held_time}
#: Thousandths in words.
_IN_WORDS = {250: "a quarter", 500: "half", 750: "three quarters", 1000: "all"}


def _unknown(why: WhyView) -> str:
    """The cards on which it is unknown whether its back-end works."""
    pod = why.pod
    cards = " and ".join(one.uuid for one in pod.not_ready if not one.reason)
    if not pod.node:
        count = sum(
            one.cards * (1 + len(node.alike))
            for node in why.nodes
            for one in node.not_ready
            if not one.reason
        )
        cards = counted(count, "card") if count else ""
    return f" It is not known whether {pod.isolation} works on {cards}." if cards else ""


def _rank(pod: PodView) -> str:
    words = []
    if pod.priority:
        words.append(f"priority {pod.priority}")
    if pod.label_priority:
        words.append(f"sharedgpu/priority {pod.label_priority}")
    return f", with {' and '.join(words)}" if words else ""


def _nodes(nodes: Sequence[NodeWhy], indexes: Mapping[str, int], width: int | None) -> list[Text]:
    """One grid for the shortfalls of all nodes, cut at each node's heading."""
    of_containers = any(one.containers for node in nodes for one in node.shortfalls)
    columns = [
        GridColumn(header="WHERE", least=13),
        *([GridColumn(header="FOR", least=11)] if of_containers else ()),
        GridColumn(header="ASKED"),
        GridColumn(header="FREE"),
        GridColumn(header="MISSING"),
        GridColumn(header="REASON"),
    ]
    rows_of = [_rows(node, indexes, of_containers) for node in nodes]
    rows = [row for of_node in rows_of for row in of_node]
    header, *groups = grouped(columns, rows, None if width is None else width - GAP)
    following = iter(groups)
    lines = [Text(" " * GAP) + line for line in header] if rows else []
    for node, of_node in zip(nodes, rows_of, strict=True):
        lines += _heading(node, width)
        lines += [Text(" " * GAP) + line for _ in of_node for line in next(following)]
    return lines


def _names(node: NodeWhy) -> str:
    """The node and those that say the same: all names, or of many the first ones."""
    names = (node.name, *node.alike)
    if len(names) <= MAX_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:NAMES_OF_MANY])} and {len(names) - NAMES_OF_MANY:,} more nodes"


def _heading(node: NodeWhy, width: int | None) -> list[Text]:
    verdict = _fits(node) if node.fits else _verdict(node)
    not_ready = [
        f"{counted(one.cards, 'card')} with {one.reason}" for one in node.not_ready if one.reason
    ]
    verdict += f"; its isolation does not work on {', '.join(not_ready)}" if not_ready else ""
    verdict += "".join(f"; {kept}" for kept in node.kept)
    verdict += f"; scaled GPUs {'; '.join(node.scaled)}" if node.scaled else ""
    texts = wrapped(printable(f"{_names(node)}: {verdict}"), width)
    return [Text(text, style="green" if node.fits else "bold") for text in texts]


def _fits(node: NodeWhy) -> str:
    """That the pod fits; for a gang, how many members."""
    if node.headroom is None:
        return "fits"
    return f"room for {counted(node.headroom, 'member')}"


def _verdict(node: NodeWhy) -> str:
    """Cards counted by what they lack, for each claim, then the node's other reasons."""
    if few := _too_few(node):
        return f"asks for {counted(few.asked or 0, 'card')}; this node has {few.free}"
    of_cards = [one for one in node.shortfalls if one.subject]
    claims = dict.fromkeys(one.containers for one in of_cards)
    phrases = []
    for containers in claims:
        lacks = ", ".join(_lacks(one for one in of_cards if one.containers == containers))
        phrases.append(f"{containers_in_words(containers)}: {lacks}" if containers else lacks)
    named = {one.reason for one in of_cards}
    others = [reason for reason in node.reasons if reason not in named]
    separator = "; " if any(claims) else ", "
    return separator.join([*phrases, *others]) or "does not fit"


def _too_few(node: NodeWhy) -> Shortfall | None:
    """That the node never has so many cards as the only claim asks for."""
    found = (one for one in node.shortfalls if one.reason == TOO_FEW_GPUS and not one.containers)
    return next((one for one in found if one.asked is not None), None)


def _lacks(shortfalls: Iterable[Shortfall]) -> list[str]:
    """What cards lack, and how many of them."""
    cards = sorted((one.subject, one.reason) for one in shortfalls)
    of_cards = [
        " and ".join(dict.fromkeys(reason for _, reason in parts))
        for _, parts in groupby(cards, key=lambda pair: pair[0])
    ]
    return [
        f"{lack} on {counted(of_cards.count(lack), 'card')}" for lack in dict.fromkeys(of_cards)
    ]


def _rows(node: NodeWhy, indexes: Mapping[str, int], of_containers: bool) -> list[Row]:
    """A row for each thing that is lacking.

    Of nodes that are alike, cards that lack the same are counted in one row: which cards these are
    differs from node to node.
    """
    if _too_few(node) is not None:
        return []  # its heading says it, and what its cards lack does not matter
    if not node.alike:
        return [
            _row(one, card_name(one.subject, indexes.get(one.subject, -1)), of_containers)
            for one in node.shortfalls
        ]
    counts = Counter(replace(one, subject="card" if one.subject else "") for one in node.shortfalls)
    return [
        _row(one, counted(count, "card") if one.subject else "", of_containers)
        for one, count in counts.items()
    ]


def _row(shortfall: Shortfall, card: str, of_containers: bool) -> Row:
    asked, free, missing = _amounts(shortfall)
    where = card or shortfall.resource or "node"
    containers = [containers_in_words(shortfall.containers) or "all"] if of_containers else ()
    return Row(cells=[where, *containers, asked, free, missing, shortfall.reason])


def _amounts(shortfall: Shortfall) -> tuple[str, str, str]:
    asked, free = shortfall.asked, shortfall.free
    if asked is None or free is None:
        return _NOTHING
    free = max(free, 0)  # below 0 if pods hold more than there is: of that, nothing is free
    missing = max(asked - free, 0)
    if shortfall.unit == "bytes":
        return (*memory_pair(asked, free), memory(missing))
    if shortfall.unit == "milli" and shortfall.resource.startswith("gpu"):
        return (f"{gpus(asked)} GPU", f"{gpus(free)} GPU", f"{gpus(missing)} GPU")
    if shortfall.unit == "milli":
        return (gpus(asked), gpus(free), gpus(missing))
    return (str(asked), str(free), str(missing))


def _in_amounts(node: NodeWhy) -> bool:
    """Whether something is there, only not enough of it: the nearer miss."""
    return any(one.asked is not None for one in node.shortfalls)


def _reasons(nodes: Iterable[NodeWhy]) -> str:
    counts: dict[str, int] = {}
    for node in nodes:
        for reason in ("fits",) if node.fits else node.reasons:
            counts[reason] = counts.get(reason, 0) + 1 + len(node.alike)
    phrases = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count} {reason}" for reason, count in phrases)
