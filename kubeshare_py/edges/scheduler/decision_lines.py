"""What the log says of each effect of the scheduler: one line, as fields.

Apart from the log itself, because effects bring in the values of the whole domain, which programs
that decide nothing do not need: a tenth of a second of CPU at their start.
"""

import dataclasses
import logging
from typing import assert_never

from kubeshare_py.domain.effects import (
    AnswerBind,
    Bind,
    CardChange,
    Effect,
    Evict,
    Lingers,
    LogPluginFailure,
    Nominate,
    Overuse,
    Preempt,
    ReportCardChange,
    ReportOvercommit,
    ReportPodWarning,
    ReportScheduled,
    ReportWaiting,
    WriteObject,
)
from kubeshare_py.domain.storage import ObjectWrite
from kubeshare_py.edges.process.decision_log import decision, inform, warn

_OVERUSE = {
    Overuse.AMOUNT: "overcommit",
    Overuse.EXCLUSIVITY: "broken exclusivity",
    Overuse.PORT: "shared port",
    Overuse.CLAIM: "disputed cards",
    Overuse.AGENT: "unusable node agent",
}


def decided(effect: Effect, **about: object) -> None:
    """Log a decision about a pod; `about` are further fields (profile, cycle, duration)."""
    match effect:
        case Bind():
            _line("bind", effect, {**_placement(effect), **about})
        case Evict():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            warn("evict", **pod, reason=effect.reason, message=effect.message, **about)
        case Nominate():
            _line("nominate", effect, {"node": effect.node, "cards": effect.cards, **about})
        case Preempt():
            _preempt(effect, about)
        case ReportWaiting():
            _line("waiting", effect, {"reason": effect.diagnosis.message, **about})
        case ReportScheduled():
            # Not a decision: the API server stored the one that was logged.
            _line("bound", effect, {"node": effect.node, **about}, logging.DEBUG)
        case ReportPodWarning():
            pod = {"pod": str(effect.key), "uid": effect.uid}
            warn("pod warning", **pod, reason=effect.warning, message=effect.note, **about)
        case ReportOvercommit() | ReportCardChange():
            _of_node(effect, **about)
        case WriteObject() | AnswerBind() | Lingers() | LogPluginFailure():
            _for_the_log(effect, **about)
        case _:
            assert_never(effect)


def _fields_of(write: ObjectWrite) -> dict[str, str]:
    """The kind of a write, and its fields."""
    named = {one.name: getattr(write, one.name) for one in dataclasses.fields(write)}
    return {"write": type(write).__name__, **named}


def _placement(bind: Bind) -> dict[str, object]:
    """Node, cards and token; the cards of each container where they differ."""
    held = bind.allocation
    fields: dict[str, object] = {
        "node": bind.node,
        "cards": [card.uuid for card in held.cards],
        "token": held.token,
    }
    if held.claims:
        fields["containers"] = {
            str(part.container): [card.uuid for card in part.cards] for part in held.containers
        }
    return fields


def _for_the_log(
    effect: WriteObject | AnswerBind | Lingers | LogPluginFailure, **about: object
) -> None:
    if isinstance(effect, AnswerBind):
        answer = {"node": effect.node, "reason": effect.problem, **about}
        _line("extender", effect, answer, logging.INFO if effect.problem else logging.DEBUG)
        return
    if isinstance(effect, WriteObject):
        _line("write", effect, {"object": _fields_of(effect.write), **about})
        return
    if isinstance(effect, Lingers):
        held = {"node": effect.node, "cards": effect.cards, "for_s": round(effect.for_s, 3)}
        warn("forced deletion", pod=str(effect.key), uid=effect.uid, **held, **about)
        return
    warn(
        "plugin failed",
        plugin=effect.plugin,
        extension_point=effect.extension_point,
        message=effect.message,
        times=effect.times,
        traceback=effect.traceback,
        **about,
    )


def _of_node(effect: ReportOvercommit | ReportCardChange, **about: object) -> None:
    if isinstance(effect, ReportCardChange):
        is_bad = effect.change in (CardChange.FAILED, CardChange.VANISHED)
        pods = [str(key) for key, _ in effect.pods]
        held = {"change": effect.change, "card": effect.uuid, "message": effect.card, "pods": pods}
        (warn if is_bad else inform)("card", node=effect.node, **held, **about)
        return
    event, log = _OVERUSE[effect.kind], warn
    if not effect.is_over:
        event, log = f"{event} ended", inform
    which = {"card": effect.uuid} if effect.port is None else {"port": effect.port}
    log(event, node=effect.node, **which, message=effect.note, **about)


def _preempt(effect: Preempt, about: dict[str, object]) -> None:
    plan = effect.plan
    fields: dict[str, object] = {
        "victims": [str(victim.key) for victim in plan.victims],
        "victim_uids": [victim.uid for victim in plan.victims],
        "violations": plan.violations,
        **about,
    }
    if plan.victims:
        warn("preempt", pod=str(effect.key), uid=effect.uid, **fields)
    else:
        _line("preempt", effect, fields)


def _line(
    event: str,
    effect: (
        Bind | WriteObject | Nominate | Preempt | AnswerBind | ReportWaiting | ReportScheduled
    ),
    fields: dict[str, object],
    level: int = logging.INFO,
) -> None:
    decision(event, effect.key, effect.uid, fields, level)
