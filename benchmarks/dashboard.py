"""The dashboard in Chromium, before the state of a very large cluster.

    python -m benchmarks.dashboard [--nodes N] [--pods N] [--viewers N] [--seconds S]

Three processes: the state of a real scheduler's machine, made as its endpoint makes it, behind what
an API server answers about users; `kubeshare-dashboard`; and Chromium. Printed are, for the page:

- first paint: from the navigation until all cards are counted and the first ones drawn, with an
  empty cache, once the dashboard has the state;
- frames: of some seconds in which the page is scrolled at each frame, how many there were a second,
  the longest, and the CPU time of the page's thread for one, which a busy machine does not change;
- update: the longest frame while an answer with changes of `CHANGED` nodes is taken in and drawn;
- memory: of the page's JavaScript after a collection, and of the tab's process (private memory).

And for the scheduler: the CPU time of its answers, as a part of one core, with one viewer and with
many, who all may see everything.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from benchmarks.questions import add_waiting, empty, placed, taken
from kubeshare_py.domain.events import PodGone
from kubeshare_py.edges.process.run_until_signal import module_process
from kubeshare_py.edges.scheduler.state_api import ViewStreams
from kubeshare_py.scheduling.explain.explanation import cluster_portions
from tests.browser.chromium import Tab, browser, found
from tests.controlplane.processes import most_resident_bytes

#: How many pods go away between two reads, each of another node.
CHANGED = 200
TOKEN = "t"
#: Answers of a busy machine may take long.
PATIENT = aiohttp.ClientTimeout(total=None, sock_connect=None)
#: Counts frames while the page is scrolled: its length (ms) of each.
_SCROLL = """
new Promise((done) => {
  const lengths = [];
  let last = performance.now();
  let down = true;
  const until = last + %d;
  const step = (now) => {
    lengths.push(now - last);
    last = now;
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 10) down = false;
    scrollBy(0, down ? %d : -%d);
    if (now < until) requestAnimationFrame(step);
    else done(lengths.slice(1));
  };
  requestAnimationFrame(step);
})
"""
#: From the beginning of the navigation until the cards are there, in ms.
_PAINTED = """
new Promise((done) => {
  const look = () => {
    const tiles = document.querySelectorAll(".tile").length;
    if (tiles && document.querySelector(".summary").innerText.includes("%s"))
      requestAnimationFrame(() => setTimeout(() => done(performance.now())));
    else requestAnimationFrame(look);
  };
  look();
})
"""


def serve_state(nodes: int, pods: int) -> None:
    """The stand-in for API server and scheduler: prints its port, then what it spent."""
    machine = empty(nodes)
    for _ in taken(machine, bound := placed(nodes, pods, mixed=True)):
        pass
    add_waiting(machine)
    going = list(bound)
    random.Random(2).shuffle(going)
    spent = {"cpu_s": 0.0, "answers": 0, "bytes": 0}
    streams = ViewStreams()

    async def state(request: web.Request) -> web.StreamResponse:
        for _ in range(min(CHANGED, len(going)) if spent["answers"] else 0):
            machine.handle(PodGone(going.pop().uid), 0.0)
        began_s = time.process_time()
        answer = await streams.send(request, cluster_portions(machine, topology=True), {})
        spent["cpu_s"] += time.process_time() - began_s
        spent["answers"] += 1
        return answer

    async def who(_request: web.Request) -> web.Response:
        status = {"userInfo": {"username": "viewer"}, "allowed": True}
        return web.json_response({"status": status}, status=201)

    async def told(_request: web.Request) -> web.Response:
        return web.json_response(spent)

    async def run() -> None:
        app = web.Application()
        app.router.add_get("/apis/state.kubeshare.io/v1/gpus", state)
        app.router.add_get("/spent", told)
        app.router.add_post("/apis/{rest:.*}", who)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.get_running_loop().create_future()

    asyncio.run(run())


@asynccontextmanager
async def dashboard(nodes: int, pods: int) -> AsyncIterator[tuple[str, str, int]]:
    """The URLs of the page and of the state, and the dashboard's process."""
    given = ("--serve-state", "--nodes", str(nodes), "--pods", str(pods))
    async with module_process("benchmarks.dashboard", *given) as state:
        assert state.stdout is not None
        port = (await state.stdout.readline()).decode().strip()
        behind = f"http://127.0.0.1:{port}"
        shown = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "kubeshare_cmd.dashboard", "--server", behind, "--port", "0",
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            assert shown.stderr is not None
            url = json.loads(await shown.stderr.readline())["addresses"][0]
            yield url, behind, shown.pid
        finally:
            shown.kill()
            await shown.wait()


async def spent(session: aiohttp.ClientSession, behind: str) -> dict[str, float]:
    """What the scheduler's answers took so far."""
    async with session.get(f"{behind}/spent") as answer:
        found: dict[str, float] = await answer.json()
        return found


