"""Whether one API server answers, and the log lines about it.

A dozen loops of one process use the same server, and all of them notice when it is away. The log
has one line when it stops answering, one per minute while that lasts, and one when it answers
again.
"""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus

from kubeshare_py.edges.kube.errors import KubeError, KubeUnreachable
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.log_limit import LogLimit

AWAY, BACK = "api server away", "api server back"


class ApiContact:
    """Shared by the clients of one process, on any of its threads. `server` is host:port."""

    def __init__(self, server: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, and never set."""
        self._server = server
        self._clock = clock
        self._lines = LogLimit(clock)
        self._cuts = LogLimit(clock)
        self._away_since: float | None = None
        self._logged_away = False
        self._lock = threading.Lock()

    @property
    def is_away(self) -> bool:
        """Whether the last request had no answer."""
        return self._away_since is not None

    def answered(self) -> None:
        """The server answered a request, whatever the answer."""
        if self._away_since is None:
            return
        with self._lock:
            self._answered()

    def missed(self, message: str) -> None:
        """A request had no answer; `message` names the request and the reason."""
        with self._lock:
            self._missed(message)

    def failed(self, event: str, error: Exception | None, path: str, **fields: object) -> None:
        """A repeated request failed; `error` None: the answer ended early.

        Logged at most once a minute per path; for all paths together if the server is in trouble
        (5xx, 429), has lost its history (410) or breaks connections. A path's first break within a
        minute is not logged: servers are restarted, and `missed` reports it if none answers after
        that.
        """
        fields = {"path": path, **fields, "message": str(error or "ended early")}
        is_cut = error is None or isinstance(error, KubeUnreachable)
        if self.is_away or (is_cut and not self._cuts.seen_lately(f"{event} {path}")):
            decision_log.detail(event, **fields)
            return
        trouble = "cut" if is_cut else _trouble(error)
        if self._lines.is_due(trouble or f"{event} {path}"):
            decision_log.warn(event, **fields)
        else:
            decision_log.detail(event, **fields)

    def _answered(self) -> None:
        if self._away_since is None:
            return  # another thread noticed it first
        away_s = self._clock() - self._away_since
        self._away_since = None
        if self._logged_away:
            self._logged_away = False
            decision_log.inform(BACK, server=self._server, away_s=round(away_s, 1))

    def _missed(self, message: str) -> None:
        if self._away_since is None:
            self._away_since = self._clock()
        if self._lines.is_due(AWAY):
            self._logged_away = True
            away_s = round(self._clock() - self._away_since, 1)
            decision_log.warn(AWAY, server=self._server, message=message, away_s=away_s)
        else:
            decision_log.detail(AWAY, server=self._server, message=message)


def _trouble(error: Exception | None) -> str:
    """The trouble of the whole server, "" if only this request failed.

    Busy, broken, or without the history from which all its watches were to resume.
    """
    for one in (error, error.__cause__ if error is not None else None):
        if isinstance(one, KubeError) and (one.may_pass or one.status == HTTPStatus.GONE):
            return str(one.status)
    return ""
