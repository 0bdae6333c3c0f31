"""Mutating admission of new pods, in place of the chart's policy or webhook.

The embedded API server evaluates no CEL and calls no webhooks: the webhook's code is called here
directly. Nothing is refused, as by the webhook alone.
"""

from collections.abc import Callable

import msgspec
from msgspec import Raw

from kubeshare_py.admission.review import Choices, Rules, new_pod_patch
from kubeshare_py.dialects.dialects import SHAREDGPU_ALONE, Dialects
from kubeshare_py.embedded_cluster.protocol.merge import json_patch
from kubeshare_py.embedded_cluster.protocol.status import Json
from kubeshare_py.manifests.admission import read_pod

#: From a new pod, before defaults and checks, to the stored one.
Mutation = Callable[[Json], Json]


def unchanged(pod: Json) -> Json:
    """Without admission."""
    return pod


def environment(choices: Choices, dialects: Dialects = SHAREDGPU_ALONE) -> Mutation:
    """Containers of these profiles' pods get the environment that refers to their cards.

    So do those of pods with `sharedgpu/*` that name no scheduler: they get the first profile.
    """

    rules = Rules(choices=choices, dialects=dialects)

    def mutated(pod: Json) -> Json:
        read = read_pod(Raw(msgspec.json.encode(pod)))
        if isinstance(read, str):
            return pod
        steps = [msgspec.to_builtins(step) for step in new_pod_patch(read, rules)]
        found: Json = json_patch(pod, steps)
        return found

    return mutated
