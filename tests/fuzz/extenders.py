"""Requests of kube-scheduler to its extender, as bytes, and what a machine answers to them."""

import json
from functools import cache
from random import Random
from typing import Any

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.effects import AnswerBind, Bind
from kubeshare_py.manifests.extender import (
    BadExtenderRequest,
    bind_result,
    filter_result,
    priorities,
    read_bind,
    read_question,
)
from kubeshare_py.scheduling.explain.extender_answers import filtered, scored
from tests.fuzz import odd
from tests.fuzz.family import Family, said
from tests.making import Driver, a_claim, a_pod, a_shape

_NAME = "theirs"
_KEYS = ("Pod", "NodeNames", "Nodes", "PodName", "PodUID", "items", "spec", "schedulerName")


@cache
def _driver() -> Driver:
    """Two nodes with a card each, and a pod of kube-scheduler."""
    driver = Driver(
        {"n1": 1, "n2": 1}, {"profiles": [{}, {"schedulerName": _NAME, "extender": True}]}
    )
    driver.seen(a_pod("p", a_shape(a_claim(500)), scheduler_name=_NAME))
    return driver


def _question(rng: Random) -> Any:
    labels = {"sharedgpu/gpu_request": "0.5", "sharedgpu/gpu_limit": "1.0"}
    metadata = {"name": "p", "namespace": "default", "uid": "uid-p", "labels": labels}
    pod = {"metadata": metadata, "spec": {"schedulerName": _NAME, "containers": [{"name": "c"}]}}
    names = ["n1", "n2", "n9"]
    nodes = {"items": [{"metadata": {"name": name}} for name in names]}
    by_name = rng.random() < 0.5
    return {
        "Pod": pod,
        "Nodes": None if by_name else nodes,
        "NodeNames": names if by_name else None,
    }


def _odd(rng: Random) -> bytes:
    bind = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "n1"}
    made = odd.changed(rng, _question(rng) if rng.random() < 0.7 else bind, _KEYS)
    written = odd.as_bytes(made)
    return odd.broken(rng, written) if rng.random() < 0.2 else written


def judge(body: bytes) -> None:
    """A request is answered as Go reads it, or refused in a sentence; questions change nothing."""
    driver = _driver()
    machine = driver.machine
    try:
        question = read_question(body, SHAREDGPU_ALONE)
    except BadExtenderRequest as error:
        said(str(error))
    else:
        changes = machine.changes
        answer = filtered(machine, question.pod, question.names)
        written = json.loads(filter_result(question, answer.fitting, answer.failed, answer.problem))
        names = {*answer.fitting} | {name for name, _ in answer.failed}
        assert answer.problem or names == {*question.names}
        assert written["Error"] == "" or written["FailedAndUnresolvableNodes"] == {}
        scores = scored(machine, question.pod, question.names)
        assert all(0 <= one["Score"] <= 10 for one in json.loads(priorities(scores)))
        assert machine.changes == changes
    try:
        asked = read_bind(body)
    except BadExtenderRequest as error:
        said(str(error))
        return
    for effect in driver.tell(asked):
        assert isinstance(effect, Bind | AnswerBind)
        if isinstance(effect, AnswerBind):
            assert len(json.loads(bind_result(effect.problem))["Error"]) == len(effect.problem)


FAMILIES = (Family(name="extender requests", make=_odd, judge=judge, share=1),)
