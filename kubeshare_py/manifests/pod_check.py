"""What a scheduler would make of a pod of a manifest, before there is such a pod."""

import msgspec

from kubeshare_py.dialects.dialect import Dialect, PodAsk
from kubeshare_py.dialects.dialect_table import DialectTable
from kubeshare_py.dialects.dialects import Dialects
from kubeshare_py.domain.pod import Pod
from kubeshare_py.domain.printable import listed
from kubeshare_py.domain.request import ContainerClaim
from kubeshare_py.manifests.pod_templates import PodTemplate
from kubeshare_py.manifests.pods.container_amounts import container_amounts
from kubeshare_py.manifests.pods.pod import to_domain
from kubeshare_py.manifests.pods.pod_fields import PodFields
from kubeshare_py.views.checked_pod import CheckedClaim, CheckedPod

#: The schedulerName of pods that name none.
_NO_SCHEDULER = ("", "default-scheduler")


def check(template: PodTemplate, dialects: Dialects, first_scheduler: str) -> CheckedPod:
    """Check one pod. Never raises.

    A pod that names no scheduler counts as one of `first_scheduler`.
    """
    try:
        # By way of JSON, as pods come from the API server: some fields stay undecoded.
        fields = msgspec.json.decode(msgspec.json.encode(template.pod), type=PodFields)
    except msgspec.ValidationError as error:
        place = f" of {template.path}" if template.path else ""
        return CheckedPod(template.owner, "", "", (), (f"{error}{place}{_advice(error)}",))
    spec = fields.spec
    scheduler = first_scheduler if spec.scheduler_name in _NO_SCHEDULER else spec.scheduler_name
    waiting = msgspec.structs.replace(spec, node_name="", scheduler_name=scheduler)
    pod = to_domain(msgspec.structs.replace(fields, spec=waiting), dialects)
    request, used = pod.request, _dialect_of(fields, dialects.of(scheduler))
    return CheckedPod(
        template.owner,
        scheduler,
        used.name if used else "",
        tuple(map(_claim, request.claims)) if request else (),
        _refused(pod),
        _words(used),
    )


def _dialect_of(pod: PodFields, table: DialectTable) -> Dialect | None:
    """The only dialect of which the pod has keys, whether it can read them or not."""
    meta, spec = pod.metadata, pod.spec
    amounts = container_amounts(spec.init_containers, spec.containers, table.resources)
    return table.dialect_of(PodAsk(meta.labels or {}, meta.annotations or {}, amounts))


def _words(dialect: Dialect | None) -> str:
    if dialect is None or not dialect.words.documentation:
        return ""
    return f"{dialect.words.title or dialect.name}: {dialect.words.documentation}"


def _refused(pod: Pod) -> tuple[str, ...]:
    problems = [str(pod.problem)] if pod.problem else []
    if pod.unsupported:
        problems.append(f"not supported yet: {listed(pod.unsupported)}")
    if pod.stale_results:
        problems.append(f"only schedulers write annotations {listed(pod.stale_results)}")
    return tuple(problems)


def _claim(one: ContainerClaim) -> CheckedClaim:
    claim = one.claim
    return CheckedClaim(
        claim.count,
        claim.milli,
        one.limit_milli,
        str(one.container) if one.container else "",
        claim.memory_bytes,
        claim.exclusive,
        claim.models,
    )


def _advice(error: msgspec.ValidationError) -> str:
    text = str(error)
    is_text = "labels" in text or "annotations" in text
    return "; quote it: values of labels and annotations are texts" if is_text else ""
