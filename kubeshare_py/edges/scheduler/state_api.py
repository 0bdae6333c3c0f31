"""The scheduler's state as a group of the Kubernetes API, `state.kubeshare.io/v1`.

kube-apiserver forwards requests of its users below `/apis/state.kubeshare.io/v1` (by an
APIService), once it has authenticated them and RBAC allows them:
https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/apiserver-aggregation/
A PlacementReview asks about a pod that does not exist; nothing is stored, and nothing changes.

Each request is authorized here once more, because a token opens these paths directly too.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from time import perf_counter
from typing import TypeVar
from uuid import uuid4

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import MAX_TEXT, beginning, listed, printable
from kubeshare_py.domain.values import replace
from kubeshare_py.edges.kube.delegated_auth import Denial
from kubeshare_py.edges.process.bounded_server import HeldBodies
from kubeshare_py.edges.process.connection_abort import abort
from kubeshare_py.edges.process.question_turns import (
    LARGE,
    QuestionTurns,
    TooManyQuestions,
    aside,
)
from kubeshare_py.edges.scheduler.state_access import (
    StateAccess,
    TokenHolder,
    creating_pods,
    reading,
)
from kubeshare_py.manifests import state_group
from kubeshare_py.manifests.client_pods import MAX_POD_BYTES, BadReview, read_review, reviewed
from kubeshare_py.manifests.state_group import (
    CURRENT,
    GPUS,
    PODS,
    REVIEWS,
    ROOT,
    SCHEDULERS,
    SNAPSHOTS,
    UserInfo,
    card_objects,
    card_rows,
    pod_objects,
    pod_row,
    pod_rows,
    scheduler_list,
    table,
    wants_table,
)
from kubeshare_py.scheduling.explain.question import Sees
from kubeshare_py.views.view import ClusterView, ProspectView, SchedulerView, WhyView

# Large answers of the state's endpoints: sent while they are made, a portion at a time.


#: The most answers being made and sent, and with those that wait; further requests are refused.
MAX_MADE, MAX_ASKED = 4, 32
#: A reader that is slower (s) is cut off; otherwise a few of them would keep out all others.
SLOWEST_S = 60.0

T = TypeVar("T")


class ViewStreams:
    """Sends views, a few at a time, in at most every other iteration of the event loop."""

    def __init__(self, slowest_s: float = SLOWEST_S) -> None:
        self._slowest_s = slowest_s
        self._slots = asyncio.Semaphore(MAX_MADE)
        #: Held while a portion is made, so that decisions come after each, however many read.
        self._making = asyncio.Lock()
        self._asked = 0

    @property
    def busy(self) -> bool:
        """Whether so many requests wait already that one more should be repeated later."""
        return self._asked >= MAX_ASKED

    async def send(
        self, request: web.Request, portions: Iterable[ClusterView], more: Mapping[str, object]
    ) -> web.StreamResponse:
        """Answer with the portions as one JSON object, with the additional fields `more`.

        The first portion has all that is no list. Other tasks run after each.
        """
        return await self.send_texts(request, view_texts(portions, more))

    async def send_texts(
        self, request: web.Request, texts: Iterator[bytes], content_type: str = "application/json"
    ) -> web.StreamResponse:
        """Answer with these pieces of JSON as they are made. Other tasks run after each."""
        answer = web.StreamResponse()
        answer.content_type = content_type
        self._asked += 1
        try:
            async with self._slots, asyncio.timeout(self._slowest_s):
                await answer.prepare(request)
                while (text := await self._made(texts)) is not None:
                    await answer.write(text)
                await answer.write_eof()
        except TimeoutError:
            # Without the end, the reader sees that the answer is incomplete.
            abort(request.transport)
        finally:
            self._asked -= 1
        return answer

    async def make(self, steps: Generator[None, None, T]) -> T:
        """An answer that is made in steps; after each, other tasks run for as long as it took.

        So however many ask, at least half of the time is left for decisions.
        """
        self._asked += 1
        try:
            async with self._slots:
                while True:
                    await self._making.acquire()
                    began_s = perf_counter()
                    try:
                        next(steps)
                    except StopIteration as end:
                        answer: T = end.value
                        return answer
                    finally:
                        pause_s = perf_counter() - began_s
                        asyncio.get_running_loop().call_later(pause_s, self._making.release)
        finally:
            self._asked -= 1

    async def _made(self, texts: Iterator[bytes]) -> bytes | None:
        async with self._making:
            text = next(texts, None)
            await asyncio.sleep(0)
            return text


def view_texts(portions: Iterable[ClusterView], more: Mapping[str, object]) -> Iterator[bytes]:
    """JSON in pieces; each list is where its first items came."""
    missing, opened = ["nodes", "pods"], ""
    for number, portion in enumerate(portions):
        text = b""
        if not number:
            head = msgspec.to_builtins(replace(portion, nodes=(), pods=()))
            del head["nodes"], head["pods"]
            text = msgspec.json.encode({**more, **head})[:-1]
        for name in ("nodes", "pods"):
            items = getattr(portion, name)
            if not items:
                continue
            if name != opened:
                text += b'],"%b":[' % name.encode() if opened else b',"%b":[' % name.encode()
                missing.remove(name)
            else:
                text += b","
            opened = name
            text += msgspec.json.encode(items)[1:-1]
        yield text
    end = b"]" if opened else b""
    yield end + b"".join(b',"%b":[]' % name.encode() for name in missing) + b"}"


StateReader = UserInfo | TokenHolder
WhySteps = Callable[[PodKey, Sees], Generator[None, None, WhyView | None]]
ProspectSteps = Callable[[Pod, Sees], Generator[None, None, ProspectView | None]]
StateAnswer = Callable[[web.Request, StateReader], Awaitable[web.StreamResponse]]

TOO_MANY = "too many read the state; try again"
#: Parameters by which kubectl and client libraries are known: they expect a list of objects. All
#: others get the whole view in one object, as documented.
_OF_LISTS = frozenset(
    {"limit", "continue", "resourceVersion", "resourceVersionMatch", "timeoutSeconds"}
)
_PREFIXES = ("/apis", "/openapi")
_NAMESPACE = f"{ROOT}/namespaces/{{namespace}}"
_OBJECTS = f"{_NAMESPACE}/{PODS}"
#: The most bytes of all reviews that arrive or are answered, and of one: its pod, and what is
#: around it.
MAX_REVIEW_BYTES = MAX_POD_BYTES + 2**16
MAX_HELD_BYTES = 4 * MAX_REVIEW_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """The sources of the answers; lists have only what the reader may see.

    `cluster` gets whether the topology of nodes is requested, `pods` the namespace ("" for all);
    both return portions, the first of which has all that is no list. `why` is made in steps, and so
    is `prospect`, about a pod that does not exist: None if no profile has its schedulerName.
    `schedulers` are the profiles, and pods are read in their `dialects`. `snapshot` has the bytes
    of all that is known at the moment of the call, in pieces.
    """

    ready: Callable[[], bool]
    cluster: Callable[[bool, Sees], Iterable[ClusterView]]
    pods: Callable[[str, Sees], Iterable[ClusterView]]
    why: WhySteps
    prospect: ProspectSteps
    schedulers: Callable[[], Sequence[SchedulerView]]
    snapshot: Callable[[], Iterator[bytes]]
    dialects: Dialects


class StateApi:
    """Routes of the API group."""

    def __init__(self, views: Views, access: StateAccess, streams: ViewStreams) -> None:
        """`streams` bound what is asked at once, by all ways."""
        self._views = views
        self._access = access
        self._streams = streams
        self._bodies = HeldBodies(each=MAX_REVIEW_BYTES, total=MAX_HELD_BYTES)
        self._turns = QuestionTurns()

    def routes(self) -> list[web.RouteDef]:
        """All routes; each identifies the reader itself."""
        documents: dict[str, Callable[[], state_group.Json]] = {
            f"/apis/{state_group.GROUP}": state_group.group,
            ROOT: state_group.resource_list,
            "/openapi/v2": state_group.openapi_v2,
            "/openapi/v3": state_group.openapi_v3,
            f"/openapi/v3{ROOT}": state_group.openapi_v3_schema,
        }
        answers: dict[str, StateAnswer] = {
            **{path: _document(made) for path, made in documents.items()},
            "/apis": _groups,
            f"{ROOT}/{GPUS}": self._gpus,
            f"{ROOT}/{GPUS}/{{name}}": self._gpu,
            f"{ROOT}/{PODS}": self._pods,
            _OBJECTS: self._pods,
            f"{_OBJECTS}/{{name}}": self._pod,
            f"{_NAMESPACE}/{SCHEDULERS}": self._schedulers,
            f"{ROOT}/{SNAPSHOTS}/{CURRENT}": self._snapshot,
        }
        routes = [
            web.get(path, self._asked(answer), allow_head=False) for path, answer in answers.items()
        ]
        routes.append(web.post(f"{_NAMESPACE}/{REVIEWS}", self._asked(self._review)))
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

    async def _schedulers(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        asked = reading("list", SCHEDULERS, request.match_info["namespace"])
        denied = await self._access.refuses(reader, asked)
        if denied is not None:
            return _denied(denied, SCHEDULERS)
        return answer_json(scheduler_list(self._views.schedulers()))

    async def _snapshot(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        denied = await self._access.refuses(reader, reading("get", SNAPSHOTS, name=CURRENT))
        if denied is not None:
            return _denied(denied, SNAPSHOTS, CURRENT)
        if not self._views.ready():
            message = "the scheduler has not read the cluster yet"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        if self._streams.busy:
            return _too_many()
        pieces = self._views.snapshot()
        return await self._streams.send_texts(request, pieces, "application/octet-stream")

    async def _review(self, request: web.Request, reader: StateReader) -> web.StreamResponse:
        namespace = request.match_info["namespace"]
        sees = await self._review_sees(reader, namespace)
        if isinstance(sees, web.Response):
            return sees
        try:
            async with self._bodies.body_of(request) as body:
                pod = await self._pod_of(body, namespace, reader)
                found = await self._streams.make(self._views.prospect(pod, sees))
        except web.HTTPRequestEntityTooLarge:
            message = f"a {state_group.REVIEW} has at most {MAX_REVIEW_BYTES} bytes"
            return refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message, REVIEWS)
        except BadReview as error:
            return refusal(HTTPStatus.BAD_REQUEST, str(error), REVIEWS)
        except TooManyQuestions:
            return _too_many()
        if found is not None:
            return answer_json(reviewed(namespace, found), HTTPStatus.CREATED)
        names = listed([one.name for one in self._views.schedulers()])
        asked = printable(beginning(repr(pod.scheduler_name), MAX_TEXT))
        message = f"no profile of this scheduler is called {asked}: it has {names}"
        return refusal(HTTPStatus.UNPROCESSABLE_ENTITY, message, REVIEWS)

    async def _review_sees(self, reader: StateReader, namespace: str) -> Sees | web.Response:
        """Which pods a review may name; a refusal if none is answered now.

        A reader that may create pods in the namespace may ask what would become of one.
        """
        for asked in (reading("create", REVIEWS, namespace), creating_pods(namespace)):
            denied = await self._access.refuses(reader, asked)
            if denied is not None:
                return _denied(denied, REVIEWS)
        if not self._views.ready():
            message = "the scheduler has not read the cluster yet"
            return refusal(HTTPStatus.SERVICE_UNAVAILABLE, message)
        sees = await self._access.sees_in(reader, namespace)
        if isinstance(sees, Denial):
            return refusal(sees.status, sees.message)
        return _too_many() if self._streams.busy else sees

    async def _pod_of(self, body: bytes, namespace: str, reader: StateReader) -> Pod:
        """The pod of a review. Raises BadReview, and TooManyQuestions."""
        client = reader.username if isinstance(reader, UserInfo) else ""
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        read = partial(
            read_review, body, namespace, PodUid(str(uuid4())), created, self._views.dialects
        )
        async with self._turns.turn(client, len(body)):
            return read() if len(body) < LARGE else await aside(read)


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
                narrowed = replace(node, cards=cards)
                return replace(portion, nodes=(narrowed,), pods=())
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
