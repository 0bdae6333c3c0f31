"""What processes cost, as Linux counts it: CPU seconds and peak memory, from /proc."""

import os
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Of one process since its start: CPU time of all threads (s), most memory ever (MiB)."""

    cpu_s: float
    peak_mib: float


def usage(pid: int) -> Usage:
    """What it has used so far; OSError when it is gone."""
    # Fields behind the command's name in parentheses, which may contain anything: proc(5).
    fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    status = (_PROC / str(pid) / "status").read_text().splitlines()
    peak = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    return Usage(cpu_s=(int(fields[11]) + int(fields[12])) * _TICK_S, peak_mib=int(peak) / 1024)


def resident_mib(pid: int) -> float:
    """Memory that it has now (MiB); OSError when it is gone."""
    status = (_PROC / str(pid) / "status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("VmRSS:"))) / 1024


def descendants() -> dict[str, int]:
    """The processes below this one: their names, with the pid of the last started of each."""
    parents, names = {}, {}
    for entry in _PROC.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            head, _, tail = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue  # it ended meanwhile
        pid = int(entry.name)
        names[pid] = head.partition("(")[2]
        parents[pid] = int(tail.split()[1])
    found = {}
    for pid in sorted(names):
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() != pid:
            found[names[pid]] = pid
    return found