async def view(session: aiohttp.ClientSession, url: str) -> None:
    """One more viewer: asks as the page does, for ever."""
    since = ""
    headers = {"Kubeshare-Token": TOKEN, "Accept-Encoding": "gzip"}
    while True:
        where = f"{url}/api/state?since={since}"
        async with session.get(where, headers=headers) as answer:
            since = (await answer.json(content_type=None)).get("version", "")


async def page(tab: Tab, url: str, cards: int) -> None:
    """Measure the page and print it."""
    await tab.ask("Network.setCacheDisabled", cacheDisabled=True)
    for _ in range(3):
        await tab.open("about:blank")
        await tab.open(f"{url}/#token={TOKEN}")
        painted = await tab.run(_PAINTED % f"{cards:,}")
        print(f"first paint {painted / 1e3:.2f} s", flush=True)
    await tab.ask("Performance.enable", timeDomain="threadTicks")
    for step in (100, 2000):
        before = await thread_s(tab)
        lengths = await tab.run(_SCROLL % (5000, step, step))
        told("scrolled by", step, lengths)
        each_ms = (await thread_s(tab) - before) * 1e3 / len(lengths)
        print(f"  {each_ms:.1f} ms of CPU of the page's thread a frame", flush=True)
    await tab.ask("HeapProfiler.enable")
    await tab.ask("HeapProfiler.collectGarbage")
    heap = (await tab.ask("Runtime.getHeapUsage"))["usedSize"]
    print(f"JavaScript's memory {heap / 2**20:.0f} MiB", flush=True)


async def thread_s(tab: Tab) -> float:
    """The CPU time (s) of the page's thread so far."""
    found = (await tab.ask("Performance.getMetrics"))["metrics"]
    [spent_s] = [one["value"] for one in found if one["name"] == "ThreadTime"]
    return float(spent_s)


def told(what: str, step: int, lengths: list[float]) -> None:
    """Print frames a second, and long frames."""
    ordered = sorted(lengths)
    rate = len(lengths) * 1e3 / sum(lengths)
    print(
        f"{what} {step} px a frame: {rate:.0f} frames/s, 95th percentile "
        f"{ordered[len(ordered) * 95 // 100]:.0f} ms, longest {ordered[-1]:.0f} ms",
        flush=True,
    )


async def updated(tab: Tab) -> None:
    """Scroll until an answer with changes was drawn, and print the longest frame."""
    shown = "document.querySelector('.summary').innerText"
    before, lengths = await tab.run(shown), list[float]()
    while await tab.run(shown) == before:
        lengths += await tab.run(_SCROLL % (1000, 100, 100))
    told("while an update came, by", 100, lengths)


def renderer_bytes(folder: Path) -> int:
    """The private memory of the largest renderer with this profile."""
    most = 0
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
            if b"--type=renderer" not in command or str(folder).encode() not in command:
                continue
            lines = (process / "smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        private = [int(one.split()[1]) for one in lines if one.startswith("Private_")]
        most = max(most, sum(private) * 1024)
    return most


async def scheduler_share(
    session: aiohttp.ClientSession, behind: str, seconds: float, viewers: int
) -> None:
    """Print what reads take of one core, for this time."""
    before, began_s = await spent(session, behind), time.monotonic()
    await asyncio.sleep(seconds)
    after = await spent(session, behind)
    cpu_s = after["cpu_s"] - before["cpu_s"]
    passed_s = time.monotonic() - began_s
    print(
        f"{viewers} viewers: {after['answers'] - before['answers']} answers in {passed_s:.0f} s, "
        f"{100 * cpu_s / passed_s:.1f} % of a core of the scheduler",
        flush=True,
    )


async def measure(options: Any) -> None:
    """All of it."""
    with tempfile.TemporaryDirectory() as folder:
        profile = Path(folder)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            dashboard(options.nodes, options.pods) as (url, behind, process),
            aiohttp.ClientSession(connector=connector, timeout=PATIENT) as session,
            browser(profile) as open_tab,
            open_tab() as tab,
            asyncio.TaskGroup() as group,
        ):
            first = group.create_task(view(session, url))
            async with session.get(f"{url}/api/state", headers={"Kubeshare-Token": TOKEN}) as one:
                await one.read()  # returns once there is a state
            await page(tab, url, options.nodes * 8)
            await updated(tab)
            print(f"the tab's process {renderer_bytes(profile) / 2**20:.0f} MiB", flush=True)
            await scheduler_share(session, behind, options.seconds, 2)
            more = [group.create_task(view(session, url)) for _ in range(options.viewers - 2)]
            await scheduler_share(session, behind, options.seconds, options.viewers)
            peak = most_resident_bytes(process)
            print(f"the dashboard's process at most {peak / 2**20:.0f} MiB", flush=True)
            for task in (first, *more):
                task.cancel()


def main() -> None:
    """Measure, or serve the state for that."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--viewers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--serve-state", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve_state:
        serve_state(options.nodes, options.pods)
        return
    assert found() is not None, "needs Chromium"
    asyncio.run(measure(options))


if __name__ == "__main__":
    main()
