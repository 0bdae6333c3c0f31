"""The scheduler's state as a group of the Kubernetes API, `state.kubeshare.io/v1`.

kube-apiserver forwards requests of its users below `/apis/state.kubeshare.io/v1` (by an
APIService), once it has authenticated them and RBAC allows them:
https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/

Each request is authorized here once more, because a token opens these paths directly too.
"""

from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from http import HTTPStatus

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.kube.delegated_auth import Denial, UserInfo
from kubeshare_py.edges.scheduler.state.state_access import StateAccess, TokenHolder, reading
from kubeshare_py.edges.scheduler.state.state_stream import ViewStreams
from kubeshare_py.manifests import state_group, state_objects
from kubeshare_py.manifests.state_group import GPUS, PODS, ROOT
from kubeshare_py.manifests.state_objects import card_objects, pod_objects
from kubeshare_py.manifests.state_table import card_rows, pod_row, pod_rows, table, wants_table
from kubeshare_py.scheduling.explain.visibility import Sees
from kubeshare_py.views.view import ClusterView, WhyView

StateReader = UserInfo | TokenHolder
WhySteps = Callable[[PodKey, Sees], Generator[None, None, WhyView | None]]
StateAnswer = Callable[[web.Request, StateReader], Awaitable[web.StreamResponse]]

TOO_MANY = "too many read the state; try again"
#: Parameters by which kubectl and client libraries are known: they expect a list of objects. All
#: others get the whole view in one object, as documented.
_OF_LISTS = frozenset(
    {"limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"}
)
_PREFIXES = ("/apis", "/openapi")
_OBJECTS = f"{ROOT}/namespaces/{{namespace}}/{PODS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The sources of the answers; lists have only what the reader may see.

    `cluster` gets whether the topology of nodes is requested, `pods` the namespace ("" for all);
    both return portions, the first of which has all that is no list. `why` is made in steps.
    """

    ready: Callable[[], bool]
    cluster: Callable[[bool, Sees], Iterable[ClusterView]]
    pods: Callable[[str, Sees], Iterable[ClusterView]]
    why: WhySteps


class StateApi:
    """Routes of the API group."""

    def __init__(self, views: Views, access: StateAccess, streams: ViewStreams) -> None:
        """`streams` bound what is asked at once, by all ways."""
        self._views = views
        self._access = access
        self._streams = streams

    def routes(self) -> list[web.RouteDef]:
        """All routes; each identifies the reader itself."""
        documents: dict[str, Callable[[], state_group.Json]] = {
            f"/apis/{state_group.GROUP}": state_group.group,
            ROOT: state_group.resource_list,
            "/openapi/v2": state_group.openapi_v2,
            "/openapi/v3": state_group.openapi_v3,
            f"/openapi/v3{ROOT}": state_objects.openapi_v3,
        }
        answers: dict[str, StateAnswer] = {
            **{path: _document(made) for path, made in documents.items()},
            "/apis": _groups,
            f"{ROOT}/{GPUS}": self._gpus,
            f"{ROOT}/{GPUS}/{{name}}": self._gpu,
            f"{ROOT}/{PODS}": self._pods,
            _OBJECTS: self._pods,
            f"{_OBJECTS}/{{name}}": self._pod,
        }
        routes = [
            web.get(path, self._asked(answer), allow_head=False) for path, answer in answers.items()
        ]
        rest = self._asked(_nothing)
        return [*routes, *(web.route("*", f"{one}{{path:(/.*)?}}", rest) for one in _PREFIXES)]

    def _asked(self, answer: StateAnswer) -> Handler:
        """Let identified readers through."""

        async def handler(request: web.Request) -> web.StreamResponse:
            reader = await self._access.reader(request)
            if isinstance(reader, Denial):
                return refusal(reader.status, reader.message)
            return await answer(request, reader)

        return handler

    async def _gpus(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        denied = await self._access.refuses(reader, reading("list", GPUS))
        if denied is not None:
            return _denied(denied, GPUS)
        if (unknown := _not_served(request, GPUS)) is not None:
            return unknown
        topology = bool(request.query.get("topology"))
        sees = await self._access.sees(reader)
        if isinstance(sees, Denial):
            return refusal(sees.status, sees.message)
        portions = self._views.cluster(topology, sees)
        return await self._list(request, state_group.GPU_LIST, portions)

    async def _gpu(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        uuid = request.match_info["name"]
        denied = await self._access.refuses(reader, reading("get", GPUS, name=uuid))
        if denied is not None:
            return _denied(denied, GPUS, uuid)
        sees = await self._access.sees(reader)
        if isinstance(sees, Denial):
            return refusal(sees.status, sees.message)
        if self._streams.busy:
            return _too_many()
        found = await self._streams.make(_with_card(self._views.cluster(False, sees), uuid))
        if found is None:
            message = f'{GPUS}.{state_group.GROUP} "{uuid}" not found'
            return refusal(HTTPStatus.NOT_FOUND, message, GPUS, uuid)
        if wants_table(_accept(request)):
            return answer_json(table([*card_rows(found)], of_cards=True))
        return answer_json(next(card_objects(found)))

    async def _pods(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        namespace = request.match_info.get("namespace", "")
        denied = await self._access.refuses(reader, reading("list", PODS, namespace))
        if denied is not None:
            return _denied(denied, PODS)
        if (unknown := _not_served(request, PODS)) is not None:
            return unknown
        sees = await self._access.sees(reader, namespace)
        if isinstance(sees, Denial):
            return refusal(sees.status, sees.message)
        portions = self._views.pods(namespace, sees)
        return await self._list(request, state_group.POD_LIST, portions)

    async def _list(
        self, request: web.Request, kind: str, portions: Iterable[ClusterView]
    ) -> web.StreamResponse:
        if self._streams.busy:
            return _too_many()
        if wants_table(_accept(request)):
            return await self._streams.send_texts(request, table_texts(portions, kind))
        if not request.query.keys().isdisjoint(_OF_LISTS):
            return await self._streams.send_texts(request, list_texts(portions, kind))
        head = {"kind": kind, "apiVersion": state_group.API_VERSION, "metadata": {}}
        return await self._streams.send(request, portions, head)

    async def _pod(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        key = PodKey(request.match_info["namespace"], request.match_info["name"])
        denied = await self._access.refuses(reader, reading("get", PODS, key.namespace, key.name))
        if denied is not None:
            return _denied(denied, PODS, key.name)
        if not self._views.ready():
            message = "the scheduler has not read the cluster yet"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        sees = await self._access.sees(reader, key.namespace)
        if isinstance(sees, Denial):
            return refusal(sees.status, sees.message)
        if self._streams.busy:
            return _too_many()
        view = await self._streams.make(self._views.why(key, sees))
        if view is None:
            message = f"the scheduler knows no pod {key} of its own"
            return refusal(HTTPStatus.NOT_FOUND, message, PODS, key.name)
        return _shown(request, key, view)


def owns(path: str) -> bool:
    """Whether a path is this group's, or discovery on the way to it."""
    return any(path == prefix or path.startswith(f"{prefix}/") for prefix in _PREFIXES)


