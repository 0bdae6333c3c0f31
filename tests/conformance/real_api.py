"""The same client as for the embedded server's pure half, but of a real API server over HTTPS."""

import http.client
import json
import queue
import threading
import urllib.parse
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kubeshare_py.embedded_cluster.protocol.messages import ApiResponse
from kubeshare_py.embedded_cluster.serving.server import ADMIN
from tests.controlplane.running import ControlPlane
from tests.embedded_cluster.api_client import Api, Watch

#: A watch has said all that it has to say when it is silent for so long (seconds).
_SILENCE_S = 0.4
_TIMEOUT_S = 20.0
_POLL_S = 0.1


class RealApi(Api):
    """Requests of one user; leaving it ends watches and the connection."""

    def __init__(self, plane: ControlPlane, user: str = ADMIN) -> None:
        self.answer = ApiResponse()
        self._token = plane.secrets.tokens[user]
        self._host = urllib.parse.urlsplit(plane.url).netloc
        self._context = plane.secrets.certificates.client_context()
        self._connection = self._connect(_TIMEOUT_S)
        self._watches: list[RealWatch] = []
        self._pause = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for watch in self._watches:
            watch.close()
        self._connection.close()

    def compact(self) -> None:
        raise NotImplementedError(
            "a real server forgets after minutes; mark the test embedded_only"
        )

    def raw(self, method: str, url: str, body: Any = None, **options: str) -> ApiResponse:
        headers = self._headers(options.get("accept", "application/json"))
        headers["Content-Type"] = options.get("content_type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        self._connection.request(method, _quoted(url), data, headers)
        with self._connection.getresponse() as response:
            return ApiResponse(
                status=response.status,
                body=response.read(),
                content_type=response.headers.get("Content-Type", ""),
                headers=tuple(response.headers.items()),
            )

    def watch(self, url: str, accept: str = "application/json") -> Watch:
        url += ("&" if "?" in url else "?") + "watch=true"
        connection = self._connect(None)
        connection.request("GET", _quoted(url), headers=self._headers(accept))
        watch = RealWatch(connection)
        self._watches.append(watch)
        return watch

    def make_namespace(self) -> None:
        """Create the namespace fs unless it is there, and wait for what pods need in it."""
        self.expect_eventually(
            lambda: self.post("/api/v1/namespaces", {"metadata": {"name": "fs"}}), _is_there
        )
        self.expect_eventually(
            lambda: self.get("/api/v1/namespaces/fs/serviceaccounts/default"), _is_found
        )

    def expect_eventually(self, ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> None:
        """Ask ten times a second; raises AssertionError in the end."""
        for _ in range(round(_TIMEOUT_S / _POLL_S)):
            answer = ask()
            if wanted(answer):
                return
            self._pause.wait(_POLL_S)
        raise AssertionError(f"it is still {answer}")

    def revision(self) -> str:
        """The newest version of everything."""
        version: str = self.get("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"]
        return version

    def _connect(self, timeout_s: float | None) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(self._host, context=self._context, timeout=timeout_s)

    def _headers(self, accept: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}", "Accept": accept}


class RealWatch(Watch):
    """An open watch, read by a thread."""

    def __init__(self, connection: http.client.HTTPSConnection) -> None:
        self._connection = connection
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, args=[connection.getresponse()])
        self._thread.start()

    def events(self) -> list[Any]:
        found = []
        while True:
            try:
                found.append(json.loads(self._lines.get(timeout=_SILENCE_S)))
            except queue.Empty:
                return found

    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def close(self) -> None:
        """End it."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(2)
        self._thread.join()
        self._connection.close()

    def _read(self, response: http.client.HTTPResponse) -> None:
        try:
            for line in response:
                self._lines.put(line)
        except (OSError, http.client.HTTPException):
            return  # closed from this side


def _is_there(answer: Any) -> bool:
    """Whether a creation was answered with the object, or with that it exists and stays."""
    return bool(answer["kind"] == "Namespace" or "already exists" in answer["message"])


def _is_found(answer: Any) -> bool:
    return bool(answer["kind"] != "Status")


def _quoted(url: str) -> str:
    return urllib.parse.quote(url, safe="/?&=%:,")
