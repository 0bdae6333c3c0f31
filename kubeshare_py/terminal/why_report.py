"""`kubectl kubeshare why`, and `check --now`, as text: an answer in words, then the details."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

import msgspec
from rich.text import Text

from kubeshare_py.domain.diagnosis import Shortfall
from kubeshare_py.domain.printable import printable
from kubeshare_py.terminal.cards import (
    UNNAMED,
    amount_of,
    asks_of,
    card_name,
    claim_of,
    counted,
    gpus,
    held,
    is_unclear,
    memory,
    memory_pair,
    relation,
    without_share,
)
from kubeshare_py.terminal.gpu_tables import ring_sentence
from kubeshare_py.terminal.grid import GAP, GridColumn, Row, grouped, joined, wrapped
from kubeshare_py.terminal.pod_table import asks, name_of
from kubeshare_py.views.view import (
    CheckedPod,
    CheckedProspect,
    ContainerView,
    HoldingView,
    NeighbourView,
    NodeWhy,
    PlacementView,
    PodView,
    PreemptionView,
    VictimView,
    WhyView,
    container_words,
)

# `kubectl kubeshare why`: first the answer in words, then node by node and card by card.


# A pod's containers in words, where they have GPUs of their own.


#: Two numbers that follow each other are both written.
_PAIR = 2


def container_lines(pod: PodView) -> Iterator[str]:
    """What containers ask for, and once it has a node what each holds; nothing if all are alike."""
    if pod.node:
        for one in pod.containers:
            asks = f"{container_words(one.container)} asks for {claim_of(one)}"
            yield f"{asks} and holds {_holds(one)}"
        return
    alike: dict[str, list[str]] = {}
    for one in pod.containers:
        alike.setdefault(claim_of(one), []).append(one.container)
    for asked, containers in alike.items():
        named = containers_in_words(containers)
        yield f"{named} {'each ask' if len(containers) > 1 else 'asks'} for {asked}"


def containers_in_words(containers: Sequence[str]) -> str:
    """`container 0`, `containers 0 and 2`, `containers 0-4 and init container 1`; "" for none."""
    words = []
    for kind in ("container", "init"):
        numbers = [int(one.rpartition("-")[2]) for one in containers if one.startswith(f"{kind}-")]
        if numbers:
            plural = "s" if len(numbers) > 1 else ""
            named = "container" if kind == "container" else "init container"
            words.append(f"{named}{plural} {_listed(_runs(sorted(numbers)))}")
    return _listed(words)


def _runs(numbers: Iterable[int]) -> list[str]:
    """Sorted numbers, three or more that follow each other as `0-4`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [
        text
        for run in runs
        for text in ([f"{run[0]}-{run[-1]}"] if len(run) > _PAIR else map(str, run))
    ]


def _listed(words: Sequence[str]) -> str:
    *first, last = words or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _holds(one: ContainerView) -> str:
    cards = " and ".join(card_name(part.uuid, part.index) for part in one.holds)
    return f"{held(one)} of {cards}" if cards else "none"


# The victims of a preemption and its places: lines of `kubectl kubeshare why`.


#: The most victims that are named; the rest is counted. Machine-readable forms have all of them.
MAX_VICTIMS = 20


def preemption_lines(
    found: PreemptionView, indexes: Mapping[str, int], width: int | None
) -> list[Text]:
    """A heading, the victims node by node, and what prevents the preemption."""
    lines = [Text(_evictions_heading(found), style="bold")]
    for victim in found.victims[:MAX_VICTIMS]:
        lines += _entry(_victim(victim, indexes), width)
    rest = len(found.victims) - MAX_VICTIMS
    if rest > 0:
        lines += _entry(f"… and {counted(rest, 'more pod')}", width)
    for sentence in _remarks(found, indexes):
        lines += [Text(text) for text in wrapped(printable(sentence), width)]
    return lines


def _evictions_heading(found: PreemptionView) -> str:
    if not found.victims:
        return "It waits for pods that are leaving:" if found.in_flight else "Pods are leaving:"
    if found.in_flight:
        return "Being evicted for it:"
    return "Preemption would evict:"


