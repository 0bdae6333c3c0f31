"""All endpoints of one scheduler process: its state, its health, its metrics."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from aiohttp import web

from kubeshare_py.configuration.scheduler import SchedulerConfiguration
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.edges.kube.certificate_files import CertificateFiles
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.delegated_auth import MAX_ASKED, DelegatedAuth
from kubeshare_py.edges.kube.self_signed_ca import Pace, SelfSignedCa, api_service
from kubeshare_py.edges.process import probes
from kubeshare_py.edges.scheduler import health
from kubeshare_py.edges.scheduler.configured_files import accepted_tokens
from kubeshare_py.edges.scheduler.hami_page import serve_hami_metrics
from kubeshare_py.edges.scheduler.leadership import Leadership
from kubeshare_py.edges.scheduler.metrics_page import MetricsPage
from kubeshare_py.edges.scheduler.process_health import ProcessHealth
from kubeshare_py.edges.scheduler.state.front_proxy import FrontProxy
from kubeshare_py.edges.scheduler.state.state_access import StateAccess
from kubeshare_py.edges.scheduler.state.state_api import StateApi, Views
from kubeshare_py.edges.scheduler.state.state_server import serve
from kubeshare_py.edges.scheduler.state.state_stream import ViewStreams
from kubeshare_py.edges.scheduler.writes.report_lane import ReportLane
from kubeshare_py.exporters.scheduler_metrics import WriteFigures
from kubeshare_py.manifests.state_group import API_SERVICE
from kubeshare_py.scheduling.explain.explanation import cluster_portions, pod_portions, why_steps
from kubeshare_py.scheduling.explain.visibility import namespaces
from kubeshare_py.scheduling.machine import Machine

#: Only readers of the state wait for the API server's trust, and the APIService may be created
#: later.
PACE = Pace(retry_s=0.25)


@asynccontextmanager
async def endpoints(
    configuration: SchedulerConfiguration,
    client: KubeClient,
    process_health: ProcessHealth,
    reports: ReportLane,
    leadership: Leadership,
    dialects: Dialects,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. Raises ConfigurationError for unusable files.

    Access reviews use the credentials of `client`, but on connections of their own: not behind
    binds, and also while another process leads.
    """
    machine = process_health.machine
    page = MetricsPage(
        process_health,
        lambda: WriteFigures(reports.queued, reports.dropped, reports.failures.counts),
        client.tallies,
        leadership.figures,
    )
    async with AsyncExitStack() as stack:
        asking = await stack.enter_async_context(client.another(concurrency=MAX_ASKED))
        own = await stack.enter_async_context(client.another(concurrency=1))
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kubeshare-")))
        certificate = _certificate(configuration, own, folder)
        proxy = FrontProxy(own, certificate.context)
        reviews = DelegatedAuth(asking, process_health.clock)
        access = StateAccess(
            tokens=accepted_tokens(configuration.server.token_file),
            reviews=reviews,
            forwarded=proxy.user,
            namespaces=lambda: namespaces(machine),
        )
        views, streams = _views(machine), ViewStreams()
        url = await stack.enter_async_context(
            serve(
                configuration.server,
                certificate.context,
                views,
                streams,
                others=[
                    *_checks(process_health, configuration, leadership),
                    *page.routes(),
                    *StateApi(views, access, streams).routes(),
                ],
                denial=reviews.denial,
            )
        )
        hami_page = serve_hami_metrics(configuration.hami_metrics, machine, dialects.quota_names)
        await stack.enter_async_context(hami_page)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        running = [group.create_task(certificate.keep())]
        if configuration.server.api_service:
            running.append(group.create_task(proxy.keep()))
        try:
            yield url
        finally:
            for task in running:
                task.cancel()


def _checks(
    process_health: ProcessHealth, configuration: SchedulerConfiguration, leadership: Leadership
) -> list[web.RouteDef]:
    interval_s = configuration.inventory.interval_seconds
    leads = []
    if configuration.extends:
        leads.append(health.leading_check(leadership.may_send))
    return probes.routes(
        lambda: health.live_checks(process_health),
        lambda: [*health.ready_checks(process_health, interval_s), *leads],
    )


def _views(machine: Machine) -> Views:
    return Views(
        ready=lambda: machine.ready,
        cluster=lambda topology, sees: cluster_portions(machine, topology=topology, sees=sees),
        pods=lambda namespace, sees: pod_portions(machine, namespace, sees),
        why=lambda key, sees: why_steps(machine, key, sees),
    )


def _certificate(
    configuration: SchedulerConfiguration, client: KubeClient, folder: Path
) -> CertificateFiles | SelfSignedCa:
    """The certificate of the files; or a self-made one, which is added to the APIService."""
    settings = configuration.server
    if settings.certificate_file:
        setting = "server.certificateFile:"
        return CertificateFiles(settings.certificate_file, settings.key_file, setting)
    host = f"{settings.service}.{configuration.leader_election.resource_namespace}"
    names = (f"{host}.svc", host, "localhost")
    caller = api_service(API_SERVICE) if settings.api_service else None
    return SelfSignedCa(client, caller, names, folder, PACE)
