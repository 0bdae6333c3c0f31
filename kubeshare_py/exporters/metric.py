"""What is known of a metric before it has a value: the documentation is generated from this too."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """`kind` is gauge, counter or histogram. Counters are called …_total."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
