"""`kubectl kubeshare` as a user of the stage's cluster runs it."""

import asyncio
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from kubeshare_py.edges.cli.state_client import ApiAccess, StateClient
from kubeshare_py.programs.kubectl_kubeshare import Question, answer


async def kubectl_kubeshare(
    kubeconfig: Path, command: str, *names: str, **asked: Any
) -> tuple[int, str, str]:
    """Exit code, stdout, stderr; in a thread, since it waits for answers."""
    out, err = Console(file=StringIO(), width=200), Console(file=StringIO(), width=200)
    of_kubectl = {name: asked.pop(name, None) for name in ("as_user", "namespace")}
    access = ApiAccess(kubeconfig=str(kubeconfig), **of_kubectl)
    question = Question(
        command=command, names=names or asked.pop("names", ()), access=access, **asked
    )
    client = StateClient(access, {})
    try:
        code = await asyncio.to_thread(answer, question, client, out, err)
    finally:
        client.close()
    assert isinstance(out.file, StringIO)
    assert isinstance(err.file, StringIO)
    return code, out.file.getvalue(), err.file.getvalue()
