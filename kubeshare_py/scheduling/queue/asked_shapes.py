"""The shape of a waiting pod: what it asks for, what its profile adds, and what others ask of it.

Nodes to which the API server refuses to bind the pod are part of it for a while.

A profile may add constraints of spread to pods without any of their own. Which pods they count
follows from Services and from the pod's controller, so that a shape may become stale as these come
and go, and as terms of placed pods do (`inter_pod_shapes`).
"""

from dataclasses import replace

from kubeshare_py.cluster.pods.default_selectors import DefaultSelectors
from kubeshare_py.cluster.pods.held_terms import HeldTerms
from kubeshare_py.domain.gpu_capacities import scaled
from kubeshare_py.domain.isolation import IsolationBackend
from kubeshare_py.domain.needs.inter_pod import InterPodTerms, PodSelector, SpreadConstraint
from kubeshare_py.domain.pod import (
    Pod,
    Shape,
    avoiding,
    with_images,
    with_inter_pod,
    with_isolation,
    with_origin,
    without_resources,
)
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.framework.scheduler_profile import Profile
from kubeshare_py.scheduling.queue.inter_pod_shapes import with_terms
from kubeshare_py.scheduling.queue.isolation_hold import chosen_backend
from kubeshare_py.scheduling.queue.refused_binds import RefusedBinds


class AskedShapes:
    """Shapes by terms of placed pods, Services and controllers as they are now."""

    def __init__(
        self, terms: HeldTerms, selectors: DefaultSelectors, refused: RefusedBinds
    ) -> None:
        self._terms = terms
        self._selectors = selectors
        self.refused = refused

    def version(self, profile: Profile) -> int:
        """A number that grows when the shape of a pod of this profile may have become another."""
        version = self._terms.version
        return version + self._selectors.version if profile.default_spread else version

    def of(self, pod: Pod, profile: Profile) -> Shape | None:
        """The pod's shape; None if that is the one that it has without any additions."""
        asked = _asked(pod, profile)
        if asked is not None and (profile.reads_namespace or profile.reads_labels):
            asked = _with_origin(pod, asked, profile)
        if asked is not None and profile.default_spread:
            asked = self._spread(pod, asked, profile.default_spread)
        if asked is not None and (self._terms or asked.inter_pod is not None):
            asked = with_terms(pod, asked, self._terms)
        if asked is not None and self.refused.pods and (nodes := self.refused.avoided(pod.uid)):
            asked = avoiding(asked, nodes)
        return None if asked is pod.shape else asked

    def _spread(self, pod: Pod, shape: Shape, constraints: tuple[SpreadConstraint, ...]) -> Shape:
        """The shape with its profile's constraints, unless it has some, or no pods to count."""
        own = shape.inter_pod
        if own is not None and own.spread:
            return shape
        namespace = pod.key.namespace
        selector = self._selectors.of(namespace, pod.labels, pod.controller)
        return shape if selector is None else _spread(shape, namespace, constraints, selector)


def is_scaled(pod: Pod) -> bool:
    """Whether the pod asks for a share of a model, which a profile's capacities scale."""
    return any(claim.share_of for claim in pod.shape.claims)


def _asked(pod: Pod, profile: Profile) -> Shape | None:
    """The pod's shape as its profile understands it; None if it cannot be understood."""
    shape = scaled(pod.shape, profile.capacities) if is_scaled(pod) else pod.shape
    if shape is not None and profile.reads_images and pod.images is not None:
        shape = with_images(shape, pod.images)
    if shape is not None and profile.ignores_resource is not None:
        ignored = tuple(name for name, _ in shape.resources if profile.ignores_resource(name))
        shape = without_resources(shape, ignored) if ignored else shape
    backend = chosen_backend(pod, profile)
    if shape is None or backend is None or backend is IsolationBackend.NONE:
        return shape
    return with_isolation(shape, backend)


def _with_origin(pod: Pod, shape: Shape, profile: Profile) -> Shape:
    """The shape with what the profile's plugins read of the pod."""
    namespace = pod.key.namespace if profile.reads_namespace else ""
    read = profile.reads_labels
    labels = tuple(label for label in pod.labels if label[0] in read) if read else ()
    return with_origin(shape, namespace, labels) if namespace or labels else shape


@remembered(4096)
def _spread(
    shape: Shape,
    namespace: str,
    constraints: tuple[SpreadConstraint, ...],
    selector: PodSelector,
) -> Shape:
    own = shape.inter_pod or InterPodTerms(namespace=namespace)
    spread = tuple(replace(one, selector=selector) for one in constraints)
    return with_inter_pod(shape, replace(own, spread=spread))
