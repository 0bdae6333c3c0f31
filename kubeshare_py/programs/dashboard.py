"""kubeshare-dashboard: a page that shows the scheduler's state to users of the cluster."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.dashboard.server import serve
from kubeshare_py.edges.kube.certificates import CertificateFiles
from kubeshare_py.edges.kube.credentials import Credentials
from kubeshare_py.edges.kube.errors import KubeConfigError
from kubeshare_py.edges.kube.kubeconfig import (
    REREAD_S,
    Configured,
    KubectlOptions,
    KubeReading,
)
from kubeshare_py.edges.process import decision_log
from kubeshare_py.edges.process.run_until_signal import until_signal

if TYPE_CHECKING:
    from kubeshare_py.dashboard.past import PastLog
    from kubeshare_py.framework.profile_making import PluginFactory

    InTree = Callable[[], Mapping[str, PluginFactory]]

OK, BAD_USAGE, NOT_STARTED = 0, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardSettings:
    """`address` "" is all. Without a certificate and its key it speaks plain HTTP.

    `event_log` is the folder of a scheduler's --event-log, "" for none.
    The API server is `server` with the authority in `authority_file`, or that of the kubeconfig.
    """

    address: str
    port: int
    server: str | None = None
    authority_file: str | None = None
    kubeconfig: str | None = None
    certificate_file: str = ""
    key_file: str = ""
    log_level: str = "info"
    event_log: str = ""


def run(settings: DashboardSettings, in_tree: "InTree") -> int:
    """Serve until SIGINT or SIGTERM; the exit code."""
    decision_log.set_up(settings.log_level)
    try:
        past = past_of(settings.event_log, in_tree)
        asyncio.run(until_signal(show(settings, api_server(settings), past=past)))
    except ConfigurationError as error:
        decision_log.warn("certificate", message=str(error))
        return BAD_USAGE
    except (OSError, KubeConfigError) as error:
        decision_log.warn("server", message=str(error))
        return NOT_STARTED
    return OK


def api_server(settings: DashboardSettings) -> Credentials:
    """The API server's address and authority, without any credentials. Raises KubeConfigError."""
    options = KubectlOptions(
        kubeconfig=settings.kubeconfig,
        server=settings.server,
        certificate_authority=settings.authority_file,
    )
    return Credentials("the API server", lambda: _location(options))


def _location(options: KubectlOptions) -> KubeReading:
    """Read again now and then: an authority may be replaced in place."""
    return replace(Configured(options).location(), valid_s=REREAD_S)


def past_of(folder: str, in_tree: "InTree") -> "PastLog | None":
    """What a folder of event logs tells, by these plugins and those of installed packages.

    `in_tree` is called if there is a folder. Raises ConfigurationError if these cannot be used.
    """
    if not folder:
        return None
    # The machine and its plugins, which the page of the present needs nothing of.
    from kubeshare_py.edges.event_log.past import LogOfPast  # noqa: PLC0415
    from kubeshare_py.edges.process.plugin_entry_points import (  # noqa: PLC0415
        with_entry_points,
    )

    return LogOfPast(Path(folder), with_entry_points(in_tree()))


async def show(
    settings: DashboardSettings,
    anonymous: Credentials,
    on_ready: Callable[[str], None] = lambda url: None,
    clock: Callable[[], float] | None = None,
    past: "PastLog | None" = None,
) -> None:
    """Serve until cancelled; `on_ready` gets the page's URL. `clock` is the loop's by default.

    Raises OSError if it cannot listen, and ConfigurationError for a certificate.
    """
    async with AsyncExitStack() as stack:
        group = await stack.enter_async_context(asyncio.TaskGroup())
        context = None
        if settings.certificate_file:
            certificate = CertificateFiles(settings.certificate_file, settings.key_file)
            context = certificate.context
            group.create_task(certificate.keep())
        server = serve(anonymous, settings.address, settings.port, context, clock, past)
        on_ready(await stack.enter_async_context(server))
        await asyncio.get_running_loop().create_future()
