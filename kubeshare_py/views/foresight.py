"""What would happen in the cluster, as `kubectl kubeshare what-if`, `capacity` and `when` show it.

Amounts are as in `views.view`; times are RFC 3339.
"""

from enum import StrEnum

import msgspec

from kubeshare_py.views.view import WhyView


class ForeseenOutcome(StrEnum):
    """What would become of a new pod; `elsewhere`: another scheduler decides."""

    PLACED = "placed"
    WAITS = "waits"
    REFUSED = "refused"
    ELSEWHERE = "elsewhere"


class ForeseenCard(msgspec.Struct, frozen=True, rename="camel"):
    """A card that a pod would hold; `index` -1 if it is not known."""

    uuid: str
    index: int = -1


class ForeseenPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod, and what would become of it.

    `object` is what makes it, as `job/train`; it is the pod itself for a pod of its own. A pod that
    is placed has a node and cards. `message` says why it has no place here, and also what a
    placement would still wait for. `why` is set for the first pod of an object that waits.
    """

    namespace: str
    name: str
    object: str
    outcome: ForeseenOutcome
    node: str = ""
    cards: tuple[ForeseenCard, ...] = ()
    message: str = ""
    why: WhyView | None = None


class ForeseenEviction(msgspec.Struct, frozen=True, rename="camel"):
    """A pod that would be evicted: from where, and why."""

    namespace: str
    name: str
    node: str
    cards: tuple[ForeseenCard, ...] = ()
    message: str = ""


class WhatIfView(msgspec.Struct, frozen=True, rename="camel"):
    """What would become of new pods, and what else would change.

    `pods` are the new ones in the order of the manifests. `started` are pods of the cluster that
    wait now and would be placed. `soon` are pods of the cluster that are placed at once whether or
    not anything is changed. `still_waiting` is the number of the cluster's pods that would wait.
    `changes` says in words what was supposed, and `notes` what the answer leaves out.
    """

    changes: tuple[str, ...] = ()
    pods: tuple[ForeseenPod, ...] = ()
    evicted: tuple[ForeseenEviction, ...] = ()
    started: tuple[ForeseenPod, ...] = ()
    soon: tuple[ForeseenPod, ...] = ()
    still_waiting: int = 0
    notes: tuple[str, ...] = ()


class NodeCount(msgspec.Struct, frozen=True, rename="camel"):
    """How many more of them a node would take."""

    name: str
    count: int


class ScarceView(msgspec.Struct, frozen=True, rename="camel"):
    """A reason why a node takes no more of them, and on how many nodes it holds."""

    reason: str
    nodes: int


class CapacityView(msgspec.Struct, frozen=True, rename="camel"):
    """How many more of the same would fit.

    `more` counts whole sets of the manifests' pods, of which each has `pods_each`. `nodes` are
    those that would take some of their pods. `is_limit`: `more` is as far as was counted.
    `scarce` are the reasons of the first set that does not fit, on the nodes that took some if
    there are any, the most frequent first; `message` is its whole sentence.
    """

    more: int
    pods_each: int
    is_limit: bool = False
    nodes: tuple[NodeCount, ...] = ()
    scarce: tuple[ScarceView, ...] = ()
    message: str = ""
    advice: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class PodEnd(msgspec.Struct, frozen=True, rename="camel"):
    """A running pod that ends at a time by its deadline; `by` is where that stands."""

    namespace: str
    name: str
    node: str
    at: str
    by: str


class WhenView(msgspec.Struct, frozen=True, rename="camel"):
    """When a pod would be placed at the latest, by the deadlines of the running pods.

    `state` is `placed` (it has a node now), `now` (it would be placed at once), `by` (`at` a time,
    `in_s` seconds from now) or `unknown`. `ends` are the pods that must end before, on its node.
    For `unknown`, `message` and `why` say what it waits for with all deadlines passed, and
    `without_deadline` is the number of running pods whose end is not known.
    """

    namespace: str
    name: str
    state: str
    at: str = ""
    in_s: float = 0.0
    node: str = ""
    cards: tuple[ForeseenCard, ...] = ()
    ends: tuple[PodEnd, ...] = ()
    with_deadline: int = 0
    without_deadline: int = 0
    message: str = ""
    why: WhyView | None = None
    notes: tuple[str, ...] = ()
