"""A client of the API server's pure half: requests as method calls, answers as dicts."""

import json
import random
from collections.abc import Callable
from typing import Any

from kubeshare_py.embedded_cluster.apiserver.requests import ApiService
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest, ApiResponse, WatchAnswer

NOW = 1_800_000_000.0
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PODS = "/api/v1/namespaces/fs/pods"
MAPS = "/api/v1/namespaces/fs/configmaps"
NODES = "/api/v1/nodes"
JOBS = "/apis/batch/v1/namespaces/fs/jobs"


class Api:
    """One service with the namespace fs; `now` may be moved."""

    def __init__(self, seed: int = 1) -> None:
        self.now = NOW
        self.service = ApiService(rng=random.Random(seed), now=NOW)
        self.answer = ApiResponse()
        self.post("/api/v1/namespaces", {"metadata": {"name": "fs"}})

    def send(self, method: str, url: str, body: Any = None, **options: str) -> Any:
        """Returns the decoded body; the answer itself is in `answer`."""
        answer = self.raw(method, url, body, **options)
        assert isinstance(answer, ApiResponse)
        self.answer = answer
        return json.loads(answer.body) if answer.body[:1] == b"{" else answer.body.decode()

    def raw(self, method: str, url: str, body: Any = None, **options: str) -> Any:
        path, _, query = url.partition("?")
        pairs = dict(part.split("=", 1) for part in query.split("&")) if query else {}
        request = ApiRequest(
            method=method,
            path=path,
            query=pairs,
            body=b"" if body is None else json.dumps(body).encode(),
            content_type=options.get("content_type", "application/json"),
            accept=options.get("accept", "application/json"),
        )
        return self.service.handle(request, self.now)

    def revision(self) -> str:
        """The newest version of everything."""
        return str(self.service.store.revision)

    def compact(self) -> None:
        """Forget the past; only the embedded server can do it on demand."""
        self.service.store.compact()

    def expect_eventually(self, ask: Callable[[], Any], wanted: Callable[[Any], bool]) -> None:
        """Wait until an answer is as wanted; here that is at once or never."""
        assert wanted(ask())

    @property
    def status(self) -> int:
        return self.answer.status

    def post(self, url: str, body: Any) -> Any:
        return self.send("POST", url, body)

    def get(self, url: str, accept: str = "application/json") -> Any:
        return self.send("GET", url, accept=accept)

    def put(self, url: str, body: Any) -> Any:
        return self.send("PUT", url, body)

    def patch(self, url: str, body: Any, content_type: str = MERGE) -> Any:
        return self.send("PATCH", url, body, content_type=content_type)

    def delete(self, url: str, body: Any = None) -> Any:
        return self.send("DELETE", url, body)

    def pod(self, name: str = "p", **spec: Any) -> Any:
        """Create a pod of one container; returns what the server answered."""
        full = {"containers": [{"name": "a", "image": "nginx"}], **spec}
        return self.post(PODS, {"metadata": {"name": name}, "spec": full})

    def bind(self, name: str = "p", node: str = "n1", **metadata: Any) -> Any:
        body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": node}}
        return self.post(f"{PODS}/{name}/binding", body)

    def watch(self, url: str, accept: str = "application/json") -> "Watch":
        answer = self.raw("GET", url + ("&" if "?" in url else "?") + "watch=true", accept=accept)
        assert isinstance(answer, WatchAnswer)
        return Watch(answer)


class Watch:
    """An open watch."""

    def __init__(self, answer: WatchAnswer) -> None:
        self.answer = answer

    def events(self) -> list[Any]:
        """What arrived since the last call."""
        return [json.loads(line) for line in self.answer.subscription.take().splitlines()]

    def types(self) -> list[str]:
        return [event["type"] for event in self.events()]

    def is_over(self) -> bool:
        """Whether the server has ended it."""
        return self.answer.subscription.ended
