"""What a scheduler says of a case, in a form in which two schedulers can be compared."""

from dataclasses import dataclass, field
from typing import Any

#: The reasons of one plugin, sorted, and whether evictions could help against all of them.
Refusal = tuple[tuple[str, ...], bool]
#: The nodes that one plugin refuses.
Refusals = dict[str, Refusal]


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A node, and the pods (namespace/name) that would be evicted there, most important first."""

    node: str
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswer:
    """`filters` and `scores` are by plugin; a plugin that is missing was not asked.

    `scores` are normalised and of feasible nodes. `chosen` are the nodes that the scheduler may
    bind the pod to, `preempted` the candidates of which it may take any. `message` is that of the
    condition of a pod that fits nowhere. `unsupported` are fields of the pod for which it waits,
    whatever the cluster is like. `is_complete`: every plugin said what it thinks.
    """

    nodes: frozenset[str]
    filters: dict[str, Refusals] = field(default_factory=dict)
    feasible: frozenset[str] = frozenset()
    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    weights: dict[str, int] = field(default_factory=dict)
    chosen: frozenset[str] = frozenset()
    preempted: tuple[Candidate, ...] = ()
    message: str = ""
    unsupported: tuple[str, ...] = ()
    is_complete: bool = True


_RESOLVABLE, _ERROR = "Unschedulable", "Error"


def of_oracle(said: dict[str, Any]) -> CaseAnswer:
    """The oracle's answer.

    If PreFilters refuse the pod, the first of them ends the cycle: its plugin refuses it on every
    node, and of the others nothing is known.
    """
    nodes = frozenset(said["filters"])
    filters = {name: _of_plugin(said, name) for name in _asked(said)}
    refusing = said.get("refusing", ())
    if refusing:
        first = refusing[0]
        filters = {first: dict.fromkeys(nodes, _refusal(said["preFilters"][first]))}
    scores = said.get("scores", {})
    nominated = said.get("nominated", ())
    return CaseAnswer(
        nodes=nodes,
        filters=filters,
        is_complete=not refusing,
        feasible=frozenset(said["feasible"]),
        scores={name: given["normalised"] for name, given in scores.items()},
        weights={name: given["weight"] for name, given in scores.items()},
        chosen=frozenset(said.get("best", ())),
        preempted=tuple(
            Candidate(node=one["node"], victims=tuple(one["victims"]))
            for one in said.get("candidates", ())
            if one["node"] in nominated
        ),
        message=said.get("message", ""),
    )


def _asked(said: dict[str, Any]) -> set[str]:
    """Plugins that refuse some node, less those that failed, for which no pod is tried at all."""
    verdicts = [one for by_plugin in said["filters"].values() for one in by_plugin.items()]
    failed = {name for name, verdict in verdicts if verdict["code"] == _ERROR}
    return {name for name, _ in verdicts} - failed


def _of_plugin(said: dict[str, Any], name: str) -> Refusals:
    """The plugin's filter is not asked about nodes that its PreFilter left out."""
    found = {node: by_plugin.get(name) for node, by_plugin in said["filters"].items()}
    refusals = {node: _refusal(verdict) for node, verdict in found.items() if verdict}
    narrowed = said.get("narrowed", {})
    if name in narrowed:
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}]"
        refusals |= dict.fromkeys(found.keys() - set(narrowed[name]), ((text,), False))
    return refusals


def _refusal(verdict: dict[str, Any]) -> Refusal:
    return tuple(sorted(verdict.get("reasons", ()))), verdict["code"] == _RESOLVABLE
