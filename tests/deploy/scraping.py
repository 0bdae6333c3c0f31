"""deploy/prometheus.yaml for a Prometheus that cannot discover pods: Debian builds it without that.

The pods, with the labels that discovery would give them, come from files; all that is done to them
is as it is shipped. https://prometheus.io/docs/prometheus/latest/configuration/configuration/#pod
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import yaml

from tests.controlplane.prometheus import started
from tests.controlplane.shipped import MANIFESTS, Json
from tests.patience import PATIENCE_S

SHIPPED = MANIFESTS.with_name("prometheus.yaml")
_JOBS = {job["job_name"]: job for job in yaml.safe_load(SHIPPED.read_text())["scrape_configs"]}
#: Which pods each job asks for.
SELECTORS: Mapping[str, str] = {
    name: job["kubernetes_sd_configs"][0]["selectors"][0]["label"] for name, job in _JOBS.items()
}
_OFTEN = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}


def with_targets_from_files(targets: Mapping[str, Path], token: Path) -> Json:
    """The configuration with a file for each job, and another token; it scrapes often."""
    document: Json = yaml.safe_load(SHIPPED.read_text())
    document["global"] = _OFTEN
    document["rule_files"] = [str(SHIPPED.parent / one) for one in document["rule_files"]]
    for job in document["scrape_configs"]:
        del job["kubernetes_sd_configs"]
        file = str(targets[job["job_name"]])
        job["file_sd_configs"] = [{"files": [file], "refresh_interval": "1s"}]
        if "authorization" in job:
            job["authorization"]["credentials_file"] = str(token)
    return document


def discovered(pods: Iterable[Json], addresses: Mapping[str, str]) -> list[Json]:
    """Targets as discovery makes them of pods; `addresses` by the pods' names."""
    found = []
    for pod in pods:
        metadata, spec = pod["metadata"], pod["spec"]
        for container in spec["containers"]:
            for port in container["ports"]:
                labels = {
                    "namespace": metadata["namespace"],
                    "pod_name": metadata["name"],
                    "pod_node_name": spec["nodeName"],
                    "pod_phase": pod["status"]["phase"],
                    "pod_container_name": container["name"],
                    "pod_container_port_name": port["name"],
                }
                told = {f"__meta_kubernetes_{key}": value for key, value in labels.items()}
                found.append({"targets": [addresses[metadata["name"]]], "labels": told})
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraper:
    """A Prometheus that runs at `url`; its targets are in a file for each job."""

    url: str
    targets: Mapping[str, Path]

    def scrape(self, job: str, targets: list[Json]) -> None:
        """These from now on, in one step."""
        fresh = self.targets[job].with_suffix(".new")
        fresh.write_text(json.dumps(targets))
        fresh.replace(self.targets[job])

    async def expect_eventually(
        self, query: str, wanted: Callable[[dict[str, float]], object]
    ) -> None:
        """Ask until the values, by their label `node` or `uuid` or "", are as wanted."""
        last: object = None
        try:
            async with asyncio.timeout(PATIENCE_S), aiohttp.ClientSession() as session:
                while True:
                    last = await _asked(session, f"{self.url}/api/v1/query", query)
                    if wanted(last):
                        return
                    await asyncio.sleep(0.1)
        except TimeoutError as error:
            raise AssertionError(f"{query} is still {last}") from error


async def _asked(session: aiohttp.ClientSession, url: str, query: str) -> dict[str, float]:
    async with session.get(url, params={"query": query}) as response:
        answer = await response.json()
    assert answer["status"] == "success", answer
    return {
        one["metric"].get("uuid") or one["metric"].get("node", ""): float(one["value"][1])
        for one in answer["data"]["result"]
    }


@asynccontextmanager
async def scraper(program: Path, folder: Path, token: str) -> AsyncIterator[Scraper]:
    """Run one with this token for the scheduler's metrics, and without targets yet."""
    (folder / "token").write_text(token)
    targets = {job: folder / f"{job}.json" for job in SELECTORS}
    for file in targets.values():
        file.write_text("[]")
    configuration = with_targets_from_files(targets, folder / "token")
    async with started(program, configuration, folder) as url:
        yield Scraper(url=url, targets=targets)
