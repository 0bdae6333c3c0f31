"""Reads the scheduler's state: the values of `views.view`, or an error in words."""

import os
from collections.abc import Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import TypeVar

import msgspec

from kubeshare_py.edges.cli.access import ApiAccess
from kubeshare_py.edges.cli.https_client import HttpAnswer, HttpsClient
from kubeshare_py.edges.cli.state_errors import NotFound, StateError, StateRefused, StateUnreachable
from kubeshare_py.edges.cli.state_routes import (
    TOKEN_VARIABLE,
    ApiServerRoute,
    direct_route,
    token_for_scheduler,
)
from kubeshare_py.manifests.api_paths import collection_path, object_path, path_segment
from kubeshare_py.views.view import ClusterView, WhyView

#: The scheduler's aggregated API.
GROUP = "/apis/state.kubeshare.io/v1"
_APISERVICE = "v1.state.kubeshare.io"
_TOKEN_HELP = f"give the scheduler's token with --token-file or {TOKEN_VARIABLE}"
_StateView = TypeVar("_StateView", ClusterView, WhyView)


class ErrorMessage(msgspec.Struct):
    """The body of an error: a Status, or the state port's own message."""

    message: str = ""


class StateClient:
    """The scheduler's state, by the way that the command line chose."""

    def __init__(self, access: ApiAccess, environ: Mapping[str, str] = os.environ) -> None:
        self._access = access
        self._environ = environ
        self.api = ApiServerRoute(access, environ)
        self._direct: HttpsClient | None = None

    def cards(self, *, topology: bool = False) -> ClusterView:
        """All nodes and pods; with `topology`, how cards are joined. Raises StateError."""
        query = "?topology=1" if topology else ""
        return self._cluster(f"{GROUP}/gpus{query}", f"/state/v1/cluster{query}")

    def pods(self, namespace: str | None) -> ClusterView:
        """The pods of one namespace, or of all (None), by namespace and name. Raises StateError."""
        view = self._cluster(collection_path(GROUP, "pods", namespace), "/state/v1/cluster")
        chosen = (pod for pod in view.pods if namespace in (None, pod.namespace))
        return replace(view, pods=tuple(chosen))

    def why(self, namespace: str, pod: str) -> WhyView:
        """Why a pod is where it is. Raises NotFound if the scheduler does not know it."""
        path = object_path(GROUP, "pods", pod, namespace)
        direct = f"/state/v1/why/{path_segment(namespace)}/{path_segment(pod)}"
        return self._fetch(path, direct, WhyView)

    def close(self) -> None:
        """End the connections."""
        self.api.close()
        if self._direct is not None:
            self._direct.close()

    def _cluster(self, path: str, direct: str) -> ClusterView:
        view = self._fetch(path, direct, ClusterView)
        # Sorted here: sorting 50,000 pods would hold the scheduler's loop.
        pods = sorted(view.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
        return replace(view, pods=tuple(pods))

    def _fetch(self, path: str, direct: str, kind: type[_StateView]) -> _StateView:
        if self._access.scheduler is None:
            answer, via = self.api.get(path), f"the API server at {self.api.server()}"
        else:
            client = self._opened(self._access.scheduler)
            answer, via = client.get(direct), client.origin.via
        if answer.status != HTTPStatus.OK:
            raise self._refusal(answer, via)
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateUnreachable(
                f"{via} does not answer as a kubeshare-scheduler of this version does: {error}"
            ) from error

    def _opened(self, url: str) -> HttpsClient:
        if self._direct is None:
            token = token_for_scheduler(self._access, self._environ)
            self._direct = direct_route(self._access, url, token)
        return self._direct

    def _refusal(self, answer: HttpAnswer, via: str) -> StateError:
        said = message_of(answer)
        if self._direct is not None:
            has_token = bool(self._direct.origin.headers)
            return _scheduler_says(answer.status, said, via, has_token=has_token)
        if answer.status == HTTPStatus.NOT_FOUND:
            return NotFound(said) if self._is_served() else _not_served(via)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return StateUnreachable(
                f"no scheduler answers through {via}: {said} "
                f"(kubectl get apiservice {_APISERVICE} says why)"
            )
        return api_server_says(answer, via)

    def _is_served(self) -> bool:
        """Whether the API server knows the scheduler's API at all."""
        return self.api.get(GROUP).status != HTTPStatus.NOT_FOUND


def message_of(answer: HttpAnswer) -> str:
    """The message of an error, or its body as far as there is one."""
    try:
        said = msgspec.json.decode(answer.body, type=ErrorMessage).message
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = ""
    return said or repr(answer.body[:200].decode(errors="replace").strip())


def api_server_says(answer: HttpAnswer, via: str) -> StateError:
    """An error of the API server, in kubectl's words if it has some."""
    said = message_of(answer)
    if answer.status == HTTPStatus.NOT_FOUND:
        return NotFound(said)
    if answer.status == HTTPStatus.UNAUTHORIZED:
        return StateRefused(f"{via} does not accept these credentials: {said}")
    if answer.status == HTTPStatus.FORBIDDEN:
        return StateRefused(said)
    return StateUnreachable(f"{via} answers {answer.status}: {said}")


def _not_served(via: str) -> StateError:
    return StateUnreachable(
        f"{via} does not serve state.kubeshare.io: is kubeshare-scheduler installed there, with "
        "apiService.enabled (a value of its chart)? `--scheduler URL` goes to it directly"
    )


def _scheduler_says(status: int, said: str, via: str, *, has_token: bool) -> StateError:
    if status == HTTPStatus.UNAUTHORIZED and not has_token:
        return StateRefused(f"the scheduler asks for a token ({said}): {_TOKEN_HELP}")
    if status == HTTPStatus.UNAUTHORIZED:
        return StateRefused(f"the scheduler does not accept the token: {said}; {_TOKEN_HELP}")
    if status == HTTPStatus.FORBIDDEN:
        return StateRefused(f"the scheduler does not let this user read its state: {said}")
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(said)
    return StateUnreachable(f"{via} answers {status}: {said}")
