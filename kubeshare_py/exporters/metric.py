"""A metric's description; the documentation is generated from it, too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """`kind` is gauge, counter or histogram. Counters are called …_total."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
