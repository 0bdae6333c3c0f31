"""Mutating admission of new pods, in place of the chart's policy or webhook.

The embedded API server evaluates no CEL and calls no webhooks: the webhook's code is called here
directly. Nothing is refused, as by the webhook alone.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec
from msgspec import Raw

from kubeshare_py.admission.dialect_pods import OptIn, taken_resources
from kubeshare_py.admission.review import Choices, Rules, new_pod_patch
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.embedded_cluster.protocol.merge import json_patch
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.manifests.admission import read_pod

#: From a new pod and its namespace's labels, before defaults and checks, to the stored pod.
Mutation = Callable[[Json, Mapping[str, str]], Json]


def unchanged(pod: Json, _namespace_labels: Mapping[str, str]) -> Json:
    """Without admission."""
    return pod


def environment(
    choices: Choices,
    dialects: Dialects = SHAREDGPU_ALONE,
    opt_in: OptIn = OptIn.NAMESPACE,
    *,
    contested: bool = False,
) -> Mutation:
    """Containers of these profiles' pods get the environment that refers to their cards.

    So do those of pods that name no scheduler, if they have `sharedgpu/*`, or where they opted in
    ask for resources of a dialect; with `contested` also for names such as `nvidia.com/gpu`.
    """

    rules = Rules(choices=choices, dialects=dialects)
    taking = replace(rules, taken=taken_resources(dialects, choices, contested=contested))

    def mutated(pod: Json, namespace_labels: Mapping[str, str]) -> Json:
        read = read_pod(Raw(msgspec.json.encode(pod)))
        if isinstance(read, str):
            return pod
        own = taking if opt_in.takes(namespace_labels) else rules
        steps = [msgspec.to_builtins(step) for step in new_pod_patch(read, own)]
        found: Json = json_patch(pod, steps)
        return found

    return mutated
