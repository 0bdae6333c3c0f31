"""What a collector of sixteen cards costs: scrapes, memory, processor time.

    python benchmarks/collector.py [--board NAME] [--scrapes N] [-o json]

The cards are those of the tests' fake driver (it needs a C compiler), so readings cost what pynvml
and we cost, not what a driver costs. Each format is scraped as Prometheus does, compressed; `fresh`
are the first scrapes after a reading, for which the page is made anew. Memory is read from
/proc/PID/smaps_rollup: resident size (RSS), and proportional (PSS), in which what both processes
share counts once.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp

from tests.fake_nvml.board import NAMES, Board
from tests.fake_nvml.build import NO_COMPILER, build, compiler

FORMATS = {
    "text": "text/plain;version=0.0.4",
    "openmetrics": "application/openmetrics-text;version=1.0.0",
}
MIB = 2**20
_TICKS_S = 0.01
_READ = "kubeshare_collector_readings_total"


async def measured(board: Board, scrapes: int) -> dict[str, Any]:
    """Everything, of one collector that reads four times a second."""
    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubeshare_cmd.collector",
        "--address", "127.0.0.1", "--port", "0", "--interval", "0.25",
        env=board.environment, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        url = ""
        while not url:
            url = json.loads(await process.stderr.readline()).get("url", "")
        async with aiohttp.ClientSession(auto_decompress=False) as session:
            await _first(session, url)
            found: dict[str, Any] = {"start_s": round(time.perf_counter() - began, 3)}
            for form in FORMATS:
                found[form] = await _scrapes(session, url, form, scrapes, process.pid)
        found["memory_mib"] = _memory([process.pid, *_children(process.pid)])
        return found
    finally:
        process.terminate()
        await process.communicate()


async def _first(session: aiohttp.ClientSession, url: str) -> None:
    while True:
        if await _scrape(session, url, "text"):
            return
        await asyncio.sleep(0.01)


async def _scrapes(
    session: aiohttp.ClientSession, url: str, form: str, scrapes: int, pid: int
) -> dict[str, Any]:
    again_s: list[float] = []
    fresh_s: list[float] = []
    spent_s = _processor_s(pid)
    for number in range(scrapes):
        if number % 10 == 0:
            await asyncio.sleep(0.25)  # until there is another reading
        began = time.perf_counter()
        await _scrape(session, url, form)
        (fresh_s if number % 10 == 0 else again_s).append(time.perf_counter() - began)
    # With the readings that were taken in meanwhile, four a second.
    each_s = (_processor_s(pid) - spent_s) / scrapes
    return {
        "ms": _spread(again_s),
        "fresh_ms": _spread(fresh_s),
        "processor_ms": round(1000 * each_s, 2),
    }


async def _scrape(session: aiohttp.ClientSession, url: str, form: str) -> bytes:
    headers = {"Accept": FORMATS[form], "Accept-Encoding": "gzip"}
    async with session.get(url, headers=headers) as answer:
        body = await answer.read()
        return body if answer.status == 200 else b""


def _spread(seconds: Iterable[float]) -> dict[str, float]:
    ordered = sorted(1000 * one for one in seconds)
    cut = statistics.quantiles(ordered, n=100)
    return {"p50": round(cut[49], 2), "p99": round(cut[98], 2), "worst": round(ordered[-1], 2)}


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICKS_S


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _memory(pids: list[int]) -> dict[str, float]:
    sizes = {name: [_size(pid, name) for pid in pids] for name in ("Rss", "Pss")}
    names = ("collector_rss", "reader_rss")
    each = dict(zip(names, sizes["Rss"], strict=True))
    return {**each, "rss": round(sum(sizes["Rss"]), 1), "pss": round(sum(sizes["Pss"]), 1)}


def _size(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return round(int(kib) * 1024 / MIB, 1)


def _table(found: dict[str, Any]) -> str:
    lines = [f"{found['board']}: {found['cards']} cards, first page after {found['start_s']} s"]
    for form in FORMATS:
        again, fresh = found[form]["ms"], found[form]["fresh_ms"]
        lines.append(
            f"{form:12} scrape p50 {again['p50']} ms, p99 {again['p99']} ms; "
            f"after a reading p50 {fresh['p50']} ms, p99 {fresh['p99']} ms; "
            f"processor {found[form]['processor_ms']} ms a scrape"
        )
    memory = found["memory_mib"]
    each = f"{memory['collector_rss']} + {memory['reader_rss']} = {memory['rss']}"
    lines.append(f"memory       RSS {each} MiB, PSS {memory['pss']} MiB")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--board", choices=NAMES, default="dgx-2")
    parser.add_argument("--scrapes", type=int, default=300)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")
    given = parser.parse_args()
    program = compiler()
    if program is None:
        print(NO_COMPILER, file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder:
        board = Board(given.board, Path(folder), build(Path(folder), program))
        found = asyncio.run(measured(board, given.scrapes))
    found = {"board": board.name, "cards": board.lines["count"], **found}
    print(json.dumps(found, indent=2) if given.output == "json" else _table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
