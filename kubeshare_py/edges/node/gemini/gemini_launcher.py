"""Runs Gemini's daemons on a node: a `gem-schd` for each card, a `gem-pmgr` for each pod.

The pods come from the port files, as for KubeShare's launcher. It needs no right in the API server,
and the pods' daemons run on while the node agent, which writes these files, is restarted.
"""

import asyncio
import ctypes
import os
import signal
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from kubeshare_py.domain.identity import GpuUuid
from kubeshare_py.edges.node.gemini.gemini_folder import GeminiFolder
from kubeshare_py.edges.process import decision_log, liveness
from kubeshare_py.node_agent.daemons import Daemons
from kubeshare_py.node_agent.gemini import FIRST_PORT, GeminiDaemon, GeminiPorts, wanted

# Waits until a file in a folder has been written: inotify(7), as Gemini's own launcher does.


_IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_DELETE = 0x8, 0x80, 0x200
_MASK = _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_DELETE
_AT_ONCE = 64 * 1024


@contextmanager
def watching(folder: Path, on_event: Callable[[], None]) -> Iterator[None]:
    """Call `on_event` on the running loop after files of the folder change. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    events = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if events < 0:
        raise _failed("inotify_init1")
    loop = asyncio.get_running_loop()

    def read() -> None:
        os.read(events, _AT_ONCE)  # which files they were does not matter: all are read
        on_event()

    try:
        if libc.inotify_add_watch(events, os.fsencode(folder), _MASK) < 0:
            raise _failed(f"inotify_add_watch {folder}")
        loop.add_reader(events, read)
        try:
            yield
        finally:
            loop.remove_reader(events)
    finally:
        os.close(events)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")


assert sys.platform == "linux", "inotify is Linux's"


# Which TCP ports are listened on, without connecting: each connection is a client to Gemini.
#
# The table is that of this process's network namespace: proc_net(5). A port is the hexadecimal
# number behind the last colon of the local address, and the state LISTEN is 0A.


_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN = "0A"


def is_listened_on(port: int) -> bool:
    """Whether a process listens on the port. Raises OSError."""
    ending = f":{port:04X}"
    return any(
        address.endswith(ending) and state == _LISTEN
        for table in _TABLES
        if Path(table).exists()
        for _, address, _, state, *_ in map(str.split, Path(table).read_text().splitlines())
    )


#: Below the root of the node: it shows which cards' `gem-schd` run, by locks.
ALIVE = "run/kubeshare/gemini-alive"
#: Seconds between two looks whether a new `gem-schd` listens.
_LOOK_S = 0.05
_CHILD = "kubeshare_py.edges.node.gemini.gemini_child"


class GeminiLauncher:
    """Daemons of the programs in `programs`, for the port files of `folder`.

    `alive` is the folder that shows them. The first card's `gem-schd` listens at `first_port`, the
    others behind it. `environ` is the environment of all of them. `clock` is any clock in seconds.
    """

    def __init__(
        self,
        folder: GeminiFolder,
        programs: Path,
        alive: Path,
        first_port: int = FIRST_PORT,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._programs = programs
        self._alive = alive
        self._environ = environ
        self._clock = clock
        self._cards: tuple[GpuUuid, ...] = ()
        self._ports = GeminiPorts(first_port)
        self._ready: set[GpuUuid] = set()
        self._daemons = Daemons[GeminiDaemon]()
        self._changed = asyncio.Event()

    def listed(self, cards: Iterable[GpuUuid]) -> None:
        """Set all cards, in the order of the driver."""
        self._cards = tuple(cards)
        self._changed.set()

    @property
    def is_waiting(self) -> bool:
        """Whether a daemon that ended, or could not be started, is to be started again."""
        return self._daemons.next_at is not None

    async def run(self) -> None:
        """Run until cancelled; then all daemons are killed. Raises OSError."""
        self._folder.ports.mkdir(parents=True, exist_ok=True)
        self._alive.mkdir(parents=True, exist_ok=True)
        tasks: dict[GeminiDaemon, asyncio.Task[None]] = {}
        with watching(self._folder.ports, self._changed.set):
            async with asyncio.TaskGroup() as group:
                while True:
                    self._changed.clear()
                    self._want()
                    for one in self._daemons.ends():
                        tasks.pop(one).cancel()
                    for one in self._daemons.starts(self._clock()):
                        tasks[one] = group.create_task(self._tend(one))
                        tasks[one].add_done_callback(partial(self._ended, one))
                    due_at = self._daemons.next_at
                    with suppress(TimeoutError):
                        wait_s = None if due_at is None else max(due_at - self._clock(), 0.0)
                        async with asyncio.timeout(wait_s):
                            await self._changed.wait()

    def _want(self) -> None:
        texts = {}
        for card in self._cards:
            with suppress(FileNotFoundError):
                texts[card] = (self._folder.ports / card).read_text(errors="replace")
        self._daemons.want(wanted(self._ports.of(self._cards), texts, self._ready))

    async def _tend(self, daemon: GeminiDaemon) -> None:
        about = {"card": daemon.card, "pod": daemon.pod} if daemon.pod else {"card": daemon.card}
        try:
            process = await self._start(daemon)
        except OSError as error:
            decision_log.warn(f"{daemon.program}-not-started", **about, message=str(error))
            return
        decision_log.inform(f"{daemon.program}-started", **about, pid=process.pid)
        try:
            async with asyncio.TaskGroup() as group:
                shown = None if daemon.pod else group.create_task(self._show(daemon))
                code = await process.wait()
                if shown is not None:
                    shown.cancel()
            decision_log.warn(f"{daemon.program}-died", **about, code=code)
        finally:
            # Whatever it started is in its group, which outlives it.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def _start(self, daemon: GeminiDaemon) -> Process:
        """Start a daemon in a session, and so a process group, of its own. Raises OSError."""
        program = self._programs / daemon.program
        if not os.access(program, os.X_OK):
            raise FileNotFoundError(f"{program} is not there")
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _CHILD, str(os.getpid()), str(program)),
            *daemon.arguments(str(self._folder.config)),
            env={**self._environ, **daemon.environment()},
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=DEVNULL,  # it writes a line for every message
            start_new_session=True,
        )

    async def _show(self, daemon: GeminiDaemon) -> None:
        """Show that a card's `gem-schd` is there, from when it listens until cancelled."""
        trouble = ""
        while True:
            try:
                if is_listened_on(daemon.card_port):
                    with liveness.shown(self._alive / daemon.card), self._is_ready(daemon):
                        await asyncio.get_running_loop().create_future()
            except OSError as error:
                if repr(error) != trouble:
                    decision_log.warn("gemini-not-shown", card=daemon.card, message=repr(error))
                trouble = repr(error)
            await asyncio.sleep(_LOOK_S)

    @contextmanager
    def _is_ready(self, daemon: GeminiDaemon) -> Iterator[None]:
        """While entered, the card's pod managers run."""
        self._ready.add(daemon.card)
        self._changed.set()
        try:
            yield
        finally:
            self._ready.discard(daemon.card)
            self._changed.set()

    def _ended(self, daemon: GeminiDaemon, _: asyncio.Task[None]) -> None:
        self._daemons.ended(daemon, self._clock())
        self._changed.set()
