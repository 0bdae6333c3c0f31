"""Pods that ask in a dialect's resources and name no scheduler, as those for extenders do.

Such pods become ours where their namespace, or the whole cluster, opted in. Policy, webhook and the
embedded cluster follow the same rules; those of the chart are in
deploy/chart/kubeshare/templates/_scheduler-name.tpl.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.dialects.pod_keys import PREFIX
from kubeshare_py.manifests.admission import CreatedPod
from kubeshare_py.manifests.pods.effective_requests import container_amounts

#: On a namespace: "true" opts in, "false" out. On a pod: "false" leaves its scheduler to it.
LABEL = "kubeshare.io/dialects"
#: Labels of HAMi's webhook, and of 4paradigm's, on a pod or a namespace: with this value it is
#: left alone.
IGNORING, IGNORED = ("hami.io/webhook", "4pd.io/webhook"), "ignore"
#: The schedulerName of pods that name none: Kubernetes sets it before admission.
_NO_SCHEDULER = ("", "default-scheduler")

#: The schedulerName that a pod gets by the name of a resource that it asks for.
TakenResources = Mapping[str, str]


class OptIn(StrEnum):
    """Which namespaces' pods are taken: those labelled "true", all not labelled "false", none."""

    NAMESPACE = "namespace"
    ALL = "all"
    NONE = "none"

    def takes(self, namespace_labels: Mapping[str, str]) -> bool:
        """Whether pods of a namespace with these labels are."""
        if is_ignored(namespace_labels):
            return False
        said = namespace_labels.get(LABEL, "")
        return said == "true" if self is OptIn.NAMESPACE else self is OptIn.ALL and said != "false"


def is_ignored(labels: Mapping[str, str]) -> bool:
    """Whether a pod or namespace has a label of a former webhook that was to leave it alone."""
    return any(labels.get(key) == IGNORED for key in IGNORING)


def taken_resources(
    dialects: Dialects, schedulers: Iterable[str], *, contested: bool = False
) -> TakenResources:
    """The resources by which pods become ours, each with the first profile of its dialect.

    With `contested` so do names that dialects own on some nodes only, such as `nvidia.com/gpu`.
    """
    found: dict[str, str] = {}
    for scheduler in schedulers:
        for dialect in dialects.of(scheduler).dialects:
            names = dialect.owns.resources | (dialect.owns.contested if contested else frozenset())
            for name in names:
                found.setdefault(name, scheduler)
    return found


def names_none(pod: CreatedPod) -> bool:
    """Whether the pod leaves its scheduler and its node open."""
    return pod.spec.scheduler_name in _NO_SCHEDULER and not pod.spec.node_name


def has_our_keys(pod: CreatedPod) -> bool:
    """Whether it has labels or annotations `sharedgpu/*`."""
    keys = (*(pod.metadata.labels or ()), *(pod.metadata.annotations or ()))
    return any(key.startswith(PREFIX) for key in keys)


def scheduler_by_resources(pod: CreatedPod, taken: TakenResources) -> str:
    """The schedulerName by the first, in alphabetical order, of these resources it asks for.

    "" if it asks for none of them, or opted out. All containers count, init containers too.
    """
    labels = pod.metadata.labels or {}
    if not taken or labels.get(LABEL) == "false" or is_ignored(labels):
        return ""
    containers = container_amounts(pod.spec.init_containers, pod.spec.containers, taken.keys())
    asked = {name for one in containers for name, amount in one.amounts if amount > 0}
    return taken[min(asked)] if asked else ""
