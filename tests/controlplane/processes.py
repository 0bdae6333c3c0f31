"""The processes of a control plane: started, waited for, and killed however the tests end."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_LAUNCHER = str(Path(__file__).with_name("dies_with_parent.py"))
_POLL_S = 0.1
_STOP_S = 5.0
_TAIL = 20


class NotReady(Exception):
    """A process ended, or was not ready in time. The text has the end of its log."""


class Process:
    """One of them; its output goes to a file."""

    def __init__(self, command: Sequence[str | Path], log: Path) -> None:
        self._line = dying_with_us(command)
        self._log = log
        log.write_bytes(b"")
        self.start_again()

    def start_again(self) -> None:
        """After its end: the same command, whose output follows in the same file.

        From the main thread, which has to outlive it.
        """
        with self._log.open("ab") as file:
            # In a session of its own: Ctrl-C is for the tests, which then end it in order.
            self._process = subprocess.Popen(
                self._line,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Of the command itself: the launcher becomes it."""
        return self._process.pid

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def resident_bytes(self) -> int:
        """Its memory: https://man7.org/linux/man-pages/man5/proc_pid_statm.5.html"""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def wait_until(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Ask ten times a second. Raises NotReady."""
        for _ in range(round(timeout_s / _POLL_S)):
            if ready():
                return
            try:
                code = self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                continue
            raise NotReady(f"ended with {code}{self._end_of_log()}")
        raise NotReady(f"not ready after {timeout_s:.0f} s{self._end_of_log()}")

    def kill(self) -> None:
        """End it by SIGKILL, all of its group; returns when it is gone."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """End it, by force if it does not want to; all of its group."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _end_of_log(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()[-_TAIL:]
        return "\n".join([f"; {self._log} ends with:", *lines])


def most_resident_bytes(pid: int) -> int:
    """The most memory that a process ever had (VmHWM of proc_pid_status.5)."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def dying_with_us(command: Sequence[str | Path]) -> list[str]:
    """The command line by which it is killed when this process, or the thread that starts it, ends.

    The program needs its whole path.
    """
    return [sys.executable, _LAUNCHER, str(os.getpid()), *map(str, command)]


@contextmanager
def process(command: Sequence[str | Path], log: Path) -> Iterator[Process]:
    """Run it while entered."""
    running = Process(command, log)
    try:
        yield running
    finally:
        running.stop()
