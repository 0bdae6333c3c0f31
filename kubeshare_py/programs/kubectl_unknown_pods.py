"""What `kubectl kubeshare` says of pods that the scheduler does not know, and of SharePods."""

from kubeshare_py.dialects.unread_resources import key_of_dialect
from kubeshare_py.edges.cli.pod_lookup import find_pod, find_sharepod
from kubeshare_py.edges.cli.state_client import StateClient
from kubeshare_py.edges.cli.state_errors import (
    HasEnded,
    NotFound,
    StateError,
    StateRefused,
    StateUnreachable,
)
from kubeshare_py.terminal.foreign_pods import ENDED, foreign_sentence
from kubeshare_py.views.view import WhyView


def unknown_pod(client: StateClient, namespace: str, name: str, error: NotFound) -> StateError:
    """Why the scheduler does not know a pod, by the API server if it says; else `error`."""
    try:
        pod = find_pod(client.api, namespace, name)
    except NotFound as absent:
        return absent
    except StateUnreachable:
        return error
    except StateRefused as refused:
        return NotFound(f"{error} ({refused})")
    sentence = foreign_sentence(
        f"{namespace}/{name}",
        scheduler=pod.spec.scheduler_name,
        phase=pod.status.phase,
        node=pod.spec.node_name,
        message=pod.message,
        asks_by=key_of_dialect(pod.keys, pod.resources),
        namespace=namespace,
    )
    return HasEnded(sentence) if pod.status.phase in ENDED else StateRefused(sentence)


def why_of_sharepod(client: StateClient, namespace: str, name: str) -> WhyView:
    """About the pod of a SharePod, which has its name. Raises StateRefused if there is none."""
    try:
        return client.why(namespace, name)
    except NotFound as error:
        unknown = error
    message = find_sharepod(client.api, namespace, name)
    try:
        find_pod(client.api, namespace, name)
    except NotFound as absent:
        said = message or "kubeshare-controller has made none yet, or it does not run"
        raise StateRefused(f"sharepod {namespace}/{name} has no pod: {said}") from absent
    raise unknown_pod(client, namespace, name, unknown)