def refusal(code: int, message: str, resource: str = "", name: str = "") -> web.Response:
    """An error as a Status."""
    headers = {"Retry-After": "1"} if code == HTTPStatus.TOO_MANY_REQUESTS else {}
    body = state_group.status(code, message, resource, name)
    return answer_json(body, code, headers)


def answer_json(
    value: object, code: int = 200, headers: dict[str, str] | None = None
) -> web.Response:
    """A JSON answer."""
    body = msgspec.json.encode(value)
    return web.Response(status=code, body=body, content_type="application/json", headers=headers)


def _denied(denied: Denial, resource: str, name: str = "") -> web.Response:
    """A denial in kube-apiserver's words, which begin with the resource."""
    if denied.status != HTTPStatus.FORBIDDEN:
        return refusal(denied.status, denied.message)
    what = f'{resource}.{state_group.GROUP} "{name}"' if name else f"{resource}.{state_group.GROUP}"
    return refusal(denied.status, f"{what} is forbidden: {denied.message}", resource, name)


def _accept(request: web.Request) -> str:
    return ",".join(request.headers.getall("Accept", []))


def _shown(request: web.Request, key: PodKey, view: WhyView) -> web.Response:
    if wants_table(_accept(request)):
        return answer_json(table([pod_row(view.pod)], of_cards=False))
    head = {
        "kind": state_group.POD,
        "apiVersion": state_group.API_VERSION,
        "metadata": {"namespace": key.namespace, "name": key.name, "uid": view.pod.uid},
    }
    return answer_json({**head, **msgspec.to_builtins(view)})


