"""kubeshare-admission as a process, with certificate files; its own authority needs a cluster."""

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from kubeshare_py.edges.kube.certificates import make_certificates
from tests.admission.patched import SHARE, a_pod, review
from tests.programs.commands import expect_said, run, running


@pytest.fixture
async def asking(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a process that has just started, without any cluster."""
    made = make_certificates(tmp_path)
    more = getattr(request, "param", [])
    files = (f"--certificate-file={made.certificate_file}", f"--key-file={made.key_file}")
    async with running(
        tmp_path, "admission", "--address=127.0.0.1", "--port=0", *files, *more
    ) as process:
        line = await expect_said(process.stderr, '"started"')
        context = ssl.create_default_context(cafile=str(made.ca_file))
        connector = aiohttp.TCPConnector(ssl=context)
        [url] = json.loads(line)["addresses"]
        async with aiohttp.ClientSession(url, connector=connector) as session:
            yield session


async def test_it_answers_reviews_and_probes(asking: aiohttp.ClientSession) -> None:
    for pod, path in ((a_pod(SHARE), "/pods"), (a_pod(schedulerName="x"), "/others")):
        async with asking.post(path, data=review(pod)) as answer:
            assert answer.content_type == "application/json"
            response = (await answer.json())["response"]
        assert response["allowed"]
        assert response["patch"]
    for path in ("/livez", "/readyz"):
        async with asking.get(path) as answer:
            assert await answer.text() == "ok"


async def test_it_refuses_what_the_scheduler_would_not_understand(
    asking: aiohttp.ClientSession,
) -> None:
    async with asking.post("/pods", data=review(a_pod({"sharedgpu/gpu_limt": "1"}))) as answer:
        response = (await answer.json())["response"]
    assert not response["allowed"]
    assert "did you mean sharedgpu/gpu_limit?" in response["status"]["message"]


@pytest.mark.parametrize("asking", [["--no-validate"]], indirect=True)
async def test_it_refuses_nothing_where_that_is_wished(asking: aiohttp.ClientSession) -> None:
    async with asking.post("/pods", data=review(a_pod({"sharedgpu/gpu_limt": "1"}))) as answer:
        assert (await answer.json())["response"]["allowed"]


async def test_what_is_no_review_is_a_bad_request(asking: aiohttp.ClientSession) -> None:
    async with asking.post("/pods", data=b"{}") as answer:
        assert answer.status == 400


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        pytest.param(["--key-file=x"], "go together", marks=pytest.mark.long),
        (["--certificate-file=x", "--key-file=y"], "--certificate-file x"),
        pytest.param(
            ["--config=missing.yaml"], "missing.yaml: No such file", marks=pytest.mark.long
        ),
    ],
)
async def test_arguments_that_cannot_be_used_end_it(
    tmp_path: Path, arguments: list[str], said: str
) -> None:
    code, _, errors = await run(tmp_path, "admission", *arguments)
    assert code == 2
    assert said in errors
