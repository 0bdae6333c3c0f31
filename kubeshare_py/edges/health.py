"""/livez and /readyz, answered the way Kubernetes' own components do.

`ok`, or 500 with a line for each check; `?verbose` lists them in any case, `?exclude=NAME` leaves
one out: https://kubernetes.io/docs/reference/using-api/health-checks/. Open to everybody, so what
is said names no address and no user.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from aiohttp.typedefs import Handler

from kubeshare_py.edges.vital_signs import VitalSigns

#: No turn for so long (s), and the process had better be started again.
LONGEST_SILENCE_S = 60.0
#: A watch may be away for so long (s): a restart of the API server.
LONGEST_LOSS_S = 60.0
#: Missed readings of the inventory, and at least so long (s).
READINGS_MISSED, LONGEST_UNREAD_S = 5, 60.0
#: Turns that come later than this (s) are told.
MOST_LAG_S = 1.0

PATHS = ("/livez", "/readyz", "/healthz")


@dataclass(frozen=True, slots=True)
class Check:
    """`problem` says what is wrong now, "" if nothing is."""

    name: str
    problem: Callable[[], str]


def live_checks(signs: VitalSigns) -> list[Check]:
    """What only a new start would help against."""
    return [Check("ping", lambda: ""), Check("turns", lambda: _silence(signs))]


def ready_checks(signs: VitalSigns, interval_s: float) -> list[Check]:
    """What must hold for decisions to be right and timely; `interval_s` is the inventory's."""
    return [
        *live_checks(signs),
        Check("pods-and-nodes-listed", lambda: "" if signs.machine.ready else "not yet"),
        *(Check(f"watch-{name}", partial(_loss, signs, name)) for name in signs.watches),
        Check("inventory", lambda: _unread(signs, interval_s)),
        Check("loop-lag", lambda: _lag(signs)),
    ]


def routes(
    live: Callable[[], Sequence[Check]], ready: Callable[[], Sequence[Check]]
) -> list[web.RouteDef]:
    """The routes; /healthz is an old name for everything."""
    found = []
    for path, checks in zip(PATHS, (live, ready, ready), strict=True):
        handler = _handler(path.strip("/"), checks)
        found += [web.get(path, handler), web.get(path + "/{check}", handler)]
    return found


def _handler(name: str, checks: Callable[[], Sequence[Check]]) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        only = request.match_info.get("check")
        wanted = [one for one in checks() if only in (None, one.name)]
        if not wanted:
            return web.Response(status=404, text="404 page not found\n")
        return _answer(name, wanted, request)

    return handler


def _answer(name: str, checks: Sequence[Check], request: web.Request) -> web.Response:
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


def _silence(signs: VitalSigns) -> str:
    if not signs.turns:
        return ""  # it stands by
    silent_s = signs.clock() - signs.turned_at
    return f"no turn for {silent_s:.0f} s" if silent_s > LONGEST_SILENCE_S else ""


def _loss(signs: VitalSigns, watch: str) -> str:
    lost_s = signs.lost_s(watch)
    return f"not connected for {lost_s:.0f} s" if lost_s > LONGEST_LOSS_S else ""


def _unread(signs: VitalSigns, interval_s: float) -> str:
    age_s = signs.inventory_age_s()
    since_s = signs.clock() - signs.started_at if age_s is None else age_s
    if since_s <= max(LONGEST_UNREAD_S, READINGS_MISSED * interval_s):
        return ""
    return f"not read for {since_s:.0f} s" if age_s is not None else "never read"


def _lag(signs: VitalSigns) -> str:
    lag_s = signs.lag_s
    return f"turns came {lag_s:.1f} s late within the last minute" if lag_s > MOST_LAG_S else ""
