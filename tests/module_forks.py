"""Runs modules of ours as processes for a fraction of the CPU: forks of one that imported them.

A command imports for 0.4 to 1.2 s of CPU, and the scheduler's child that reads the inventory for
0.2 s; hundreds of tests start them. Here they are forks of a process that imports a module when it
is first asked for. Tests of how a process is started, and of how much memory one takes, start it
themselves.

The process is asked through a socket. With the name, arguments, folder and environment come the
ends of pipes that become standard streams of the fork, and the end of one for how it ended: exit
code and CPU. The answer is its pid, with its pidfd (pidfd_open(2)).
"""

import asyncio
import gc
import json
import os
import runpy
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from kubeshare_py.edges.process.run_until_signal import LONGEST_LINE
from tests.budgets import pay

_LONGEST = 1 << 17
OUTPUTS = (1, 2)


class Forking:
    """The process that forks, started when it is first asked."""

    def __init__(self) -> None:
        self._one_asks = Lock()

    @cached_property
    def _asked(self) -> socket.socket:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            self._server = subprocess.Popen(
                [sys.executable, "-m", __name__, str(its.fileno())],
                cwd=Path(__file__).parents[1],
                pass_fds=[its.fileno()],
                start_new_session=True,
            )
        return ours

    def fork(self, request: Mapping[str, Any], ends: list[int]) -> tuple[int, int]:
        """Give these ends to a fork; its pid and a pidfd, which the caller closes.

        Waits while the module is imported, which on a busy machine takes seconds.
        """
        with self._one_asks:
            socket.send_fds(self._asked, [json.dumps(request).encode()], ends)
            pid, pidfds, _, _ = socket.recv_fds(self._asked, _LONGEST, 1)
        return int(pid), pidfds[0]

    def end(self) -> None:
        """End it, if it was ever asked, and the forks that are left."""
        if "_asked" in vars(self):
            self._asked.close()
            self._server.wait()
            del self._asked


FORKING = Forking()


class Fork:
    """A fork as a test sees it: what it uses of asyncio's `Process`."""

    stdin: asyncio.StreamWriter | None = None
    stdout: asyncio.StreamReader | None = None
    stderr: asyncio.StreamReader | None = None
    returncode: int | None = None

    def __init__(self, pid: int, pidfd: int, ended: asyncio.StreamReader) -> None:
        self.pid = pid
        self._pidfd = pidfd
        self._ended = asyncio.create_task(self._wait(ended))

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    async def communicate(self) -> tuple[bytes, bytes]:
        """Read what is left of both outputs until it has ended."""
        assert self.stdout is not None
        assert self.stderr is not None
        outputs = await asyncio.gather(self.stdout.read(), self.stderr.read())
        await self.wait()
        return outputs[0], outputs[1]

    async def _wait(self, ended: asyncio.StreamReader) -> int:
        code, cpu_s = json.loads(await ended.read())
        os.close(self._pidfd)
        pay(cpu_s)
        self.returncode = code
        return int(code)


async def fork(
    module: str,
    *arguments: str,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Fork:
    """Run `python -m module`; its output and errors are pipes."""
    (output, output_end), (errors, errors_end) = os.pipe(), os.pipe()
    made = await _fork(
        (module, *arguments), {1: output_end, 2: errors_end}, folder=folder, environment=environment
    )
    made.stdout, made.stderr = await _reader(output), await _reader(errors)
    return made


@asynccontextmanager
async def forked_module(module: str) -> AsyncIterator[Fork]:
    """As `module_process`: one socket is its input and output."""
    end, its_end = socket.socketpair()
    number = its_end.detach()
    forking = asyncio.create_task(_fork((module,), {0: number, 1: number}))
    try:
        made = await asyncio.shield(forking)
        made.stdout, made.stdin = await asyncio.open_unix_connection(sock=end, limit=LONGEST_LINE)
    except BaseException:  # stories cancel at any await
        end.close()
        made = await forking
        made.kill()
        await made.wait()
        raise
    try:
        yield made
    finally:
        made.kill()
        made.stdin.close()
        with suppress(ConnectionError):
            await made.stdin.wait_closed()
        await made.wait()


async def _fork(
    command: tuple[str, ...],
    standard: Mapping[int, int],
    *,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Fork:
    """Fork with these ends as standard streams, which are closed here."""
    ended, ended_end = os.pipe()
    request = {
        "command": command,
        "standard": [*standard],
        "folder": str(folder or Path.cwd()),
        "environment": dict(os.environ if environment is None else environment),
    }
    # In a thread: the API servers and clients of a story go on in this event loop.
    forking = asyncio.to_thread(FORKING.fork, request, [*standard.values(), ended_end])
    pid, pidfd = await forking
    for end in {*standard.values(), ended_end}:
        os.close(end)
    return Fork(pid, pidfd, await _reader(ended))


async def _reader(end: int) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(end, "rb"))
    return reader


def main() -> None:
    """Fork for each module that is asked for, until the socket is closed."""
    with (
        socket.socket(fileno=int(sys.argv[1])) as asked,
        selectors.DefaultSelector() as waiting,
    ):
        waiting.register(asked, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is not asked:
                    waiting.unregister(key.fd)
                    _tell(key.fd, *key.data)
                    continue
                text, ends, _, _ = socket.recv_fds(asked, _LONGEST, 8)
                if not text:
                    for left in [*waiting.get_map().values()]:
                        if left.fileobj is not asked:
                            signal.pidfd_send_signal(left.fd, signal.SIGKILL)
                            _tell(left.fd, *left.data)
                    return
                request = json.loads(text)
                _import(request["command"][0])
                pid = os.fork()
                if not pid:
                    waiting.close()
                    asked.close()
                    _become(request, ends)
                    return
                for end in {*ends[:-1]}:
                    os.close(end)
                pidfd = os.pidfd_open(pid)
                waiting.register(pidfd, selectors.EVENT_READ, (pid, ends[-1]))
                socket.send_fds(asked, [str(pid).encode()], [pidfd])


def _import(module: str) -> None:
    if module not in sys.modules:
        import_module(module)
        gc.collect()
        gc.freeze()


def _tell(pidfd: int, pid: int, end: int) -> None:
    """Say how a fork ended."""
    _, status, used = os.wait4(pid, 0)
    os.close(pidfd)
    # The text is written when the file is closed; who asked may be gone by then.
    with suppress(BrokenPipeError), os.fdopen(end, "w") as file:
        json.dump((os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime), file)


def _become(request: Mapping[str, Any], ends: list[int]) -> None:
    """Run the module in this fork as `python -m` would."""
    for standard, end in zip(request["standard"], ends, strict=False):
        os.dup2(end, standard)
    # Also what belongs to other forks, which would not seem to end while this one runs.
    os.closerange(3, max(map(int, os.listdir("/proc/self/fd"))) + 1)
    os.chdir(request["folder"])
    sys.path.insert(0, request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    module, *arguments = request["command"]
    sys.argv[1:] = arguments
    del sys.modules[module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
