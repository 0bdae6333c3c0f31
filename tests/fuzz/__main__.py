"""Command: `python -m tests.fuzz --inputs 1000000`, or one input of one family again."""

import argparse
import os
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from time import perf_counter

from tests.fuzz.families import FAMILIES
from tests.fuzz.family import Family
from tests.fuzz.running import chunks, named, run_all, told
from tests.fuzz.shrinking import failure_of

_PROGRESS_S = 5.0


def main() -> int:
    """0 if every answer was right, 1 if not."""
    asked = _arguments()
    if asked.index is not None:
        family = named(asked.family)
        error = failure_of(family.judge, family.input(asked.seed, asked.index))
        print(told(family, asked.seed, asked.index, error) if error else "the answer is right")
        return int(error is not None)
    print(f"seed {asked.seed} (SEED={asked.seed} repeats it), {asked.inputs} inputs", flush=True)
    chosen = [named(asked.family)] if asked.family else FAMILIES
    return _run(asked.inputs, asked.seed, asked.jobs, chosen)


def _run(inputs: int, seed: int, jobs: int, families: Sequence[Family]) -> int:
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    failures: dict[str, str] = {}
    began = said_at = perf_counter()
    for outcome in run_all(chunks(inputs, seed, families), jobs):
        counts[outcome.family] += outcome.inputs
        seconds[outcome.family] += round(outcome.seconds * 1000)
        if outcome.failure and outcome.family not in failures:
            failures[outcome.family] = outcome.failure
            print(f"\nFAILED {outcome.failure}\n", flush=True)
        if perf_counter() - said_at > _PROGRESS_S:
            said_at = perf_counter()
            print(f"{counts.total():>10} inputs in {said_at - began:.0f} s", flush=True)
    for name, count in counts.items():
        print(f"{name:<16}{count:>9} inputs {seconds[name] / 1000:>8.1f} s of CPU")
    print(f"{counts.total()} inputs in {perf_counter() - began:.0f} s: ", end="")
    print(f"failed: {', '.join(sorted(failures))}" if failures else "every answer is right")
    return int(bool(failures))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000, help="how many, over all families")
    parser.add_argument("--seed", type=int, default=None, help="a fresh one by default")
    parser.add_argument("--family", choices=[one.name for one in FAMILIES], help="only this one")
    parser.add_argument("--index", type=int, help="only this input of the family")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    asked = parser.parse_args()
    if asked.index is not None and (asked.family is None or asked.seed is None):
        parser.error("--index needs --family and --seed")
    if asked.seed is None:
        asked.seed = secrets.randbelow(2**32)
    return asked


if __name__ == "__main__":
    sys.exit(main())
