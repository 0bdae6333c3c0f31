"""A real Prometheus for the tests: the one on the PATH, or Debian's package, unpacked in the cache.

Options: https://prometheus.io/docs/prometheus/latest/configuration/configuration/
"""

import asyncio
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.controlplane.build import folder
from tests.controlplane.processes import process
from tests.controlplane.running import free_ports

JOB = "kubeshare-collector"
NOT_HERE = "neither a prometheus on the PATH nor an apt-get that brings Debian's"
_START_S = 30.0


def find() -> Path | None:
    """The program; None where there is none and apt-get cannot bring it. Nothing is installed."""
    installed = shutil.which("prometheus")
    if installed:
        return Path(installed)
    kept = folder().parent / "prometheus"
    if not kept.exists() and shutil.which("apt-get"):
        _unpack(kept)
    program = kept / "usr/bin/prometheus"
    return program if program.exists() else None


def find_promtool() -> Path | None:
    """What checks rules and configurations, in the same package; None as `find`."""
    program = find()
    beside = program.with_name("promtool") if program is not None else None
    return beside if beside is not None and beside.exists() else None


@asynccontextmanager
async def prometheus(
    program: Path, collectors: Mapping[str, str], directory: Path
) -> AsyncIterator[str]:
    """Scrape the collectors, whose URLs are given by node, every second; the URL to query."""
    async with started(program, _configuration(collectors), directory) as url:
        yield url


@asynccontextmanager
async def started(
    program: Path, configuration: object, directory: Path, *flags: str
) -> AsyncIterator[str]:
    """Run it with this configuration and these further flags; the URL to query."""
    (port,) = free_ports(1)
    file = directory / "prometheus.yaml"
    file.write_text(yaml.safe_dump(configuration))
    url = f"http://127.0.0.1:{port}"
    command: list[str | Path] = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
        *flags,
    ]
    with process(command, directory / "prometheus.log") as running:
        # In a thread: the collectors may be served by this event loop.
        await asyncio.to_thread(running.wait_until, lambda: _is_ready(url), _START_S)
        yield url


def _unpack(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        fetched = subprocess.run(
            ["apt-get", "download", "prometheus"], cwd=scratch, check=False, capture_output=True
        )
        packages = [*Path(scratch).glob("*.deb")]
        if fetched.returncode or not packages:
            return
        unpacked = Path(scratch) / "unpacked"
        subprocess.run(["dpkg", "-x", str(packages[0]), str(unpacked)], check=True)
        unpacked.replace(target)


def _configuration(collectors: Mapping[str, str]) -> object:
    scraped = []
    for node, url in collectors.items():
        parts = urlsplit(url)
        labels = {"__metrics_path__": parts.path, "instance": f"{node}:9004"}
        scraped.append({"targets": [parts.netloc], "labels": labels})
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
        "scrape_configs": [{"job_name": JOB, "static_configs": scraped}],
    }


def _is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
            return True
    except OSError:
        return False
