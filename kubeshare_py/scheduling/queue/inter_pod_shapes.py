"""The shape of a pod with what it asks of other pods, and what terms of placed pods ask of it.

A pod's shape has its labels only if they matter: if the pod has terms of its own, or if a term of a
placed pod selects it. Of the labels it has those that some term names. As placed pods come and go,
other labels may matter, so that a pod's shape may become stale while it waits.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from kubeshare_py.cluster.pods.held_terms import HeldTerm
from kubeshare_py.domain.label_selector import Labels
from kubeshare_py.domain.needs.inter_pod import InterPodTerms
from kubeshare_py.domain.pod import Pod, Shape, with_inter_pod
from kubeshare_py.domain.remembered import remembered


class _TermsOfPods(Protocol):
    """Terms of placed pods."""

    def selecting(self, namespace: str, labels: Labels) -> Sequence[HeldTerm]:
        """Those that select a pod."""

    def names(self, key: str) -> bool:
        """Whether one of them names this label key."""


def with_terms(pod: Pod, shape: Shape, terms: _TermsOfPods) -> Shape:
    """This shape of a pod with the labels that matter now."""
    own, namespace = shape.inter_pod, pod.key.namespace
    if own is None and not terms.selecting(namespace, pod.labels):
        return shape
    keys = own.named_keys if own is not None else frozenset()
    labels = tuple([pair for pair in pod.labels if pair[0] in keys or terms.names(pair[0])])
    return _with(shape, own, namespace, labels)


@remembered(4096)
def _with(shape: Shape, own: InterPodTerms | None, namespace: str, labels: Labels) -> Shape:
    asked = InterPodTerms(namespace=namespace) if own is None else own
    return with_inter_pod(shape, replace(asked, labels=labels))
