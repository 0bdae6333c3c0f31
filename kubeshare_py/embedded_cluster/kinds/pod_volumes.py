"""Volumes and device claims of pods: defaults, and what may be asked (v1)."""

from kubeshare_py.embedded_cluster.kinds import volume_claims
from kubeshare_py.embedded_cluster.protocol.names import label_problem, subdomain_problem
from kubeshare_py.embedded_cluster.protocol.status import (
    Json,
    StatusCause,
    duplicate,
    required,
    wrong,
)

_ONE_CLAIM = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
_TWO_CLAIMS = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"


def default_ephemeral(volume: Json) -> None:
    """The defaults of a generic ephemeral volume's claim; raises BadQuantity."""
    template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
    if template is not None:
        template.setdefault("metadata", {})
        volume_claims.default_claim_spec(template.setdefault("spec", {}))


def volume_causes(spec: Json, path: str) -> list[StatusCause]:
    """What is wrong with volumes that are claims."""
    causes: list[StatusCause] = []
    for index, volume in enumerate(spec.get("volumes") or []):
        where = f"{path}.volumes[{index}]"
        claim, ephemeral = volume.get("persistentVolumeClaim"), volume.get("ephemeral")
        if claim is not None and not claim.get("claimName"):
            causes.append(required(f"{where}.persistentVolumeClaim.claimName"))
        if ephemeral is not None:
            at = f"{where}.ephemeral.volumeClaimTemplate"
            template = ephemeral.get("volumeClaimTemplate")
            if template is None:
                causes.append(required(at))
            else:
                causes += volume_claims.claim_spec_causes(template["spec"], f"{at}.spec")
    return causes


def device_claim_causes(spec: Json, path: str) -> list[StatusCause]:
    """What is wrong with a pod's resourceClaims."""
    causes: list[StatusCause] = []
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or []):
        where, name = f"{path}.resourceClaims[{index}]", claim.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif name in seen:
            causes.append(duplicate(f"{where}.name", name))
        elif problem := label_problem(name):
            causes.append(wrong(f"{where}.name", name, problem))
        seen.add(name)
        causes += _reference_causes(claim, where)
    for part in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(part) or []):
            causes += _use_causes(container, seen, f"{path}.{part}[{index}].resources.claims")
    return causes


def _use_causes(container: Json, names: set[str], path: str) -> list[StatusCause]:
    """A container uses claims of its pod."""
    known = ", ".join(sorted(names))
    text = (
        f"must be one of the names in pod.spec.resourceClaims{'' if known else ' which is empty'}"
    )
    return [
        StatusCause(
            field=f"{path}[{index}]",
            message=f'Not found: "{one.get("name", "")}": {text}',
            reason="FieldValueNotFound",
        )
        for index, one in enumerate((container.get("resources") or {}).get("claims") or [])
        if one.get("name", "") not in names
    ]


def _reference_causes(claim: Json, path: str) -> list[StatusCause]:
    fields = ("resourceClaimName", "resourceClaimTemplateName")
    named = [field for field in fields if claim.get(field)]
    if not named:
        return [wrong(path, claim, _ONE_CLAIM)]
    if len(named) > 1:
        return [wrong(path, claim, _TWO_CLAIMS)]
    problem = subdomain_problem(claim[named[0]])
    return [wrong(f"{path}.{named[0]}", claim[named[0]], problem)] if problem else []
