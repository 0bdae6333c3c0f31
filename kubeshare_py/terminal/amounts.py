"""Amounts in words for people: `0.5` of a GPU, `20.0 GiB`. Integers in, no floats between."""

from collections import Counter
from collections.abc import Iterable, Iterator

from kubeshare_py.domain.gpu import WHOLE_MILLI
from kubeshare_py.views.holding import ContainerView
from kubeshare_py.views.view import PodView

GIB = 1 << 30
MIB = 1 << 20
KIB = 1 << 10
_RELATIONS = {"same card": "the same cards", "different cards": "different cards"}


def gpus(milli: int) -> str:
    """Thousandths of a GPU as a decimal number with at least one place: 500 is `0.5`."""
    whole, rest = divmod(abs(milli), WHOLE_MILLI)
    places = f"{rest:03d}".rstrip("0") or "0"
    return f"{'-' if milli < 0 else ''}{whole}.{places}"


def gpu_count(milli: int) -> str:
    """Thousandths of a GPU as a number of cards, as nodes are counted: `4`, `2.5`, `28,320`."""
    whole, rest = divmod(abs(milli), WHOLE_MILLI)
    places = f".{rest:03d}".rstrip("0") if rest else ""
    return f"{'-' if milli < 0 else ''}{whole:,}{places}"


def rounded_gib(amount: int) -> str:
    """A card's size in whole GiB, as its name has it: `40 GiB`; a smaller one exactly."""
    return f"{(amount + GIB // 2) // GIB} GiB" if amount >= GIB else memory(amount)


def gib(amount: int) -> str:
    """Bytes as GiB with one place, rounded to the nearest: 20 GiB is `20.0`."""
    tenths = (abs(amount) * 10 + GIB // 2) // GIB
    sign = "-" if amount < 0 and tenths else ""
    return f"{sign}{tenths // 10}.{tenths % 10}"


def memory(amount: int) -> str:
    """Bytes with their unit; less than a GiB in MiB, less than a MiB in bytes."""
    size = abs(amount)
    if size >= GIB or not size:
        return f"{gib(amount)} GiB"
    if size >= MIB:
        return f"{_rounded(amount, MIB)} MiB"
    return f"{amount} B"


def memory_pair(asked: int, free: int) -> tuple[str, str]:
    """Both amounts in one unit, fine enough to show their difference."""
    if asked == free:
        return memory(asked), memory(free)
    return next(pair for pair in _pairs(asked, free) if pair[0] != pair[1])


def percent(used: int, total: int) -> int:
    """The used part in percent, rounded down; 0 if there is nothing."""
    return used * 100 // total if total > 0 else 0


def asks(pod: PodView) -> str:
    """What a pod asks for: `0.5 GPU, 20.0 GiB`, or of containers `0.5 GPU + 2 times 1.0 GPU`."""
    return _together(map(_claim, _asking(pod)), pod) or _claim(pod)


def asks_of(pod: PodView) -> str:
    """The same with the accepted models: `0.5 GPU on Tesla-T4`."""
    return _together(map(claim_of, _asking(pod)), pod) or claim_of(pod)


def claim_of(one: PodView | ContainerView) -> str:
    """One claim, per card if it is for several, with the accepted models."""
    return f"{_claim(one)} on {' or '.join(one.models)}" if one.models else _claim(one)


def relation(pod: PodView) -> str:
    """How its containers' cards relate: `, on different cards`; "" if that does not matter."""
    return f", on {_RELATIONS[pod.relation]}" if pod.relation in _RELATIONS else ""


def _asking(pod: PodView) -> list[ContainerView]:
    return [one for one in pod.containers if one.count]


def _together(claims: Iterable[str], pod: PodView) -> str:
    """The claims of containers, alike ones counted; "" for none."""
    counts = Counter(claims)
    parts = [f"{count} times {claim}" if count > 1 else claim for claim, count in counts.items()]
    return f"{' + '.join(parts)}{relation(pod)}" if parts else ""


def _claim(one: PodView | ContainerView) -> str:
    if not one.count:
        return "no GPU"
    if not one.milli and one.memory_bytes is not None:
        of_each = f"{memory(one.memory_bytes)} of "
        return f"{of_each}{'a card' if one.count == 1 else f'each of {one.count} cards'}"
    if one.count == 1:
        text = f"{gpus(one.milli)} GPU"
    elif one.milli == WHOLE_MILLI:
        text = f"{one.count} GPUs"
    else:
        text = f"{one.count} x {gpus(one.milli)} GPU"
    if one.share_of:
        text = f"{gpus(one.milli)} of one {one.share_of}"
    if one.memory_bytes is not None:
        text += f", {memory(one.memory_bytes)}" + (" each" if one.count > 1 else "")
    if one.memory_milli is not None:
        text += f", {one.memory_milli / 10:g}% of its memory"
    return text


def held(pod: PodView | ContainerView) -> str:
    """What it holds, summed over its cards if they differ: `0.5 GPU, 20.0 GiB`."""
    parts = pod.holds
    if not parts:
        return ""
    first = parts[0]
    if all((one.milli, one.memory_bytes) == (first.milli, first.memory_bytes) for one in parts):
        return amount_of(len(parts), first.milli, first.memory_bytes)
    share, memory_bytes = (sum(one.milli for one in parts), sum(one.memory_bytes for one in parts))
    return f"{gpus(share)} GPU, {memory(memory_bytes)} of {counted(len(parts), 'card')}"


def amount_of(count: int, milli: int, memory_bytes: int) -> str:
    """A number of cards, and the amount of each: `2 GPUs, 40.0 GiB each`."""
    if not milli:
        return f"{memory(memory_bytes)}{' each' if count > 1 else ''}"
    if count == 1:
        return f"{gpus(milli)} GPU, {memory(memory_bytes)}"
    share = f"{count} GPUs" if milli == WHOLE_MILLI else f"{count} x {gpus(milli)} GPU"
    return f"{share}, {memory(memory_bytes)} each"


def without_share(pod: PodView) -> str:
    """That the pod has a part of a card's memory alone, as the rest of a sentence; else ""."""
    is_memory = pod.count and not pod.milli and pod.memory_bytes is not None
    return ", no share of its time" if is_memory and not pod.containers else ""


def is_unclear(pod: PodView) -> bool:
    """Whether its request may not have been understood: it is held and asks for nothing."""
    return pod.state == "gated" and not pod.count


def counted(count: int, thing: str) -> str:
    """A number and its noun: `1 node`, `5,000 nodes`."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _pairs(asked: int, free: int) -> Iterator[tuple[str, str]]:
    if max(abs(asked), abs(free)) >= GIB:
        yield f"{gib(asked)} GiB", f"{gib(free)} GiB"
    for size, unit in ((MIB, "MiB"), (KIB, "KiB"), (1, "B")):
        yield f"{_rounded(asked, size)} {unit}", f"{_rounded(free, size)} {unit}"


def _rounded(amount: int, unit: int) -> int:
    size = (abs(amount) + unit // 2) // unit
    return -size if amount < 0 else size
