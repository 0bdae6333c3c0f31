"""Answers that take long, made in steps of some milliseconds.

Between steps the machine may go on, so that a question about a large cluster delays no decision.
"""

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

#: Yields after each step, and returns the answer.
Steps = Generator[None, None, T]


def completed(steps: Steps[T]) -> T:
    """The answer, with all its steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            answer: T = end.value
            return answer
