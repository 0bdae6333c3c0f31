"""Where two answers to a case differ."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.differential.answers import CaseAnswer, Refusal


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind` tells differences of one cause from others: filter TaintToleration, victims."""

    kind: str
    text: str


def differences(expected: CaseAnswer, found: CaseAnswer) -> list[Difference]:
    """All differences; none where this scheduler says that it does not support the pod."""
    if found.unsupported:
        return []
    return [one for check in _CHECKS for one in check(expected, found)]


def _nodes(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    if expected.nodes != found.nodes:
        yield Difference("nodes", f"{sorted(found.nodes)}, not {sorted(expected.nodes)}")


def _filters(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    for plugin, ours in found.filters.items():
        if not expected.is_complete and plugin not in expected.filters:
            continue
        theirs = expected.filters.get(plugin, {})
        for node in sorted(expected.nodes & found.nodes):
            right, said = theirs.get(node), ours.get(node)
            if right != said:
                text = f"{node}: {_said(said)}, not {_said(right)}"
                yield Difference(f"filter {plugin}", text)


def _said(refusal: Refusal | None) -> str:
    if refusal is None:
        return "fits"
    texts, resolvable = refusal
    return f"{', '.join(texts)}{'' if resolvable else ' (whatever is evicted)'}"


def _feasible(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    """Only if all plugins that object are there; `_filters` names the others."""
    if expected.filters.keys() <= found.filters.keys() and expected.feasible != found.feasible:
        text = f"{sorted(found.feasible)}, not {sorted(expected.feasible)}"
        yield Difference("feasible", text)


def _scores(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    """A plugin that gives every node the same says as little as one that is not asked."""
    if expected.feasible != found.feasible:
        return
    for plugin in sorted(found.weights):
        ours, theirs = found.scores.get(plugin, {}), expected.scores.get(plugin, {})
        if ours != theirs and (len({*ours.values()}) > 1 or len({*theirs.values()}) > 1):
            yield Difference(f"score {plugin}", f"{ours}, not {theirs}")


def _outcome(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    """The chosen node is among the best by the scores that are there."""
    if expected.feasible != found.feasible:
        return
    totals = {
        node: sum(
            weight * expected.scores.get(plugin, {}).get(node, 0)
            for plugin, weight in found.weights.items()
        )
        for node in expected.feasible
    }
    best = {node for node, total in totals.items() if total == max(totals.values())}
    if not (found.chosen <= best and bool(found.chosen) == bool(best)):
        yield Difference("outcome", f"{sorted(found.chosen)}, not one of {sorted(best)}: {totals}")


def _victims(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    """Where the nodes' reasons are the same."""
    if expected.feasible or found.feasible or not expected.filters.keys() <= found.filters.keys():
        return
    allowed = {one.node: {*one.victims} for one in expected.preempted}
    if not allowed and not found.preempted:
        return
    if not any({*one.victims} == allowed.get(one.node) for one in found.preempted):
        ours = [(one.node, one.victims) for one in found.preempted]
        theirs = [(one.node, one.victims) for one in expected.preempted]
        yield Difference("victims", f"{ours}, not one of {theirs}")


def _message(expected: CaseAnswer, found: CaseAnswer) -> Iterator[Difference]:
    """The condition's message of a pod that fits nowhere.

    If a PreFilter refuses the pod before that of DynamicResources, kube-scheduler adds "not found",
    which is an error of that plugin's PostFilter.
    """
    if expected.feasible or found.feasible:
        return
    right = expected.message
    if not expected.is_complete:
        right = right.removesuffix(" not found")
    if found.message != right:
        yield Difference("message", f"{found.message!r}, not {right!r}")


_CHECKS: tuple[Callable[[CaseAnswer, CaseAnswer], Iterator[Difference]], ...] = (
    *(_nodes, _filters, _feasible, _scores, _outcome, _victims, _message),
)
