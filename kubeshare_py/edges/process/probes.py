"""/livez and /readyz in the form of Kubernetes' own components.

`ok`, or 500 with a line for each check; `?verbose` lists them in any case, `?exclude=NAME` leaves
one out: https://kubernetes.io/docs/reference/using-api/health-checks/. They need no token, so their
texts name no address and no user.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

PATHS = ("/livez", "/readyz", "/healthz")


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """`problem` gives what is wrong now, "" if nothing is."""

    name: str
    problem: Callable[[], str]


def routes(
    live: Callable[[], Sequence[HealthCheck]], ready: Callable[[], Sequence[HealthCheck]]
) -> list[web.RouteDef]:
    """The routes; /healthz is an old name for everything."""
    found = []
    for path, checks in zip(PATHS, (live, ready, ready), strict=True):
        handler = _handler(path.strip("/"), checks)
        found += [web.get(path, handler), web.get(path + "/{check}", handler)]
    return found


def _handler(name: str, checks: Callable[[], Sequence[HealthCheck]]) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        only = request.match_info.get("check")
        wanted = [one for one in checks() if only in (None, one.name)]
        if not wanted:
            return web.Response(status=404, text="404 page not found\n")
        return _answer(name, wanted, request)

    return handler


def _answer(name: str, checks: Sequence[HealthCheck], request: web.Request) -> web.Response:
    excluded = set(request.query.getall("exclude", []))
    lines, failed = [], False
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
        elif problem := check.problem():
            failed = True
            lines.append(f"[-]{check.name} failed: {problem}")
        else:
            lines.append(f"[+]{check.name} ok")
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, no-store"}
    if failed:
        text = "\n".join((*lines, f"{name} check failed\n"))
        return web.Response(status=500, text=text, headers=headers)
    text = "\n".join((*lines, f"{name} check passed\n")) if "verbose" in request.query else "ok"
    return web.Response(text=text, headers=headers)
