"""The dashboard as a command: where it listens, what it needs to start, and its certificate."""

import json
from pathlib import Path

import aiohttp

from kubeshare_py.edges.kube.certificates import make_certificates
from tests.embedded_cluster.embedded import cluster
from tests.programs.commands import expect_said, run, running

LOCAL = ("--address", "127.0.0.1", "--port", "0")


async def test_it_serves_the_page_over_tls_and_needs_no_kubeconfig(tmp_path: Path) -> None:
    made = make_certificates(tmp_path / "own")
    files = (f"--certificate-file={made.certificate_file}", f"--key-file={made.key_file}")
    async with cluster(tmp_path) as (server, _):
        where = ("--server", server.url, "--certificate-authority", str(server.ca_file))
        async with running(tmp_path, "dashboard", *LOCAL, *where, *files) as process:
            line = json.loads(await expect_said(process.stderr, '"started"'))
            assert line["program"] == "kubeshare-dashboard"
            [url] = line["addresses"]
            headers = {"Kubeshare-Token": server.tokens["admin"]}
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{url}/api/me", headers=headers, ssl=made.client_context()) as answer,
            ):
                assert url.startswith("https://")
                assert (await answer.json())["user"] == "admin"


async def test_wrong_usage_is_told(tmp_path: Path) -> None:
    code, _, errors = await run(tmp_path, "dashboard", "--certificate-file", "x")
    assert (code, "go together" in errors) == (2, True)
    code, _, errors = await run(tmp_path, "dashboard", "--kubeconfig", str(tmp_path / "none"))
    assert (code, "no such file" in errors) == (3, True)
    files = ("--certificate-file", "none.crt", "--key-file", "none.key")
    server = ("--server", "https://127.0.0.1:1")
    code, _, errors = await run(tmp_path, "dashboard", *LOCAL, *server, *files)
    assert (code, "none.crt" in errors) == (2, True)
