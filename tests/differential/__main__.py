"""Compare this scheduler with kube-scheduler's plugins: python -m tests.differential --cases 1000.

Each case is a small cluster and a pod. Both are asked, plugin by plugin and node by node: which
nodes fit and why others do not, the scores, the chosen node, and which pods would be evicted.
"""

import argparse
import json
import os
import secrets
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter

from tests.controlplane.build import NOT_RUN, NoGo
from tests.differential.generator.cases import SUBJECTS, case
from tests.differential.kube_scheduler import Json, KubeScheduler, built
from tests.differential.recorded_cases import record
from tests.differential.running import CaseRange, Tally, all_differences, run_all, smallest

_PROGRESS_S = 5.0
#: Kinds of differences of which the smallest case is printed.
_SHOWN = 12


def main() -> int:
    """0 without differences, 1 with some, 3 if the oracle cannot be built."""
    asked = _arguments()
    try:
        program = built()
    except NoGo as error:
        print(f"not run: {error}", file=sys.stderr)
        return NOT_RUN
    subjects = tuple(asked.about or ())
    if asked.case is not None:
        return _one(program, asked, subjects)
    if asked.first:
        return _first(program, asked, subjects)
    print(f"seed {asked.seed} (SEED={asked.seed} repeats it), {asked.cases} cases", flush=True)
    cases = CaseRange(seed=asked.seed, first=0, count=asked.cases, subjects=subjects)
    tally = _run(program, cases, asked.jobs)
    return int(bool(tally.differing))


def _one(program: Path, asked: argparse.Namespace, subjects: tuple[str, ...]) -> int:
    wanted = case(asked.seed, asked.case, subjects)
    with KubeScheduler(program) as oracle:
        found = all_differences(oracle, wanted)
        if found:
            small = _show(oracle, asked.seed, asked.case, subjects, found[0].kind)
            wanted = small
        if asked.record:
            print(f"written: {record(asked.record, wanted, oracle.answer(wanted))}")
    print("" if found else "both say the same")
    return int(bool(found))


def _first(program: Path, asked: argparse.Namespace, subjects: tuple[str, ...]) -> int:
    """Stop at the first case that differs."""
    with KubeScheduler(program) as oracle:
        for index in range(asked.cases):
            found = all_differences(oracle, case(asked.seed, index, subjects))
            if found:
                print(f"differs: case {index}: {found[0].kind}: {found[0].text}")
                return 1
    return 0


def _run(program: Path, cases: CaseRange, jobs: int) -> Tally:
    total = Tally()
    began = said_at = perf_counter()
    for tally in run_all(program, cases, jobs):
        total.add(tally)
        if perf_counter() - said_at > _PROGRESS_S:
            said_at = perf_counter()
            done, differing = total.counts["cases"], len(total.differing)
            print(f"{done:>8} cases, {differing} differ, {said_at - began:.0f} s", flush=True)
    _show_all(program, cases, total)
    for name, count in total.counts.most_common():
        print(f"{count:>8} {name}")
    for field, count in total.unsupported.most_common():
        print(f"{count:>8} not supported: {field}")
    for plugin, count in sorted(total.plugins.items()):
        print(f"{count:>8} compared: {plugin}")
    print(f"{len(total.differing)} of {total.counts['cases']} cases differ", end="")
    print(f", {perf_counter() - began:.0f} s")
    return total


def _show_all(program: Path, cases: CaseRange, total: Tally) -> None:
    kinds: Counter[str] = Counter()
    first: dict[str, int] = {}
    for index, found in sorted(total.differing, key=lambda one: one[0]):
        for kind in dict.fromkeys(one.kind for one in found):
            kinds[kind] += 1
            first.setdefault(kind, index)
    with KubeScheduler(program) as oracle:
        for kind, count in kinds.most_common(_SHOWN):
            print(f"\n{kind}: {count} cases")
            _show(oracle, cases.seed, first[kind], cases.subjects, kind)


def _show(
    oracle: KubeScheduler, seed: int, index: int, subjects: tuple[str, ...], kind: str
) -> Json:
    """The smallest case that differs so, how, and the command that repeats it."""
    small, found = smallest(oracle, case(seed, index, subjects), kind)
    for one in found:
        print(f"  {one.kind}: {one.text}")
    print(f"  smallest: {json.dumps(small)}")
    about = "".join(f" --about {subject}" for subject in subjects)
    print(f"  again: python -m tests.differential --seed {seed} --case {index}{about}", flush=True)
    return small


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--cases", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=None, help="a fresh one by default")
    parser.add_argument("--case", type=int, help="only this one of the seed")
    parser.add_argument(
        "--about", action="append", choices=[*SUBJECTS], help="only about these subjects"
    )
    parser.add_argument("--first", action="store_true", help="stop at the first difference")
    parser.add_argument("--record", metavar="NAME", help="keep the case as a test of this name")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    asked = parser.parse_args()
    if asked.case is not None and asked.seed is None:
        parser.error("--case needs --seed")
    if asked.seed is None:
        asked.seed = secrets.randbelow(2**32)
    return asked


if __name__ == "__main__":
    sys.exit(main())
