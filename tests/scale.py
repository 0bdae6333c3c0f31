"""How much tests with random input try: one factor for examples, histories and storms.

`pytest --scale small`, the default, tries a twentieth of what `--scale full` tries; `--scale 10`
tries ten times as much as full. The examples, histories and storms are the same ones in each run,
unless `--hypothesis-seed N` chooses others, the same ones for the same N. `make prove` runs at full
scale with a fresh N, which it prints.
"""

import math
from dataclasses import dataclass
from random import Random

from hypothesis import settings

DEFAULT = "small"
_FACTORS = {DEFAULT: 0.05, "full": 1.0}
#: With fewer, Hypothesis hardly leaves the simplest values.
_MIN_EXAMPLES = 10
#: Of property tests that do not say how many examples they try; most of them cost little.
_EXAMPLES, _MIN_UNSAID = 100, 20


@dataclass(frozen=True, slots=True)
class Scale:
    """`factor` is 1.0 at full scale; without a seed, the random input is the same in each run."""

    factor: float
    seed: int | None = None

    def scaled(self, full: int, least: int = 1) -> int:
        """Scale a number of things to try; the result is at least `least`, if `full` is."""
        return max(min(least, full), round(full * self.factor))

    def seeds(self, full: int, first: int = 0) -> list[int]:
        """Seeds of random histories: `first` and the next ones, or those that `seed` stands for."""
        count = self.scaled(full)
        if self.seed is None:
            return [*range(first, first + count)]
        return Random(f"{self.seed} {first}").sample(range(2**32), count)


_chosen = [Scale(_FACTORS[DEFAULT])]


def parse(scale: str, seed: str | int | None) -> Scale:
    """Read the values of `--scale` and `--hypothesis-seed`. Raises ValueError for a wrong one."""
    factor = _FACTORS.get(scale) or float(scale)
    if not 0 < factor < math.inf:
        raise ValueError(f"--scale {scale}: neither small nor full nor a positive number")
    return Scale(factor, None if seed is None else int(seed))


def choose(scale: Scale, *, repeatable: bool) -> None:
    """Set the scale of this process, before any test module is imported."""
    _chosen[:] = [scale]
    # Any example is slow on a busy machine, so none has a deadline.
    number = scaled(_EXAMPLES, _MIN_UNSAID)
    settings.register_profile("scaled", max_examples=number, deadline=None, derandomize=repeatable)
    settings.load_profile("scaled")


def is_full() -> bool:
    """Whether nothing is left out."""
    return _chosen[0].factor >= 1


def scaled(full: int, least: int = 1) -> int:
    """Scale a number of things to try; the result is at least `least`, if `full` is."""
    return _chosen[0].scaled(full, least)


def examples(full: int) -> settings:
    """Settings of a property test that tries `full` examples at full scale."""
    return settings(max_examples=scaled(full, _MIN_EXAMPLES))


def seeds(full: int, first: int = 0) -> list[int]:
    """Seeds of random histories, `full` of them at full scale."""
    return _chosen[0].seeds(full, first)
