"""Differences from kube-scheduler that are known; docs/compatibility.md has the reasons."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Intended:
    """`what` begins the difference's row in the documentation; it has these kinds in such cases."""

    what: str
    kinds: frozenset[str]
    applies: Callable[[Json], bool]


def _leaves(case: Json) -> bool:
    return any(
        one["kind"] == "Pod" and "deletionTimestamp" in one["metadata"] for one in case["objects"]
    )


def _shares_ports(case: Json) -> bool:
    """Whether pods of one node have a host port of the same number."""
    seen: set[tuple[str, int]] = set()
    for one in case["objects"]:
        if one["kind"] != "Pod":
            continue
        spec = one["spec"]
        ports = {
            (spec.get("nodeName", ""), port["hostPort"])
            for container in (*spec["containers"], *spec.get("initContainers", ()))
            for port in container.get("ports", ())
            if "hostPort" in port
        }
        if ports & seen:
            return True
        seen |= ports
    return False


def _claims(pod: Json) -> list[str]:
    volumes = pod["spec"].get("volumes", ())
    found = [one.get("persistentVolumeClaim", {}).get("claimName") for one in volumes]
    return [name for name in found if name]


def _mounts_twice(case: Json) -> bool:
    names = _claims(case["pod"])
    return len(names) > len({*names})


def _shares_claims(case: Json) -> bool:
    """Whether several pods use a claim of the pod, or one of another namespace with its name."""
    namespace, names = case["pod"]["metadata"]["namespace"], {*_claims(case["pod"])}
    users = [
        one["metadata"]["namespace"]
        for one in case["objects"]
        if one["kind"] == "Pod" and names & {*_claims(one)}
    ]
    return len(users) > 1 or any(user != namespace for user in users)


INTENDED = (
    Intended("pods that are being deleted", frozenset({"victims", "message"}), _leaves),
    Intended(
        "pods of one node with the same host port", frozenset({"victims", "message"}), _shares_ports
    ),
    Intended(
        "a pod that mounts an unbound claim twice",
        frozenset({"filter VolumeBinding", "feasible", "outcome", "victims", "message"}),
        _mounts_twice,
    ),
    Intended(
        "why claims of devices cannot be met",
        frozenset({"filter DynamicResources", "message"}),
        lambda case: bool(case["pod"]["spec"].get("resourceClaims")),
    ),
    Intended("claims that several pods use", frozenset({"victims", "message"}), _shares_claims),
    Intended(
        "the score of a pod with requests of its own",
        frozenset({"score NodeResourcesFit", "outcome"}),
        lambda case: "resources" in case["pod"]["spec"],
    ),
)


#: Further rows there. No generated case shows them, or its pod counts as not supported.
NOT_SHOWN = (
    "victims of other schedulers",
    "preferred node affinity that cannot be read, such as `Gt` with a word",
    "device selectors in CEL",
    "devices with shared counters, binding conditions, capacity requests, `adminAccess`",
    "extended resources that a device class stands for",
    "a device that is a card of the inventory",
    "an allocated claim that is available nowhere",
    "spread of pods without constraints, without a file of kube-scheduler",
    "a Service or controller that changes while pods wait for a default constraint",
)


def is_intended(kind: str, case: Json) -> bool:
    """Whether this kind of difference is meant in this case."""
    return any(kind in one.kinds and one.applies(case) for one in INTENDED)
