"""How many workers run the tests beside each other: by cores, and by the memory that is free."""

from pathlib import Path

GIB = 1 << 30
#: Workers beside one for each core: half of a worker's time is waiting for processes and timers.
BESIDE = 2
#: What a worker takes at most with the processes that its tests start, and what the rest of the
#: machine is left with.
WORKER_BYTES, LEFT_BYTES = 3 * GIB // 2, GIB
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def workers(cores: int, free: int | None) -> int:
    """For so many cores and free bytes of memory (None: not known); at least one."""
    wished = cores + BESIDE
    return wished if free is None else max(1, min(wished, (free - LEFT_BYTES) // WORKER_BYTES))


def free_bytes(meminfo: Path = _MEMINFO, cgroup: Path = _CGROUP) -> int | None:
    """Memory that processes can still get, by Linux and by this container's limit, if known.

    proc_meminfo(5): MemAvailable. cgroup v2: memory.max, which is "max" without a limit, and
    memory.current.
    """
    known = []
    if meminfo.exists():
        lines = dict(line.split(":") for line in meminfo.read_text().splitlines())
        known.append(int(lines["MemAvailable"].split()[0]) * 1024)
    limit = cgroup / "memory.max"
    if limit.exists() and (text := limit.read_text().strip()) != "max":
        known.append(int(text) - int((cgroup / "memory.current").read_text()))
    return min(known, default=None)
