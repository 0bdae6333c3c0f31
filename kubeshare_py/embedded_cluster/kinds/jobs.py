"""Jobs: defaults, generated selector and labels, what may not change (kubectl-facts: batch/v1)."""

from kubeshare_py.embedded_cluster.kinds.containers import default_pod_spec, pod_spec_causes
from kubeshare_py.embedded_cluster.protocol.resources import Admission
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    required,
    unsupported,
    wrong,
)

_PREFIX = "batch.kubernetes.io/"


def prepare_job(job: Json, _admission: Admission) -> None:
    """Drops the status; selector and labels are generated from the Job's own uid."""
    job.pop("status", None)
    spec = job.setdefault("spec", {})
    default_job(job)
    if spec.get("manualSelector"):
        return
    metadata = job["metadata"]
    marks = {"controller-uid": metadata["uid"], "job-name": metadata["name"]}
    labels = {**marks, **{_PREFIX + key: value for key, value in marks.items()}}
    template = spec["template"].setdefault("metadata", {})
    template["labels"] = {**template.get("labels", {}), **labels}
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["labels"])
    key = f"{_PREFIX}controller-uid"
    spec["selector"] = {"matchLabels": {key: metadata["uid"]}}


def default_job(job: Json) -> None:
    """Defaults that updates apply too."""
    spec = job["spec"]
    if "parallelism" not in spec and "completions" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    if not spec["manualSelector"]:
        del spec["manualSelector"]
    failing = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", failing)
    default_pod_spec(spec.setdefault("template", {}).setdefault("spec", {}))
    job.setdefault("status", {})


def job_causes(job: Json) -> list[StatusCause]:
    """The template must not restart for ever, and counts are not negative."""
    spec = job["spec"]
    causes = pod_spec_causes(spec["template"]["spec"], "spec.template.spec")
    policy = spec["template"]["spec"]["restartPolicy"]
    if policy == "Always":
        where = "spec.template.spec.restartPolicy"
        causes.append(unsupported(where, policy, ("OnFailure", "Never")))
    for name in ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"):
        if spec.get(name, 0) < 0:
            text = "must be greater than or equal to 0"
            causes.append(wrong(f"spec.{name}", spec[name], text))
    if spec["completionMode"] == "Indexed" and "completions" not in spec:
        text = "when completion mode is Indexed"
        causes.append(required("spec.completions", text))
    return causes


def job_update_causes(new: Json, old: Json) -> list[StatusCause]:
    """Selector, mode, template (unless suspended and not started) and completions stay."""
    fixed = ["selector", "completionMode"]
    suspended = old["spec"].get("suspend") and "startTime" not in old.get("status", {})
    fixed += [] if suspended else ["template"]
    fixed += [] if old["spec"]["completionMode"] == "Indexed" else ["completions"]
    return [
        wrong(f"spec.{name}", new["spec"].get(name), "field is immutable")
        for name in fixed
        if new["spec"].get(name) != old["spec"].get(name)
    ]
