"""Pod affinity and topology spread constraints as they come over the wire.

They stay undecoded in the pod's own fields, because pods of one template all say the same: each
text is decoded once.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#scheduling
"""

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from kubeshare_py.manifests.label_selector import SelectorFields
from kubeshare_py.manifests.undecodable import UNDECODABLE

AFFINITY = "spec.affinity.podAffinity"
ANTI_AFFINITY = "spec.affinity.podAntiAffinity"
SPREAD = "spec.topologySpreadConstraints"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

T = TypeVar("T")


class _InterPodFieldsBase(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Camel case in JSON, no cycles, no changes."""


class AffinityTermFields(_InterPodFieldsBase, frozen=True):
    """Pods by their labels and namespaces, and the node label of the topology domains."""

    topology_key: str = ""
    label_selector: SelectorFields | None = None
    namespace_selector: SelectorFields | None = None
    namespaces: tuple[str, ...] | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class WeightedTermFields(_InterPodFieldsBase, frozen=True):
    """A preference for a term."""

    weight: int = 0
    pod_affinity_term: AffinityTermFields = AffinityTermFields()


class InterPodAffinityFields(_InterPodFieldsBase, frozen=True):
    """`podAffinity` or `podAntiAffinity`."""

    required: tuple[AffinityTermFields, ...] | None = msgspec.field(default=None, name=_REQUIRED)
    preferred: tuple[WeightedTermFields, ...] | None = msgspec.field(default=None, name=_PREFERRED)

    def terms(self, path: str) -> list[tuple[str, AffinityTermFields]]:
        """All terms, each with its path; `path` is that of the whole."""
        hard = enumerate(self.required or ())
        soft = enumerate(self.preferred or ())
        return [
            *((f"{path}.{_REQUIRED}[{at}]", one) for at, one in hard),
            *(
                (f"{path}.{_PREFERRED}[{at}].podAffinityTerm", one.pod_affinity_term)
                for at, one in soft
            ),
        ]


class SpreadFields(_InterPodFieldsBase, frozen=True):
    """A topology spread constraint."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: SelectorFields | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class InterPodFields:
    """All that a pod asks about other pods."""

    affinity: InterPodAffinityFields
    anti_affinity: InterPodAffinityFields
    spread: tuple[SpreadFields, ...]

    @property
    def terms(self) -> list[tuple[str, AffinityTermFields]]:
        """All affinity terms, each with its path."""
        return self.affinity.terms(AFFINITY) + self.anti_affinity.terms(ANTI_AFFINITY)

    @property
    def constraints(self) -> list[tuple[str, SpreadFields]]:
        """All spread constraints, each with its path."""
        return [(f"{SPREAD}[{at}]", one) for at, one in enumerate(self.spread)]


class MalformedField(ValueError):
    """A field is not what the API allows: its path, and the rule that it breaks."""

    def __init__(self, path: str, rule: str) -> None:
        self.path, self.rule = path, rule
        super().__init__(f"{path} {rule}")


def inter_pod_fields(affinity: str, anti_affinity: str, spread: str) -> InterPodFields:
    """Decode the three texts, "" where a pod has none. Raises MalformedField."""
    return InterPodFields(
        _decoded(AFFINITY, affinity, InterPodAffinityFields) or InterPodAffinityFields(),
        _decoded(ANTI_AFFINITY, anti_affinity, InterPodAffinityFields) or InterPodAffinityFields(),
        _decoded(SPREAD, spread, tuple[SpreadFields, ...]) or (),
    )


def _decoded(path: str, text: str, kind: type[T]) -> T | None:
    if text in ("", "null"):
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except UNDECODABLE as error:
        raise MalformedField(path, f"cannot be read: {error}") from error
