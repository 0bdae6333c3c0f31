"""The plain manifests, as deploy/kubeshare.yaml ships them: what tests install, and look at."""

import json
from collections.abc import Iterable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kubeshare_py.documents.yaml_text import FAST_PARSER

MANIFESTS = Path(__file__).parents[2] / "deploy/kubeshare.yaml"
#: Who the scheduler is, and what it and those who look at it may do.
IDENTITY = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
#: Those that limit the scheduler's own account begin so.
_OF_TOKEN = "kubeshare-token-"
_TOKEN_PART, _TOKEN_BINDINGS = f"{_OF_TOKEN}status", f"{_OF_TOKEN}bindings"
#: What limits that account of policies that limit others too, as policies of their own.
TOKEN_PARTS = (_TOKEN_PART, _TOKEN_BINDINGS)
#: The one that refuses pods, and the one that refuses Bindings.
ABOUT_PODS, ABOUT_BINDINGS = "kubeshare-pods", "kubeshare-bindings"
#: What of the latter looks at the Lease.
_OF_LEASE = {"holder", "transitions", "term", "fence", "ahead", "isLater"}
#: Kubernetes 1.36 and newer.
MUTATING = ("MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding")

Json = dict[str, Any]

#: What a cluster with cards has beside them: as NVIDIA's operator makes it, and k3s and others do.
RUNTIME_CLASS: Json = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "nvidia"},
    "handler": "nvidia",
}


def shipped(*kinds: str) -> list[Json]:
    """All objects of these kinds, in the file's order; without kinds, all there are."""
    return [deepcopy(one) for one in _all() if not kinds or one["kind"] in kinds]


def token_policies(objects: Iterable[Json] | None = None) -> list[Json]:
    """What of its role the scheduler's account may use, by the chart's `objects`."""
    found = []
    for one in shipped() if objects is None else objects:
        if is_about_pods(one):
            found.append(token_part(one))
        elif is_about_bindings(one):
            found.append(without_lease(one))
        elif limits_token(one):
            found.append(one)
    return found


def token_part(one: Json) -> Json:
    """The policy about pods, or its binding, as one that limits that account alone."""
    named = (variable["name"] for variable in one["spec"].get("variables", ()))
    parts = {name.removesuffix("Apply") for name in named if name.endswith("Apply")}
    made = parts_only_in(one, (), *parts - {"token"})
    made["metadata"]["name"] = _TOKEN_PART
    if "policyName" in made["spec"]:
        made["spec"]["policyName"] = _TOKEN_PART
    return made


def without_lease(one: Json) -> Json:
    """The policy about Bindings, or its binding, under another name; it does not ask who leads."""
    made = deepcopy(one)
    made["metadata"]["name"] = _TOKEN_BINDINGS
    spec = made["spec"]
    if "policyName" in spec:
        spec["policyName"] = _TOKEN_BINDINGS
        spec.pop("paramRef", None)
        return made
    spec.pop("paramKind", None)
    spec["variables"] = [one for one in spec["variables"] if one["name"] not in _OF_LEASE]
    validations = spec["validations"]
    spec["validations"] = [one for one in validations if "isLater" not in one["expression"]]
    return made


def is_about_bindings(one: Json) -> bool:
    """Whether it is the policy that refuses Bindings, or its binding."""
    return one["kind"] in POLICIES and one["metadata"]["name"] == ABOUT_BINDINGS


def is_about_pods(one: Json) -> bool:
    """Whether it is the policy that refuses pods, or its binding."""
    return one["kind"] in POLICIES and one["metadata"]["name"] == ABOUT_PODS


def limits_token(one: Json) -> bool:
    """Whether a policy, or the binding of one, limits the scheduler's own account."""
    name: str = one["metadata"]["name"]
    return name.startswith(_OF_TOKEN)


def parts_only_in(one: Json, namespaces: Iterable[str], *parts: str) -> Json:
    """The policy about pods, parts of which apply to these namespaces alone; others as they are.

    Parts have variables NAMEApply: `results`, `settled`, `labels`, `containers` and others, as in
    the chart's files _part-NAME.tpl.
    """
    if not is_about_pods(one) or one["kind"] != POLICIES[0]:
        return one
    where = json.dumps(list(namespaces))
    made = deepcopy(one)
    for variable in made["spec"]["variables"]:
        if variable["name"] in {f"{part}Apply" for part in parts}:
            variable["expression"] = f"request.namespace in {where} && {variable['expression']}"
    return made


def only(kind: str, name: str) -> Json:
    """The one of this kind and name."""
    [found] = [one for one in shipped(kind) if one["metadata"]["name"] == name]
    return found


def write(objects: Iterable[Json], path: Path) -> Path:
    """A file of them for kubectl."""
    path.write_text(yaml.safe_dump_all(objects, sort_keys=False))
    return path


@cache
def _all() -> list[Json]:
    return [one for one in yaml.load_all(MANIFESTS.read_text(), FAST_PARSER) if one]
