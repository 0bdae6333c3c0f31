"""Specs of pods that ask something about other pods."""

from typing import Any

from kubeshare_py.domain.pod import InterPodTerms
from kubeshare_py.manifests.pods.inter_pod import asked_of_others
from tests.manifests.written import pod_fields

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}


def term(key: str = "zone", **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": WEB, **fields}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def preferred(weight: int, kind: str = "podAffinity") -> dict[str, Any]:
    return {"affinity": {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term()}]}}}


def spread(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"topologySpreadConstraints": list(constraints)}


def even(**fields: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": WEB,
        **fields,
    }


def asked(spec: dict[str, Any], **labels: str) -> InterPodTerms:
    found = asked_of_others(pod_fields(spec).spec, "ns", labels)
    assert found.problem is None
    assert found.terms is not None
    return found.terms


def line(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}
