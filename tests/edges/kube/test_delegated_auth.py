"""Who may read the scheduler's endpoints: the embedded API server is asked over HTTPS."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kubeshare_py.edges.kube.delegated_auth import (
    KEPT_S,
    MAX_KEPT,
    NOT_VALID,
    DelegatedAuth,
    Denial,
)
from kubeshare_py.embedded_cluster.protocol.messages import ApiRequest
from kubeshare_py.embedded_cluster.serving.server import ApiServer, Fault
from tests.embedded_cluster.embedded import cluster

PATH = "/debug/cluster"


@dataclass
class Asked:
    """The checker on an API server, with a clock by hand and what the server was asked."""

    server: ApiServer
    auth: DelegatedAuth
    now: list[float]
    requests: list[ApiRequest] = field(default_factory=list)

    async def denial(self, token: str, path: str = PATH) -> Denial | None:
        return await self.auth.denial(token, "get", path)

    def reviews(self) -> list[str]:
        return [r.path.rpartition("/")[2] for r in self.requests if r.path.endswith("reviews")]


@pytest.fixture
async def asked(tmp_path: Path) -> AsyncIterator[Asked]:
    async with cluster(tmp_path) as (server, client):
        now = [0.0]
        found = Asked(server, DelegatedAuth(client, lambda: now[0]), now)
        server.audit = found.requests.append
        yield found


async def test_an_administrator_may(asked: Asked) -> None:
    assert await asked.denial(asked.server.tokens["admin"]) is None


async def test_a_user_may_get_the_paths_that_a_role_names(asked: Asked) -> None:
    token = asked.server.add_user("jane", "/debug/*")
    assert await asked.denial(token) is None
    assert await asked.denial(token, "/debug/why/default/a") is None
    denial = await asked.denial(token, "/metrics")
    assert denial is not None
    assert denial.status == 403
    assert denial.message.startswith('user "jane" may not get /metrics')


@pytest.mark.parametrize("token", ["unknown", "gr\u00fc\u00df", "", "a b"])
async def test_a_token_that_nobody_knows_is_not_valid(asked: Asked, token: str) -> None:
    assert await asked.denial(token) == NOT_VALID


async def test_the_second_question_carries_who_asks_and_no_token(asked: Asked) -> None:
    token = asked.server.add_user("jane")
    await asked.denial(token)
    access = asked.requests[-1]
    assert token not in access.body.decode()
    spec = json.loads(access.body)["spec"]
    assert (spec["user"], spec["groups"]) == ("jane", ["system:authenticated"])
    assert spec["nonResourceAttributes"] == {"path": PATH, "verb": "get"}


async def test_an_answer_is_good_for_some_seconds(asked: Asked) -> None:
    token = asked.server.add_user("jane", PATH)
    for _ in range(3):
        assert await asked.denial(token) is None
    assert asked.reviews() == ["tokenreviews", "subjectaccessreviews"]
    del asked.server.service.access.paths["jane"]
    asked.now[0] = KEPT_S
    assert await asked.denial(token) is not None
    assert len(asked.reviews()) == 4


async def test_a_refusal_is_remembered_too(asked: Asked) -> None:
    for _ in range(3):
        assert await asked.denial("unknown") == NOT_VALID
    assert asked.reviews() == ["tokenreviews"]


async def test_no_token_is_kept(asked: Asked) -> None:
    token = asked.server.add_user("jane", PATH)
    await asked.denial(token)
    assert token not in repr(vars(asked.auth))


async def test_memory_is_bounded(asked: Asked) -> None:
    for number in range(MAX_KEPT + 1):
        assert await asked.denial(f"no-token-{number}") == NOT_VALID
    before = len(asked.reviews())
    await asked.denial(f"no-token-{MAX_KEPT}")
    assert len(asked.reviews()) == before
    await asked.denial("no-token-0")
    assert len(asked.reviews()) == before + 1


@pytest.mark.parametrize(
    ("status", "said"),
    [(500, "cannot be asked"), (403, "system:auth-delegator"), (429, "cannot be asked")],
)
async def test_without_an_answer_of_the_api_server_nobody_knows(
    asked: Asked, status: int, said: str
) -> None:
    asked.server.faults.inject(Fault(method="POST", path="tokenreviews", status=status))
    token = asked.server.tokens["admin"]
    denial = await asked.denial(token)
    assert denial is not None
    assert denial.status == 503
    assert said in denial.message
    assert await asked.denial(token) is None, "and the next time it is asked again"
