"""Runs many cases: both schedulers are asked, and their answers are compared."""

import os
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.differential import ours
from tests.differential.answers import CaseAnswer, of_oracle
from tests.differential.comparison import Difference, differences
from tests.differential.generator.cases import case
from tests.differential.intended import is_intended
from tests.differential.kube_scheduler import KubeScheduler, OracleError
from tests.differential.shrinking import shrunken

Json = dict[str, Any]

_CHUNK = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRange:
    """Cases `first` and so on of a seed, about these subjects; all if there are none."""

    seed: int
    first: int
    count: int
    subjects: tuple[str, ...] = ()


@dataclass(slots=True)
class Tally:
    """What came out of some cases. `differing` has the index of each case, and its differences."""

    counts: Counter[str] = field(default_factory=Counter)
    unsupported: Counter[str] = field(default_factory=Counter)
    #: By plugin that both schedulers have: in how many cases kube-scheduler's refused some node,
    #: or gave nodes different points.
    plugins: Counter[str] = field(default_factory=Counter)
    differing: list[tuple[int, list[Difference]]] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Add what came out of other cases."""
        self.counts += other.counts
        self.unsupported += other.unsupported
        self.plugins += other.plugins
        self.differing += other.differing

    def note(self, index: int, expected: CaseAnswer | OracleError, asked: Json) -> None:
        """Ask this scheduler too, and compare."""
        self.counts["cases"] += 1
        if isinstance(expected, OracleError):
            # Some objects make plugins fail, and their pods are not tried at all.
            self.counts["kube-scheduler fails"] += 1
            return
        found, differing = compared(asked, expected)
        if found is not None and found.unsupported:
            self.counts["not supported"] += 1
            self.unsupported.update(text.partition("[")[0] for text in found.unsupported if text)
        elif expected.feasible:
            self.counts["feasible"] += 1
        else:
            self.counts["with victims" if expected.preempted else "infeasible"] += 1
        if found is not None and not found.unsupported:
            self.plugins.update(_told(expected, found))
        if differing:
            self.differing.append((index, differing))


def _told(expected: CaseAnswer, found: CaseAnswer) -> Iterator[str]:
    """The plugins of both schedulers by which kube-scheduler told nodes apart."""
    for name in found.filters.keys() & expected.filters.keys():
        if expected.filters[name]:
            yield f"filter {name}"
    for name in found.weights.keys() & expected.scores.keys():
        if len({*expected.scores[name].values()}) > 1:
            yield f"score {name}"


def compared(asked: Json, expected: CaseAnswer) -> tuple[CaseAnswer | None, list[Difference]]:
    """This scheduler's answer, None if it raised; the differences that are not meant."""
    try:
        found = ours.answer(asked)
    except Exception as error:  # noqa: BLE001 whatever is raised is a difference
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = "".join(traceback.format_exception(error))
        return None, [Difference(f"raises {where.name} {type(error).__name__}", text)]
    differing = differences(expected, found)
    return found, [one for one in differing if not is_intended(one.kind, asked)]


def run(program: Path, cases: CaseRange) -> Tally:
    """Ask both about each of these cases."""
    indices = range(cases.first, cases.first + cases.count)
    asked = [case(cases.seed, index, cases.subjects) for index in indices]
    tally = Tally()
    with KubeScheduler(program) as oracle:
        for index, one, said in zip(indices, asked, oracle.answers(asked), strict=True):
            expected = said if isinstance(said, OracleError) else of_oracle(said)
            tally.note(index, expected, one)
    return tally


def run_all(program: Path, cases: CaseRange, jobs: int = 0) -> Iterator[Tally]:
    """The same in several processes; a tally for each part, in whatever order they end."""
    last = cases.first + cases.count
    parts = [
        CaseRange(seed=cases.seed, first=at, count=min(_CHUNK, last - at), subjects=cases.subjects)
        for at in range(cases.first, last, _CHUNK)
    ]
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        waiting = [pool.submit(run, program, part) for part in parts]
        for done in as_completed(waiting):
            yield done.result()


def all_differences(oracle: KubeScheduler, asked: Json) -> list[Difference]:
    """Ask both about one case; none if kube-scheduler fails."""
    try:
        expected = of_oracle(oracle.answer(asked))
    except OracleError:
        return []
    return compared(asked, expected)[1]


def smallest(oracle: KubeScheduler, asked: Json, kind: str) -> tuple[Json, Sequence[Difference]]:
    """The smallest case found that shows a difference of this kind, and its differences."""

    def shows(smaller: Json) -> bool:
        return any(one.kind == kind for one in all_differences(oracle, smaller))

    small = shrunken(shows, asked)
    return small, all_differences(oracle, small)
