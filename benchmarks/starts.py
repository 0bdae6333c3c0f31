"""What the start of each program costs: `--help`, and a real start until it serves.

    python -m benchmarks.starts [--rounds N] [--programs NAME ...] [--against FOLDER]

CPU seconds of the process and of the children that it waited for, as Linux counts them; the least
and the median of the rounds. `--help` ends by itself. A real start is that of a cluster without
pods, on the embedded API server: until the first line of the log that says `started`, for the
scheduler until it leads. kubeshare-replay and the demo start nothing that stays. `--against` has a
`bin` folder of another environment, whose programs are started in turn with these.
"""

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from benchmarks.contest.usage import usage
from kubeshare_py.embedded_cluster.nodes.simulated_nodes import read_cluster
from kubeshare_py.embedded_cluster.serving.cluster import EmbeddedCluster, embedded_cluster
from kubeshare_py.embedded_cluster.serving.server import SCHEDULER

BIN = Path(sys.executable).parent
NODES = 'nodes: [{name: "n{n}", count: 2, gpus: [{model: A100, count: 8, memory: 80GiB}]}]'
LOCAL = ("--address", "127.0.0.1", "--port", "0")
#: Arguments of a real start; `{kubeconfig}` and `{folder}` are filled in.
STARTS: Mapping[str, tuple[str, ...]] = {
    "kubeshare-scheduler": ("--config", "{folder}/s.yaml", "--kubeconfig", "{kubeconfig}"),
    "kubeshare-collector": ("--root", "{folder}", *LOCAL),
    "kubeshare-node-agent": ("--root", "{folder}", "--kubeconfig", "{kubeconfig}", *LOCAL),
    "kubeshare-admission": ("--kubeconfig", "{kubeconfig}", *LOCAL),
    "kubeshare-controller": ("--kubeconfig", "{kubeconfig}", *LOCAL),
    "kubeshare-aggregator": ("--kubeconfig", "{kubeconfig}", *LOCAL),
    "kubeshare-mps": ("--folder", "{folder}/mps"),
    "kubeshare-gemini": ("--root", "{folder}"),
}
#: What the log says when a program has started.
STARTED = {"kubeshare-scheduler": "leads"}
HELPED = (*STARTS, "kubectl-kubeshare", "kubeshare-replay", "kubeshare-demo")


def helped_s(program: Path) -> float:
    """CPU seconds of `--help`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


async def started_s(program: Path, arguments: Sequence[str]) -> float:
    """CPU seconds until it says that it has started."""
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stderr=asyncio.subprocess.PIPE, start_new_session=True
    )
    assert process.stderr is not None
    try:
        while line := await process.stderr.readline():
            if json.loads(line)["event"] == STARTED.get(program.name, "started"):
                return usage(process.pid).cpu_s
    finally:
        process.kill()
        await process.communicate()
    raise RuntimeError(f"{program.name} ended at its start")


def arguments_of(program: str, cluster: EmbeddedCluster, folder: Path) -> list[str]:
    """The arguments of a real start beside this cluster."""
    settings = {"server": {"bindAddress": "127.0.0.1", "port": 0}}
    (folder / "s.yaml").write_text(yaml.safe_dump(settings))
    kubeconfig = cluster.server.write_kubeconfig(folder / "kubeconfig", SCHEDULER)
    given = [one.format(folder=folder, kubeconfig=kubeconfig) for one in STARTS[program]]
    if program == "kubeshare-scheduler":
        given += ["--prometheus-url", cluster.collectors.url]
    return given


async def measure(chosen: argparse.Namespace, folder: Path) -> None:
    """Print a line for each program, the least and the median of each."""
    bins = {"": BIN} | ({"against": chosen.against / "bin"} if chosen.against else {})
    for program in chosen.programs:
        helped: dict[str, list[float]] = {name: [] for name in bins}
        started: dict[str, list[float]] = {name: [] for name in bins}
        for _ in range(chosen.rounds):
            for name, place in bins.items():
                helped[name].append(helped_s(place / program))
                if program in STARTS:
                    # A cluster of its own for each, so that no lock of a Lease is waited for.
                    async with embedded_cluster(folder, read_cluster(NODES)) as cluster:
                        given = arguments_of(program, cluster, folder)
                        started[name].append(await started_s(place / program, given))
        for name in bins:
            print(
                f"{program:22} {name:8} --help {_said(helped[name])}"
                + (f"   started {_said(started[name])}" if program in STARTS else ""),
                flush=True,
            )


def _said(found: Sequence[float]) -> str:
    return f"{min(found):5.2f} {statistics.median(found):5.2f}"


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--programs", nargs="+", choices=HELPED, default=HELPED)
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="of another environment")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kubeshare-starts-") as folder:
        asyncio.run(measure(chosen, Path(folder)))


if __name__ == "__main__":
    main()
