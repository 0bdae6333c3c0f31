"""Pods that do not exist, as clients send them in PlacementReviews, and what becomes of them."""

import json
from random import Random
from typing import Any

from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE
from kubeshare_py.domain.effects import Bind
from kubeshare_py.domain.events import BindSlotsFree, PodSeen
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.manifests.client_pods import BadReview, read_review, reviewed
from kubeshare_py.scheduling.explain.prospects import prospect_steps
from kubeshare_py.scheduling.explain.question import completed
from tests.fuzz import odd
from tests.fuzz.family import Family, said
from tests.making import Driver, a_claim, a_pod, a_shape

_KEYS = ("pod", "spec", "metadata", "schedulerName", "priority", "nodeName", "namespace", "labels")


def _review(rng: Random) -> Any:
    share = rng.choice(["0.3", "0.5", "0.8", "1.0", "2.0"])
    labels = {"sharedgpu/gpu_request": share, "sharedgpu/gpu_limit": "2.0"}
    spec = {
        "schedulerName": "kubeshare-scheduler",
        "priority": rng.choice([0, 0, 100]),
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
    }
    pod = {"metadata": {"name": "p", "namespace": "default", "labels": labels}, "spec": spec}
    return {"kind": "PlacementReview", "apiVersion": "state.kubeshare.io/v1", "spec": {"pod": pod}}


def _odd(rng: Random) -> bytes:
    made = _review(rng)
    if rng.random() < 0.9:
        made = odd.changed(rng, made, _KEYS)
    written = odd.as_bytes(made)
    return odd.broken(rng, written) if rng.random() < 0.2 else written


def judge(body: bytes) -> None:
    """A review is refused in a sentence, or what it says comes true when the pod is created."""
    uid, created = PodUid("uid-of-the-review"), "2026-01-02T03:04:05Z"
    try:
        pod = read_review(body, "default", uid, created, SHAREDGPU_ALONE)
    except BadReview as error:
        said(str(error))
        return
    driver = Driver({"n1": 1, "n2": 1}, {})
    driver.place(a_pod("held", a_shape(a_claim(400))))
    machine, changes = driver.machine, driver.machine.changes
    found = completed(prospect_steps(machine, pod))
    assert (machine.changes, uid in machine.records) == (changes, False)
    assert (found is None) == (pod.scheduler_name not in machine.profiles)
    if found is None:
        return
    status = json.loads(json.dumps(reviewed("default", found)))["status"]
    if not status["fits"]:
        said(status["why"]["message"])
    effects = driver.tell(PodSeen(pod), BindSlotsFree(64))
    is_bound = any(isinstance(one, Bind) and one.uid == uid for one in effects)
    assert found.notes or status["fits"] == is_bound, status


FAMILIES = (Family(name="placement reviews", make=_odd, judge=judge, share=1),)
