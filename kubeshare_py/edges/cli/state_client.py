"""Reads the scheduler's state: the values of `views.view`, or an error in words."""

import os
import ssl
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from kubeshare_py.documents.yaml_text import MAX_BYTES, DocumentProblem, read_yaml_documents
from kubeshare_py.domain.identity import PodUid
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.cli.https_client import (
    JSON,
    TIMEOUT_S,
    HttpAnswer,
    HttpsClient,
    NotFound,
    Origin,
    StateError,
    StateRefused,
    StateUnreachable,
    proxy_of_environment,
)
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.kube.kubeconfig import (
    DEFAULT_NAMESPACE,
    Configured,
    KubectlOptions,
    tls_context,
)
from kubeshare_py.edges.process.document_files import read_bytes
from kubeshare_py.manifests.api_paths import collection_path, object_path
from kubeshare_py.manifests.decoding import UNDECODABLE
from kubeshare_py.manifests.state_group import (
    API_SERVICE,
    CURRENT,
    GPUS,
    PODS,
    ROOT,
    SCHEDULERS,
    SNAPSHOTS,
    AnsweredReview,
    SchedulerList,
    placement_review,
)
from kubeshare_py.manifests.workloads import (
    POD,
    SHAREPOD,
    AdmissionAnswer,
    ForeignPod,
    NamedWorkload,
    PodTemplate,
    Workload,
    dry_run,
    dry_run_refused,
    foreign_pod,
    named,
    names_in_list,
    pod_selector,
    sharepod_message,
)
from kubeshare_py.views.view import ClusterView, ProspectView, SchedulerView, WhyView

if TYPE_CHECKING:
    from kubeshare_py.manifests.deadlines import LatestEnd

# The ways to the scheduler's state: the servers and the credentials for them.
#
# Through the API server the scheduler is an aggregated API, open to every kubeconfig:
# https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
# `--scheduler URL` connects to its port directly, with a bearer token.


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiAccess(KubectlOptions):
    """kubectl's options, and ours: `scheduler` is the URL of its port, past the API server.

    `ca_file` is the authority of `scheduler`, `token_file` has a token for it.
    """

    scheduler: str | None = None
    token_file: str | None = None
    ca_file: str | None = None


TOKEN_VARIABLE = "KUBESHARE_TOKEN"
_UNAUTHORIZED = 401
_BEARER = "Bearer "


