"""What only the API server knows of pods: labels, owners, and schedulerNames."""

from http import HTTPStatus
from urllib.parse import urlencode

from kubeshare_py.edges.cli.https_client import JSON, HttpAnswer
from kubeshare_py.edges.cli.state_client import api_server_says
from kubeshare_py.edges.cli.state_errors import NotFound, StateUnreachable
from kubeshare_py.edges.cli.state_routes import ApiServerRoute
from kubeshare_py.manifests.api_paths import collection_path
from kubeshare_py.manifests.undecodable import UNDECODABLE
from kubeshare_py.manifests.workloads import (
    POD,
    SHAREPOD,
    ForeignPod,
    NamedWorkload,
    Workload,
    foreign_pod,
    names_in_list,
    pod_selector,
    sharepod_message,
)

#: (namespace, name).
PodName = tuple[str, str]
_PAGE = 500
_NAMES_ONLY = f"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"


def find_pod(api: ApiServerRoute, namespace: str, name: str) -> ForeignPod:
    """Read a pod. Raises NotFound with the API server's message, StateError for other answers."""
    body = _object(api, POD, namespace, name)
    try:
        return foreign_pod(body)
    except UNDECODABLE as error:
        raise _strange(api, error) from error


def find_sharepod(api: ApiServerRoute, namespace: str, name: str) -> str:
    """Why a SharePod has no pod, "" if its controller says nothing.

    Raises NotFound with the API server's message, StateError for other answers.
    """
    body = _object(api, SHAREPOD, namespace, name)
    try:
        return sharepod_message(body)
    except UNDECODABLE as error:
        raise _strange(api, error) from error


def matching_pods(api: ApiServerRoute, namespace: str | None, selector: str) -> set[PodName]:
    """The pods of one namespace or all (None) with these labels. Raises StateError."""
    return _matching(api, collection_path(POD.api, "pods", namespace), selector)


def matching_nodes(api: ApiServerRoute, selector: str) -> set[str]:
    """The nodes with these labels. Raises StateError."""
    return {name for _, name in _matching(api, "/api/v1/nodes", selector)}


def pods_of(api: ApiServerRoute, namespace: str, workload: NamedWorkload) -> set[PodName]:
    """The pods that a Job, Deployment … selects. Raises StateError, and NotFound."""
    body = _object(api, workload.kind, namespace, workload.name)
    try:
        selector = pod_selector(body)
    except (ValueError, LookupError, AttributeError, TypeError, *UNDECODABLE) as error:
        raise NotFound(f"{workload.kind.plural} {workload.name!r}: {error}") from error
    return matching_pods(api, namespace, selector)


def names_of(api: ApiServerRoute, namespace: str, kind: Workload) -> set[str]:
    """The names of all objects of a kind in a namespace. Raises StateError."""
    return {name for _, name in _matching(api, collection_path(kind.api, kind.plural, namespace))}


def _matching(api: ApiServerRoute, path: str, selector: str = "") -> set[PodName]:
    """All pages of a list, names only: the API server sends only metadata if asked to."""
    query = {"limit": str(_PAGE), **({"labelSelector": selector} if selector else {})}
    found: set[PodName] = set()
    while True:
        answer = _got(api, f"{path}?{urlencode(query)}", accept=_NAMES_ONLY)
        try:
            names, query["continue"] = names_in_list(answer.body)
        except UNDECODABLE as error:
            raise _strange(api, error) from error
        found.update(names)
        if not query["continue"]:
            return found


def _object(api: ApiServerRoute, kind: Workload, namespace: str, name: str) -> bytes:
    return _got(api, kind.path(namespace, name)).body


def _got(api: ApiServerRoute, path: str, *, accept: str = JSON) -> HttpAnswer:
    answer = api.get(path, accept=accept)
    if answer.status != HTTPStatus.OK:
        raise api_server_says(answer, f"the API server at {api.server()}")
    return answer


def _strange(api: ApiServerRoute, error: Exception) -> StateUnreachable:
    return StateUnreachable(f"the API server at {api.server()} answers no Kubernetes: {error}")
