"""Everything that one scheduler process serves: its state, its health, its metrics."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kubeshare_py.edges import health, probes
from kubeshare_py.edges.delegated_auth import MOST_ASKED, DelegatedAuth
from kubeshare_py.edges.kube_client import KubeClient
from kubeshare_py.edges.leadership import Leadership
from kubeshare_py.edges.metrics_page import MetricsPage
from kubeshare_py.edges.report_lane import ReportLane
from kubeshare_py.edges.state_server import serve
from kubeshare_py.edges.vital_signs import VitalSigns
from kubeshare_py.framework.configuration import SchedulerConfiguration
from kubeshare_py.scheduling.explanation import cluster_portions, why


@asynccontextmanager
async def endpoints(
    configuration: SchedulerConfiguration,
    client: KubeClient,
    signs: VitalSigns,
    reports: ReportLane,
    leadership: Leadership,
) -> AsyncIterator[str]:
    """Serve while entered; yields the URL. Raises ConfigurationError for unusable files.

    Whether somebody may read is asked with the credentials of `client`, but on connections of its
    own: not behind binds, and also while another process leads.
    """
    machine, interval_s = signs.machine, configuration.inventory.interval_seconds
    page = MetricsPage(
        signs, lambda: (reports.queued, reports.dropped), client.tallies, leadership.figures
    )
    checks = probes.routes(
        lambda: health.live_checks(signs), lambda: health.ready_checks(signs, interval_s)
    )
    async with client.another(concurrency=MOST_ASKED) as asking:
        server = serve(
            configuration.server,
            ready=lambda: machine.ready,
            cluster=lambda topology: cluster_portions(machine, topology=topology),
            why=lambda key: why(machine, key),
            others=[*checks, *page.routes()],
            denial=DelegatedAuth(asking, signs.clock).denial,
        )
        async with server as url:
            yield url