class ApiServerRoute:
    """Requests to the API server of a kubeconfig, which is read at the first one."""

    def __init__(self, access: ApiAccess, environ: Mapping[str, str] = os.environ) -> None:
        self._access = access
        self._environ = environ
        self._configured: Configured | None = None
        self._client: HttpsClient | None = None

    def namespace(self) -> str:
        """The namespace that the user means; "default" if no kubeconfig can be read."""
        try:
            return self._config().namespace()
        except StateUnreachable:
            if self._access.scheduler is None:
                raise
            return self._access.namespace or DEFAULT_NAMESPACE

    def server(self) -> str:
        """The URL of the API server."""
        return self._opened().origin.url

    def get(self, path: str, *, accept: str = JSON) -> HttpAnswer:
        """Send one GET; credentials that the server refuses are read again once.

        They may have expired: tokens of exec plugins, rotated files. Raises StateUnreachable.
        """
        return self._trusted(lambda client: client.get(path, accept=accept))

    def post(self, path: str, body: bytes) -> HttpAnswer:
        """Send one POST of JSON that may be sent again; as `get` otherwise."""
        return self._trusted(lambda client: client.post(path, body))

    def _trusted(self, send: Callable[[HttpsClient], HttpAnswer]) -> HttpAnswer:
        used = self._client is not None
        answer = send(self._opened())
        if answer.status == _UNAUTHORIZED and used:
            self.close()
            self._configured = None
            answer = send(self._opened())
        return answer

    def close(self) -> None:
        """End the connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _config(self) -> Configured:
        if self._configured is None:
            try:
                self._configured = Configured(self._access, environ=self._environ)
            except KubeConfigError as error:
                raise StateUnreachable(f"cannot use the {error}") from error
        return self._configured

    def _opened(self) -> HttpsClient:
        if self._client is None:
            config = self._config()
            try:
                reading = config.reading()
                tls = tls_context(reading, config.source)
            except KubeConfigError as error:
                raise StateUnreachable(f"cannot use the {error}") from error
            own = [("Authorization", reading.authorization)] if reading.authorization else []
            self._client = HttpsClient(
                Origin(
                    url=reading.server,
                    name="the API server",
                    remedy="name its authority in the kubeconfig or with --certificate-authority",
                    headers=(*own, *reading.impersonation),
                    tls=tls if reading.server.startswith("https:") else None,
                    server_hostname=reading.server_hostname,
                    proxy=reading.proxy or proxy_of_environment(reading.server, self._environ),
                    timeout_s=timeout_of(self._access),
                )
            )
        return self._client


def direct_route(access: ApiAccess, url: str, token: str | None) -> HttpsClient:
    """A client of the scheduler's own port. Raises StateUnreachable for unusable options."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname:
        raise StateUnreachable(f"--scheduler {url!r} is not an URL that begins with https://")
    try:
        tls = ssl.create_default_context(cafile=access.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise StateUnreachable(f"cannot use --ca-file {access.ca_file}: {error}") from error
    if access.insecure_skip_tls_verify:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return HttpsClient(
        Origin(
            url=url.rstrip("/"),
            name="the scheduler",
            remedy="name its authority with --ca-file",
            headers=() if token is None else (("Authorization", _BEARER + token),),
            tls=tls,
            timeout_s=timeout_of(access),
        )
    )


def token_for_scheduler(access: ApiAccess, environ: Mapping[str, str] = os.environ) -> str | None:
    """The token for `--scheduler`: --token-file or $KUBESHARE_TOKEN, None for none.

    Never the kubeconfig's, which opens the whole cluster, while the URL may be any server's. Raises
    StateUnreachable.
    """
    if access.token_file is not None:
        return _token_in(access.token_file)
    return environ.get(TOKEN_VARIABLE, "").strip() or None


def timeout_of(access: ApiAccess) -> float | None:
    """The limit of a request in seconds; None for no limit (--request-timeout 0)."""
    given = access.request_timeout
    return TIMEOUT_S if given is None else given or None


def _token_in(file: str) -> str:
    try:
        token = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise StateUnreachable(f"cannot read --token-file {file}: {error}") from error
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise StateUnreachable(f"--token-file {file} does not hold one token")
    return token


_TOKEN_HELP = f"give the scheduler's token with --token-file or {TOKEN_VARIABLE}"


_StateView = TypeVar("_StateView", ClusterView, WhyView, SchedulerList, AnsweredReview)


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
        return self._cluster(f"{ROOT}/{GPUS}{query}")

    def pods(self, namespace: str | None) -> ClusterView:
        """The pods of one namespace, or of all (None), by namespace and name. Raises StateError."""
        return self._cluster(collection_path(ROOT, PODS, namespace))

    def why(self, namespace: str, pod: str) -> WhyView:
        """Why a pod is where it is. Raises NotFound if the scheduler does not know it."""
        return self._fetch(object_path(ROOT, PODS, pod, namespace), WhyView)

    def schedulers(self, namespace: str) -> tuple[SchedulerView, ...]:
        """The scheduler's profiles, for a user of this namespace. Raises StateError."""
        path = collection_path(ROOT, SCHEDULERS, namespace)
        return self._fetch(path, SchedulerList).schedulers

    def prospect(self, namespace: str, pod: Mapping[str, Any]) -> ProspectView:
        """What would become of this pod if it were created now.

        Raises StateError; StateUnreachable if the scheduler is too old to say.
        """
        path, review = placement_review(namespace, pod)
        try:
            return self._fetch(path, AnsweredReview, msgspec.json.encode(review)).status
        except NotFound as error:
            raise StateUnreachable(
                f"the kubeshare-scheduler there is of an older version, and does not say what "
                f"would become of a pod: {error}"
            ) from error

    def snapshot(self) -> bytes:
        """All that the scheduler knows now, as a file of an event log. Raises StateError.

        StateUnreachable also if the scheduler is too old to have it.
        """
        try:
            body, _ = self._asked(f"{ROOT}/{SNAPSHOTS}/{CURRENT}", accept="*/*")
        except NotFound as error:
            raise StateUnreachable(
                f"the kubeshare-scheduler there is of an older version, and gives no snapshot of "
                f"what it knows: {error}"
            ) from error
        return body

    def close(self) -> None:
        """End the connections."""
        self.api.close()
        if self._direct is not None:
            self._direct.close()

    def _cluster(self, path: str) -> ClusterView:
        view = self._fetch(path, ClusterView)
        # Sorted here: sorting 50,000 pods would hold the scheduler's loop.
        pods = sorted(view.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid))
        return replace(view, pods=tuple(pods))

    def _fetch(self, path: str, kind: type[_StateView], body: bytes | None = None) -> _StateView:
        answered, via = self._asked(path, body)
        try:
            return msgspec.json.decode(answered, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise StateUnreachable(
                f"{via} does not answer as a kubeshare-scheduler of this version does: {error}"
            ) from error

    def _asked(
        self, path: str, body: bytes | None = None, *, accept: str = JSON
    ) -> tuple[bytes, str]:
        """GET, or POST of a body that changes nothing; what is answered, and by which server."""
        if self._access.scheduler is None:
            answer = (
                self.api.get(path, accept=accept) if body is None else self.api.post(path, body)
            )
            via = f"the API server at {self.api.server()}"
        else:
            client = self._opened(self._access.scheduler)
            answer = client.get(path, accept=accept) if body is None else client.post(path, body)
            via = client.origin.via
        if answer.status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise self._refusal(answer, via)
        return answer.body, via

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
        if answer.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
            return StateRefused(said)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            return StateUnreachable(
                f"no scheduler answers through {via}: {said} "
                f"(kubectl get apiservice {API_SERVICE} says why)"
            )
        return api_server_says(answer, via)

    def _is_served(self) -> bool:
        """Whether the API server knows the scheduler's API at all."""
        return self.api.get(ROOT).status != HTTPStatus.NOT_FOUND


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
    if status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY):
        return StateRefused(said)
    return StateUnreachable(f"{via} answers {status}: {said}")


