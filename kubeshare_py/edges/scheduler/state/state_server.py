"""The scheduler's state, read-only over HTTPS, for `kubectl kubeshare` and dashboards.

`GET /state/v1/cluster` and `GET /state/v1/why/{namespace}/{pod}` answer the values of `views.view`
as JSON. A bearer token is required: one of the token file's, or one whose owner may get the path by
RBAC. Other routes are served beside it, `state_api`'s too.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from kubeshare_py.configuration.scheduler import ConfigurationError, Server
from kubeshare_py.domain.identity import PodKey
from kubeshare_py.edges.kube.delegated_auth import NOT_VALID, Denial
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.process.bounded_server import listening
from kubeshare_py.edges.process.build import say_listening, url
from kubeshare_py.edges.scheduler.configured_files import accepted_tokens
from kubeshare_py.edges.scheduler.state import state_api
from kubeshare_py.edges.scheduler.state.state_access import NO_TOKENS, bearer, is_one_of
from kubeshare_py.edges.scheduler.state.state_api import Views
from kubeshare_py.edges.scheduler.state.state_stream import ViewStreams
from kubeshare_py.scheduling.explain.visibility import sees_all

#: Why the owner of a token may not do a verb to a path; None if it is allowed.
Denies = Callable[[str, str, str], Awaitable[Denial | None]]


@asynccontextmanager
async def serve(
    settings: Server,
    context: ssl.SSLContext,
    views: Views,
    streams: ViewStreams,
    *,
    others: Iterable[web.RouteDef] = (),
    denial: Denies | None = None,
) -> AsyncIterator[str]:
    """Serve while the context is open; yields the URL.

    `context` has the certificate. `views` are shown in full, and `streams` bound how many are made
    at once. With `?topology=1`, the cluster's has the topology of nodes.
    `denial` checks tokens that are not in the token file. Without both, every request is refused
    except for health checks and `state_api`, which checks access itself.
    Raises ConfigurationError for files that cannot be used.
    """
    tokens = accepted_tokens(settings.token_file)
    app = web.Application(middlewares=[_guard(tokens, denial)])
    app.router.add_routes(others)
    app.router.add_get("/state/v1/cluster", _cluster(views, streams), allow_head=False)
    app.router.add_get("/state/v1/why/{namespace}/{pod}", _why(views, streams))
    async with AsyncExitStack() as stack:
        host, port = settings.bind_address, settings.port
        try:
            addresses = await stack.enter_async_context(listening(app, host, port, context=context))
        except OSError as error:
            where = f"{host}:{port}"
            raise ConfigurationError(f"server: cannot listen on {where}: {error}") from error
        say_listening("kubeshare-scheduler", addresses, "https")
        yield url("https", *addresses[0])


def _guard(tokens: Collection[str], denial: Denies | None) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if f"/{request.path.removeprefix('/').split('/')[0]}" in probes.PATHS:
            return await handler(request)
        if state_api.owns(request.path):
            return await handler(request)  # it identifies the reader itself
        given = bearer(request)
        if is_one_of(given, tokens):
            return await handler(request)
        if denial is None:
            message = NOT_VALID.message if tokens else NO_TOKENS
            return _answer(NOT_VALID.status, {"message": message})
        denied = await denial(given, request.method.lower(), request.path) if given else NOT_VALID
        if denied is not None:
            return _answer(denied.status, {"message": denied.message})
        return await handler(request)

    return check


def _cluster(views: Views, streams: ViewStreams) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        if streams.busy:
            return _answer(HTTPStatus.TOO_MANY_REQUESTS, {"message": state_api.TOO_MANY})
        portions = views.cluster(bool(request.query.get("topology")), sees_all)
        return await streams.send(request, portions, {})

    return handler


def _why(views: Views, streams: ViewStreams) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        key = PodKey(request.match_info["namespace"], request.match_info["pod"])
        if not views.ready():
            return _answer(503, {"message": "the scheduler has not read the cluster yet"})
        if streams.busy:
            return _answer(HTTPStatus.TOO_MANY_REQUESTS, {"message": state_api.TOO_MANY})
        view = await streams.make(views.why(key, sees_all))
        if view is None:
            return _answer(404, {"message": f"the scheduler knows no pod {key} of its own"})
        return _answer(200, view)

    return handler


def _answer(status: int, value: object) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(value), content_type="application/json"
    )
