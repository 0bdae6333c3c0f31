"""How long `kubectl kubeshare` takes to start: python benchmarks/command.py PATH_OF_COMMAND.

Requests go to a port where nobody listens: everything that they need is imported, and sent nothing.
"""

import resource
import subprocess
import sys
import time

RUNS = 31
COMMANDS = (
    ("--version",),
    ("gpus", "--server", "http://127.0.0.1:1"),
    ("why", "pod", "--server", "http://127.0.0.1:1"),
)


def cpu_s() -> float:
    """User and system time of all children so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print the least and the median of wall time, and the median of CPU time."""
    for arguments in COMMANDS:
        wall, cpu = [], []
        for _ in range(RUNS):
            before, started = cpu_s(), time.perf_counter()
            subprocess.run([sys.argv[1], *arguments], check=False, capture_output=True)
            wall.append(time.perf_counter() - started)
            cpu.append(cpu_s() - before)
        least, middle = min(wall), sorted(wall)[RUNS // 2]
        print(
            f"{arguments[0]:10} wall {least:.3f} s at least, {middle:.3f} s median; "
            f"cpu {sorted(cpu)[RUNS // 2]:.3f} s median"
        )


if __name__ == "__main__":
    main()
