"""Runs families: which inputs, in which process, and what is said of one that fails."""

import os
import re
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from time import process_time

from tests.fuzz.families import FAMILIES
from tests.fuzz.family import Family
from tests.fuzz.shrinking import failure_of, shrunken

#: CPU seconds that judging one input may take. A cells file of a million cells, which its reader
#: allows, takes some.
MAX_S = 30.0
_CHUNK = 500
_MAX_SHOWN = 3000
_RUN = re.compile(r"(.{1,12}?)\1{40,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some inputs of one family."""

    family: str
    seed: int
    first: int
    inputs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How many inputs were judged in how many CPU seconds, and the first failure, "" for none."""

    family: str
    inputs: int
    seconds: float
    failure: str = ""


def chunks(inputs: int, seed: int, families: Sequence[Family] = FAMILIES) -> list[Chunk]:
    """So many inputs, spread over the families by their shares."""
    total = sum(family.share for family in families)
    made = []
    for family in families:
        count = max(1, round(inputs * family.share / total))
        made += [
            Chunk(family=family.name, seed=seed, first=at, inputs=min(_CHUNK, count - at))
            for at in range(0, count, _CHUNK)
        ]
    return made


def run(chunk: Chunk) -> Outcome:
    """Judge the inputs of a chunk, up to the first failure."""
    family = named(chunk.family)
    began = process_time()
    done, at = 0, chunk.first
    while done < chunk.inputs:
        given = family.input(chunk.seed, at)
        started = process_time()
        error = failure_of(family.judge, given)
        took = process_time() - started
        if error is None and took > MAX_S:
            error = AssertionError(f"judging it took {took:.1f} s of CPU")
        done += len(given) if family.is_history else 1
        if error is not None:
            failure = told(family, chunk.seed, at, error)
            seconds = process_time() - began
            return Outcome(family=family.name, inputs=done, seconds=seconds, failure=failure)
        at += 1
    return Outcome(family=family.name, inputs=done, seconds=process_time() - began)


def run_all(work: Sequence[Chunk], jobs: int = 0) -> Iterator[Outcome]:
    """The same for many, in several processes, in whatever order they end."""
    with ProcessPoolExecutor(jobs or os.cpu_count()) as pool:
        waiting = [pool.submit(run, chunk) for chunk in work]
        for done in as_completed(waiting):
            yield done.result()


def named(name: str) -> Family:
    """A family by its name."""
    return next(family for family in FAMILIES if family.name == name)


def told(family: Family, seed: int, index: int, error: Exception) -> str:
    """Which input failed, how to try it again, and the smallest that fails like it."""
    small = shrunken(family.judge, family.input(seed, index))
    shown = _RUN.sub(lambda found: f"{found[1]}…{len(found[0])} times…", repr(small))
    if len(shown) > _MAX_SHOWN:
        shown = f"{shown[:_MAX_SHOWN]}… ({len(shown)} characters)"
    trace = "".join(traceback.format_exception(error))[-_MAX_SHOWN:]
    repeat = f"python -m tests.fuzz --family {family.name} --seed {seed} --index {index}"
    return f"{family.name}, seed {seed}, index {index}\n{trace}\nsmallest: {shown}\nagain: {repeat}"