# What only the API server knows of pods: labels, owners, and schedulerNames.


#: (namespace, name).
PodName = tuple[str, str]
_PAGE = 500
_JOBS = named("job/x").kind
_Item = TypeVar("_Item")
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


def known_ends(api: ApiServerRoute) -> tuple[Mapping[PodUid, "LatestEnd"], str]:
    """When running pods end at the latest, and what could not be read for it, "" if nothing.

    The user must be allowed to list the pods of all namespaces; Jobs help. Raises StateError.
    """
    # `when` alone asks for it.
    from kubeshare_py.manifests.deadlines import latest_ends, timed_objects  # noqa: PLC0415

    running = {"fieldSelector": "status.phase=Running"}
    of_pods, of_jobs = (partial(timed_objects, kind=kind) for kind in ("spec", "Job"))
    pods = list(_pages(api, collection_path(POD.api, POD.plural), of_pods, running))
    try:
        jobs = list(_pages(api, collection_path(_JOBS.api, _JOBS.plural), of_jobs, {}))
        problem = ""
    except StateRefused as refused:
        jobs, problem = [], f"deadlines of Jobs are not known: {refused}"
    return latest_ends(pods, jobs), problem


def _matching(api: ApiServerRoute, path: str, selector: str = "") -> set[PodName]:
    """Names only: the API server sends only metadata if asked to."""
    asked = {"labelSelector": selector} if selector else {}
    return set(_pages(api, path, names_in_list, asked, accept=_NAMES_ONLY))


