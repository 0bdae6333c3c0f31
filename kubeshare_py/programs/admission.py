"""kubeshare-admission: the webhook that gives new pods' containers their cards."""

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from kubeshare_py.admission.dialect_pods import taken_resources
from kubeshare_py.admission.review import Rules, answer, answer_of_others
from kubeshare_py.configuration.scheduler import SchedulerConfiguration, isolation_choices
from kubeshare_py.edges.admission import serve
from kubeshare_py.edges.kube.certificates import CertificateFiles, Pace, SelfSignedCa, webhooks
from kubeshare_py.edges.kube.client import KubeClient
from kubeshare_py.edges.kube.credentials import load
from kubeshare_py.edges.process.plugin_entry_points import configured


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """`service` is NAME.NAMESPACE; `address` "" is all. Without files, it makes a certificate.

    `runtime_class` is set on pods with a card that name none; "" sets none. `validates`: pods whose
    `sharedgpu/*` the scheduler would not understand are refused. `left_alone` are variables of
    containers that are left to pods and images. `contested`: of pods that name no scheduler, those
    count that ask for names which dialects share with device plugins, such as `nvidia.com/gpu`.
    """

    address: str
    port: int
    service: str
    webhooks: str
    certificate_file: str = ""
    key_file: str = ""
    kubeconfig: str | None = None
    runtime_class: str = ""
    validates: bool = True
    left_alone: frozenset[str] = frozenset()
    contested: bool = False


async def main(
    configuration: SchedulerConfiguration,
    settings: AdmissionSettings,
    on_ready: Callable[[str], None] = lambda url: None,
    pace: Pace | None = None,
) -> None:
    """Answer until cancelled. Raises ConfigurationError, and KubeConfigError without files."""
    rules = Rules(
        choices=isolation_choices(configuration),
        validates=settings.validates,
        runtime_class=settings.runtime_class,
        left_alone=settings.left_alone,
        dialects=configured(configuration),
    )
    taken = taken_resources(rules.dialects, rules.choices, contested=settings.contested)
    async with AsyncExitStack() as stack:
        certificate = await _certificate(settings, pace or Pace(), stack)
        server = serve(
            settings.address,
            settings.port,
            certificate.context,
            {
                "/pods": partial(answer, rules=rules),
                "/dialect-pods": partial(answer, rules=replace(rules, taken=taken)),
                "/others": answer_of_others,
            },
            problem=lambda: certificate.problem,
        )
        async with server as url, asyncio.TaskGroup() as group:
            on_ready(url)
            group.create_task(certificate.keep())


async def _certificate(
    settings: AdmissionSettings, pace: Pace, stack: AsyncExitStack
) -> CertificateFiles | SelfSignedCa:
    if settings.certificate_file:
        return CertificateFiles(settings.certificate_file, settings.key_file)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubeshare-"))
    client = await stack.enter_async_context(KubeClient(load(settings.kubeconfig), concurrency=1))
    names = (f"{settings.service}.svc", settings.service)
    return SelfSignedCa(client, webhooks(settings.webhooks), names, Path(folder), pace)
