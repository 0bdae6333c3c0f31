"""A pod's containers in words, where they have GPUs of their own."""

from collections.abc import Iterable, Iterator, Sequence

from kubeshare_py.terminal.amounts import claim_of, held
from kubeshare_py.terminal.cards import card_name
from kubeshare_py.views.holding import ContainerView, container_words
from kubeshare_py.views.view import PodView

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