def _pages(
    api: ApiServerRoute,
    path: str,
    read: Callable[[bytes], tuple[Iterable[_Item], str]],
    asked: Mapping[str, str],
    *,
    accept: str = JSON,
) -> Iterator[_Item]:
    """The items of all pages of a list. `read` finds those of one, and the next one's token.

    Raises StateError.
    """
    query = {**asked, "limit": str(_PAGE)}
    while True:
        answer = _got(api, f"{path}?{urlencode(query)}", accept=accept)
        try:
            found, query["continue"] = read(answer.body)
        except UNDECODABLE as error:
            raise _strange(api, error) from error
        yield from found
        if not query["continue"]:
            return


def _object(api: ApiServerRoute, kind: Workload, namespace: str, name: str) -> bytes:
    return _got(api, kind.path(namespace, name)).body


def _got(api: ApiServerRoute, path: str, *, accept: str = JSON) -> HttpAnswer:
    answer = api.get(path, accept=accept)
    if answer.status != HTTPStatus.OK:
        raise api_server_says(answer, f"the API server at {api.server()}")
    return answer


def _strange(api: ApiServerRoute, error: Exception) -> StateUnreachable:
    return StateUnreachable(f"the API server at {api.server()} answers no Kubernetes: {error}")


# What the API server would make of pods: dry runs of their creation, which create nothing.
#
# https://kubernetes.io/docs/reference/using-api/api-concepts/#dry-run


#: So many pods of one call are asked about: a chart has fewer.
_MOST = 200


class DryRuns:
    """Asks the API server of a kubeconfig. After a failure it asks no more.

    `namespace` is the one that the user means, and `problem` why the API server cannot be asked.
    """

    def __init__(
        self, access: ApiAccess, environ: Mapping[str, str] = os.environ, *, is_offline: bool
    ) -> None:
        """Read the kubeconfig. Raises StateUnreachable if one is named and cannot be used."""
        self._api = ApiServerRoute(access, environ)
        self._left = 0 if is_offline else _MOST
        self.problem = ""
        self._has_server = False
        self.namespace = access.namespace or DEFAULT_NAMESPACE
        if is_offline:
            return
        try:
            self.namespace = self._api.namespace()
            self._api.server()
        except StateUnreachable:
            if access.kubeconfig or access.context or access.server:
                raise
            self._left = 0  # There is no cluster, which is usual where manifests are made.
        self._has_server = self._left > 0

    @property
    def answers(self) -> bool:
        """Whether there is an API server to ask, by the kubeconfig and by its answers so far."""
        return self._has_server and not self.problem

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._api.close()

    def admission(self, template: PodTemplate) -> AdmissionAnswer:
        """What the API server says to this pod. Nothing for SharePods: a controller makes theirs.

        Never raises: a server that cannot be reached is a `problem`.
        """
        asked = dry_run(template, template.namespace or self.namespace)
        if not self._left or asked is None:
            return AdmissionAnswer()
        self._left -= 1
        path, pod = asked
        try:
            answer = self._api.post(path, msgspec.json.encode(pod))
        except StateUnreachable as error:
            self._left, self.problem = 0, str(error)
            return AdmissionAnswer()
        if answer.status == HTTPStatus.CREATED:
            return AdmissionAnswer(pod=answer.body, notes=answer.warnings)
        said = message_of(answer)
        found = dry_run_refused(answer.status, said, template, answer.warnings)
        if answer.status == HTTPStatus.UNAUTHORIZED and not found.refusal:
            self._left, self.problem = 0, said
            return AdmissionAnswer()
        return found


# Manifests from files and from standard input.


#: The name of standard input, as for kubectl.
STANDARD_INPUT = "-"


class UnreadableManifest(Exception):
    """A file cannot be read, or is no YAML; the text names it."""


def read_manifests(path: str) -> tuple[object, ...]:
    """The documents of a file in order, without empty ones. Raises UnreadableManifest."""
    is_input = path == STANDARD_INPUT
    source = "standard input" if is_input else path
    try:
        data = sys.stdin.buffer.read(MAX_BYTES + 1) if is_input else read_bytes(path)
        found = read_yaml_documents(data, source)
    except OSError as error:
        raise UnreadableManifest(f"{source}: {error.strerror}") from error
    except DocumentProblem as problem:
        raise UnreadableManifest(str(problem)) from problem
    return tuple(one for one in found if one is not None)
