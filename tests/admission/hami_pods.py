"""Pods of HAMi's dialect for webhook and policy, each with what becomes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
#: What a container asks for, by resource.
Limits = Mapping[str, str | int]

GPU, MEM, CORES, PERCENT = (
    f"nvidia.com/{name}" for name in ("gpu", "gpumem", "gpucores", "gpumem-percentage")
)
PRIORITY = "nvidia.com/priority"


@dataclass(frozen=True, slots=True, kw_only=True)
class HamiCase:
    """A pod, and the limits and priorities of its containers as they are stored.

    `priorities` are "" where there is none. Or `refused` is a part of the sentence, if the pod is.
    """

    pod: Json
    limits: Sequence[Mapping[str, str]] = ()
    priorities: Sequence[str] = field(default=("",))
    refused: str = ""


def a_pod(
    *limits: Limits,
    inits: Sequence[Limits] = (),
    labels: Mapping[str, str] | None = None,
    **spec: object,
) -> Json:
    """A pod that names no scheduler, with a container for each of these limits."""
    fields: Json = {"schedulerName": "default-scheduler", "containers": _containers("c", limits)}
    if inits:
        fields["initContainers"] = _containers("i", inits)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "labels": dict(labels or {})},
        "spec": {**fields, "automountServiceAccountToken": False, **spec},
    }


def privileged(pod: Json, index: int = 0, kind: str = "containers") -> Json:
    """The same pod with a container that is privileged."""
    pod["spec"][kind][index]["securityContext"] = {"privileged": True}
    return pod


def _containers(prefix: str, limits: Sequence[Limits]) -> list[Json]:
    return [
        {
            "name": f"{prefix}{at}",
            "image": "x",
            "resources": {"limits": {name: str(amount) for name, amount in one.items()}},
        }
        for at, one in enumerate(limits)
    ]


#: Cases of one number show one rule of HAMi's webhook: a pod that asks becomes ours and keeps what
#: it asks for (14), a card without a part of its memory comes with all cores (15), parts without a
#: count get it (16), a priority becomes a variable of its container (17), amounts that cannot be
#: meant (18), a node that the pod names (20) and privileged containers (21) are refused.
CASES: Mapping[str, HamiCase] = {
    "14 memory leaves cores absent": HamiCase(
        pod=a_pod({GPU: 1, MEM: 4096}), limits=[{GPU: "1", MEM: "4096"}]
    ),
    "15 a whole card has all cores": HamiCase(
        pod=a_pod({GPU: 2}), limits=[{GPU: "2", CORES: "100"}]
    ),
    "15 all of the memory has all cores": HamiCase(
        pod=a_pod({GPU: 1, PERCENT: 100}), limits=[{GPU: "1", PERCENT: "100", CORES: "100"}]
    ),
    "15 a part of the memory leaves cores absent": HamiCase(
        pod=a_pod({GPU: 1, PERCENT: 50}), limits=[{GPU: "1", PERCENT: "50"}]
    ),
    "15 cores of 0 stay": HamiCase(pod=a_pod({GPU: 1, CORES: 0}), limits=[{GPU: "1", CORES: "0"}]),
    "16 memory alone gets a count": HamiCase(
        pod=a_pod({MEM: 4096}), limits=[{GPU: "1", MEM: "4096"}]
    ),
    "16 cores alone get a count": HamiCase(
        pod=a_pod({CORES: 30}), limits=[{GPU: "1", CORES: "30"}]
    ),
    "16 all of the memory alone gets count and cores": HamiCase(
        pod=a_pod({PERCENT: 100}), limits=[{GPU: "1", PERCENT: "100", CORES: "100"}]
    ),
    "16 init containers too": HamiCase(
        pod=a_pod({GPU: 1, MEM: 1}, inits=[{MEM: 500}]),
        limits=[{GPU: "1", MEM: "1"}, {GPU: "1", MEM: "500"}],
        priorities=["", ""],
    ),
    "17 each container has its own priority": HamiCase(
        pod=a_pod({GPU: 1, MEM: 1, PRIORITY: 1}, {GPU: 1, MEM: 1, PRIORITY: 0}, {}),
        limits=[
            {GPU: "1", MEM: "1", PRIORITY: "1"},
            {GPU: "1", MEM: "1", PRIORITY: "0"},
            {},
        ],
        priorities=["1", "0", ""],
    ),
    "18 bytes are no number of MiB": HamiCase(
        pod=a_pod({GPU: 1, MEM: "16Gi"}),
        refused='resources[nvidia.com/gpumem]="17179869184": is a number of MiB, at most',
    ),
    "18 more than all of the memory": HamiCase(
        pod=a_pod({GPU: 1}, {GPU: 1, PERCENT: 101}),
        refused='resources[nvidia.com/gpumem-percentage]="101": must be at most 100',
    ),
    "18 a part of no card": HamiCase(
        pod=a_pod({GPU: 1, MEM: 1}, inits=[{GPU: 0, CORES: 30}]),
        refused='resources[nvidia.com/gpucores]="30": asks for a part of cards, and not for how',
    ),
    "20 a pod that names its node": HamiCase(
        pod=a_pod({GPU: 1, MEM: 1}, schedulerName="hami-scheduler", nodeName="n1"),
        refused="names its node",
    ),
    "21 a privileged container": HamiCase(
        pod=privileged(a_pod({GPU: 1, MEM: 1})), refused="container c0 is privileged"
    ),
    "21 a privileged container beside one that asks": HamiCase(
        pod=privileged(a_pod({GPU: 1, MEM: 1}, {}), 1), refused="container c1 is privileged"
    ),
    "21 a privileged init container": HamiCase(
        pod=privileged(a_pod({MEM: 1}, inits=[{}]), kind="initContainers"),
        refused="container i0 is privileged",
    ),
    "21 a privileged container of a pod that does not ask": HamiCase(
        pod=privileged(a_pod({})), limits=[{}]
    ),
}