def _victim(victim: VictimView, indexes: Mapping[str, int]) -> str:
    cards = _cards(victim.cards, indexes)
    pod = f"{victim.namespace}/{victim.name}"
    failed = f"; not evicted so far: {victim.answer}" if victim.answer else ""
    return f"{pod} (priority {victim.priority}) on node {victim.node}{cards}{failed}"


def _remarks(found: PreemptionView, indexes: Mapping[str, int]) -> list[str]:
    remarks = []
    if found.leaving:
        remarks.append(f"{counted(found.leaving, 'pod')} whose place it gets leave anyhow.")
    remarks.append(f"It would get {_nominations(found, indexes)}.")
    if found.violations:
        remarks.append(f"Disruption budgets do not allow {found.violations} of these evictions.")
    if found.obstacle:
        remarks.append(f"No pod is evicted: {found.obstacle}.")
    return remarks


def _nominations(found: PreemptionView, indexes: Mapping[str, int]) -> str:
    if len(found.nominations) == 1:
        seat = found.nominations[0]
        return f"node {seat.node}{_cards(seat.cards, indexes)}"
    nodes = sorted({seat.node for seat in found.nominations})
    return f"{counted(len(found.nominations), 'place')} on {counted(len(nodes), 'node')}"


def _cards(uuids: Sequence[str], indexes: Mapping[str, int]) -> str:
    named = ", ".join(card_name(uuid, indexes.get(uuid, -1)) for uuid in uuids)
    return f", cards {named}" if named else ""


# Why a bound pod is where it is, in lines of `kubectl kubeshare why`: scores, and neighbours.


#: The most neighbours that are named; the rest is counted. Machine-readable forms have all of them.
MAX_NEIGHBOURS = 20


def placement_lines(found: PlacementView, node: str, width: int | None) -> list[Text]:
    """A sentence about scores, and a list of the pods on the same cards."""
    lines = [Text(line) for one in _scores(found, node) for line in wrapped(one, width)]
    if found.neighbours:
        lines += [Text(), Text("On the same cards:", style="bold")]
    for neighbour in found.neighbours[:MAX_NEIGHBOURS]:
        lines += _entry(_neighbour(neighbour), width)
    rest = len(found.neighbours) - MAX_NEIGHBOURS
    return lines + (_entry(f"… and {counted(rest, 'more pod')}", width) if rest > 0 else [])


def _scores(found: PlacementView, node: str) -> Iterator[str]:
    if not found.rank:
        return
    parts = " + ".join(
        f"{one.plugin} {one.points}" + (f" x {one.weight}" if one.weight != 1 else "")
        for one in found.scores
    )
    because = f" ({parts})" if parts else ""
    place = f"choice {found.rank} of the {found.fitting:,} nodes that fit"
    place = "the only node that fits" if found.fitting == 1 else place
    yield printable(
        f"If it were placed now, {node} would be {place}, with score {found.score}{because}."
    )
    better = [one for one in found.others if one.score > found.score]
    if better:
        first = better[0]
        yield printable(f"It stays where it is: {first.name} would score {first.score} now.")
    if found.others:
        others = ", ".join(f"{one.name} {one.score}" for one in found.others)
        yield printable(f"Scores of other nodes: {others}.")


def _neighbour(neighbour: NeighbourView) -> str:
    named = f"{neighbour.namespace}/{neighbour.name}"
    pod = named if neighbour.name else f"a pod {UNNAMED}"
    return f"{pod}: {'; '.join(map(_part, neighbour.holds))}"


def _part(one: HoldingView) -> str:
    return f"{amount_of(1, one.milli, one.memory_bytes)} of {card_name(one.uuid, one.index)}"


def _entry(sentence: str, width: int | None) -> list[Text]:
    first, *more = wrapped(printable(sentence), None if width is None else width - 4)
    return [Text(f"  - {first}"), *(Text(f"    {text}") for text in more)]


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
_WRONG_LABEL = re.compile(
    r"label ([A-Za-z0-9_./-]+) is not known(?:; did you mean (sharedgpu/[a-z_]+))?"
)
_NEXT_PROBLEM = re.compile("; (?!did you mean )")
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
    called = (
        f" SharePods of its namespace name the GPU by the GPUID {pod.card_name}."
        if pod.card_name
        else ""
    )
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
        *((f"Perhaps not meant: {sentence}.", "yellow") for sentence in pod.unlikely),
        (ring_sentence(why.ring), ""),
    ):
        shown = wrapped(printable(sentence), width) if sentence else ()
        lines += [Text(text, style=colour) for text in shown]
    for sentence in container_lines(pod):
        lines += _item(sentence, width)
    if _is_mislabelled(pod, message):
        lines += [Text(), Text("To correct it, for example:", style="bold")]
        lines += [
            Text(f"  kubectl label pod {pod.name} -n {pod.namespace} {change} --overwrite")
            for change in _corrections(message)
        ]
    return lines