def table_texts(portions: Iterable[ClusterView], kind: str) -> Iterator[bytes]:
    """A table as JSON in pieces, the rows of each portion together."""
    of_cards = kind == state_group.GPU_LIST
    # `rows` is the table's last field, so that the pieces go between its brackets.
    yield from _pieces(
        table([], of_cards=of_cards),
        portions,
        card_rows if of_cards else pod_rows,
        of_cards=of_cards,
    )


def list_texts(portions: Iterable[ClusterView], kind: str) -> Iterator[bytes]:
    """A list of objects as JSON in pieces, those of each portion together."""
    of_cards = kind == state_group.GPU_LIST
    head = {"kind": kind, "apiVersion": state_group.API_VERSION, "metadata": {}, "items": []}
    yield from _pieces(head, portions, card_objects if of_cards else pod_objects, of_cards=of_cards)


def _pieces(
    head: object,
    portions: Iterable[ClusterView],
    items_of: Callable[[ClusterView], Iterable[object]],
    *,
    of_cards: bool,
) -> Iterator[bytes]:
    """An object whose last field is an empty list, with the items of the portions in it."""
    yield msgspec.json.encode(head).removesuffix(b"]}")
    separator = b""
    for portion in portions:
        items = [*items_of(portion)]
        if not items and (portion.pods if of_cards else portion.nodes):
            break  # all items were in the portions before
        yield separator + msgspec.json.encode(items)[1:-1] if items else b""
        separator = separator or (b"," if items else b"")
    yield b"]}"


def _with_card(
    portions: Iterable[ClusterView], uuid: str
) -> Generator[None, None, ClusterView | None]:
    """The card with its node and nothing else; None if there is none."""
    for portion in portions:
        for node in portion.nodes:
            cards = tuple(card for card in node.cards if card.uuid == uuid)
            if cards:
                return replace(portion, nodes=(replace(node, cards=cards),), pods=())
        if portion.pods:
            break  # all nodes were in the portions before
        yield
    return None


def _not_served(request: web.Request, resource: str) -> web.Response | None:
    """A refusal of what a list of this group cannot do, which clients would not notice else."""
    plugin = f"`kubectl kubeshare {resource}"
    if request.query.get("watch", "").lower() in ("1", "t", "true"):
        message = f"{resource}.{state_group.GROUP} cannot be watched: {plugin} -w` shows changes"
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, message, resource)
    if request.query.get("labelSelector"):
        what = "labels of nodes" if resource == GPUS else "labels of pods"
        message = f"{resource}.{state_group.GROUP} have no labels: {plugin} -l` takes {what}"
        return refusal(HTTPStatus.BAD_REQUEST, message, resource)
    if request.query.get("fieldSelector"):
        message = (
            f"{resource}.{state_group.GROUP} cannot be selected by fields: {plugin} NAME` shows "
            + ("the cards of a node" if resource == GPUS else "a pod")
        )
        return refusal(HTTPStatus.BAD_REQUEST, message, resource)
    return None


def _too_many() -> web.Response:
    return refusal(HTTPStatus.TOO_MANY_REQUESTS, TOO_MANY)


def _document(made: Callable[[], state_group.Json]) -> StateAnswer:
    async def answer(_request: web.Request, _reader: StateReader) -> web.StreamResponse:
        return answer_json(made())

    return answer


async def _groups(request: web.Request, _reader: StateReader) -> web.StreamResponse:
    content_type = state_group.discovery_type(_accept(request))
    if not content_type:
        return answer_json(state_group.group_list())
    body = msgspec.json.encode(state_group.group_discovery(content_type))
    return web.Response(body=body, headers={"Content-Type": content_type, "Vary": "Accept"})


async def _nothing(request: web.Request, _reader: StateReader) -> web.StreamResponse:
    if request.method != "GET":
        message = "the server does not allow this method on the requested resource"
        return refusal(HTTPStatus.METHOD_NOT_ALLOWED, message)
    return refusal(HTTPStatus.NOT_FOUND, "the server could not find the requested resource")
