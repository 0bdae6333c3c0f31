"""What a test of kube-scheduler expects, and whether an answer is that."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.differential.answers import CaseAnswer, Refusals


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """None is what the test says nothing about.

    `refuses`, `scores` and `best` are of one plugin: the nodes that it refuses, all others fit;
    points from 0 to 100; the nodes to which it gives most. `fits` are the nodes on which all
    plugins agree. `preempts` are the nodes of which one is taken, with the victims there.
    """

    plugin: str = ""
    refuses: Refusals | None = None
    fits: frozenset[str] | None = None
    scores: Mapping[str, int] | None = None
    best: frozenset[str] | None = None
    preempts: Mapping[str, frozenset[str]] | None = None
    message: str | None = None

    def contradictions(self, answer: CaseAnswer) -> list[str]:
        """In what the answer is another one; empty if it is as expected."""
        if answer.unsupported:
            return [f"not supported: {answer.unsupported}"]
        return [*self._of_plugin(answer), *self._of_all(answer)]

    def _of_plugin(self, answer: CaseAnswer) -> Iterator[str]:
        refused = answer.filters.get(self.plugin, {})
        # If a PreFilter of another plugin has ended the cycle, of this one nothing is known.
        is_known = answer.is_complete or self.plugin in answer.filters
        if self.refuses is not None and is_known and refused != self.refuses:
            yield f"{self.plugin} refuses {refused}, not {self.refuses}"
        scores = answer.scores.get(self.plugin, {})
        if self.scores is not None and not _says_the_same(scores, self.scores):
            yield f"{self.plugin} gives {scores}, not {dict(self.scores)}"
        points = dict.fromkeys(answer.feasible, 0) | scores
        best = {node for node, given in points.items() if given == max(points.values())}
        if self.best is not None and best != self.best:
            yield f"{self.plugin} gives most to {sorted(best)}, not {sorted(self.best)}"

    def _of_all(self, answer: CaseAnswer) -> Iterator[str]:
        if self.fits is not None and answer.feasible != self.fits:
            yield f"{sorted(answer.feasible)} fit, not {sorted(self.fits)}"
        taken = {one.node: frozenset(one.victims) for one in answer.preempted}
        if self.preempts is not None and not (
            taken.items() <= self.preempts.items() and bool(taken) == bool(self.preempts)
        ):
            yield f"{taken} are evicted, not one of {dict(self.preempts)}"
        if self.message is not None and answer.message != self.message:
            yield f"the message is {answer.message!r}, not {self.message!r}"


def _says_the_same(found: Mapping[str, int], expected: Mapping[str, int]) -> bool:
    """A plugin that gives every node the same says as little as one that is not asked."""
    return found == expected or (len({*found.values()}) < 2 and len({*expected.values()}) < 2)