def _is_mislabelled(pod: PodView, message: str) -> bool:
    """Whether the pod is held for what its labels say."""
    return pod.state == "gated" and any(_corrections(message))


def _corrections(message: str) -> Iterator[str]:
    """What `kubectl label` is to be given, such as `sharedgpu/gpu_limit=0.5`.

    The value is the rule's last example, where it has one: of memory the one with a unit. A
    misspelt label is replaced in one command: without any label the pod would start at once, and
    without a GPU.
    """
    for problem in _NEXT_PROBLEM.split(message):
        if found := _WRONG_VALUE.match(problem):
            examples = _EXAMPLE.findall(problem, found.end())
            yield f"{found[1]}={examples[-1] if examples else 'VALUE'}"
        elif found := _WRONG_LABEL.match(problem):
            meant = f"{found[2]}=VALUE " if found[2] else ""
            yield f"{meant}{found[1]}-"


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


# `kubectl kubeshare check --now` as text: a line for each pod, and below it what would help.


_COLUMNS = (
    GridColumn(header="POD", least=16),
    GridColumn(header="ASKS FOR", least=12),
    GridColumn(header="FITS NOW"),
)
_WORDS = {True: "yes", False: "no", None: "-"}
_STYLES = {True: "green", False: "yellow", None: ""}


def prospect_lines(pods: Sequence[CheckedPod], width: int | None) -> Iterator[Text]:
    """A table, with the sentences about each pod below its row."""
    rows = [_prospect_row(pod) for pod in pods]
    header, *groups = grouped(_COLUMNS, rows, width, "WHERE, OR WHY NOT")
    yield from header if rows else ()
    for pod, lines in zip(pods, groups, strict=True):
        yield from lines
        yield from _below(pod, width)


def _prospect_row(pod: CheckedPod) -> Row:
    if pod.refused:
        refusal = "; ".join(pod.refused)
        return Row(cells=[name_of(pod), asks(pod), "refused"], style="red", flow=refusal)
    now = pod.now if pod.now is not msgspec.UNSET else CheckedProspect(None)
    return Row(
        cells=[name_of(pod), asks(pod), _WORDS[now.fits]],
        style=_STYLES[now.fits],
        flow=_place(now) if now.fits else _reason(now),
    )


def _place(now: CheckedProspect) -> str:
    indexes = now.why.indexes if now.why is not None else {}
    cards = [card_name(uuid, indexes.get(uuid, -1)) for uuid in now.cards]
    return ", ".join([now.node, *cards])


def _reason(now: CheckedProspect) -> str:
    waits_for = now.why.waits_for if now.why is not None else ""
    return f"it would wait for {waits_for}" if waits_for else now.message


def _below(pod: CheckedPod, width: int | None) -> Iterator[Text]:
    notes = pod.notes
    if pod.now is not msgspec.UNSET:
        notes += pod.now.notes
        if pod.now.why is not None and not pod.now.fits:
            yield from advice_lines(pod.now.why, width)
    for note in notes:
        yield from _indented(printable(note), width, "yellow")
    if pod.refused and pod.documentation:
        yield from _indented(printable(pod.documentation), width, "dim")


def advice_lines(why: WhyView, width: int | None) -> Iterator[Text]:
    """What would make it fit, and what preemption would do."""
    for sentence in why.advice:
        first, *more = wrapped(printable(sentence), None if width is None else width - 6)
        yield Text(f"    - {first}")
        yield from (Text(f"      {text}") for text in more)
    if why.preemption is not None:
        narrow = None if width is None else width - 4
        for line in preemption_lines(why.preemption, why.indexes, narrow):
            yield Text("    ") + line


def _indented(text: str, width: int | None, style: str) -> Iterator[Text]:
    for line in wrapped(text, None if width is None else width - 4):
        yield Text(f"    {line}", style=style)
