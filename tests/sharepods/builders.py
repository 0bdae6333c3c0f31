"""SharePods and pods for tests: each says only what the test is about."""

from typing import Any

from kubeshare_py.domain.identity import PodKey, PodUid
from kubeshare_py.sharepods.share_pod import (
    PodBehind,
    PodMirror,
    SharePod,
    SharePodTemplate,
    SharePodUid,
)

KEY = PodKey("default", "one")


def template(content: str = "first") -> SharePodTemplate:
    return SharePodTemplate(manifest=content.encode(), field_hashes=(("spec.containers", content),))


def share(uid: str = "s1", version: int = 1, content: str = "first", **fields: Any) -> SharePod:
    about = {"key": KEY, "uid": SharePodUid(uid), "version": str(version)}
    return SharePod(**{**about, "template": template(content), **fields})


def mirror(uid: str = "p1", phase: str = "Pending", node: str = "", **fields: Any) -> PodMirror:
    shown = f'{{"phase":"{phase}"}}'.encode()
    about = f'{{"uid":"{uid}"}}'.encode()
    return PodMirror(
        pod_uid=PodUid(uid), phase=phase, status=shown, metadata=about, node=node, **fields
    )


def pod(uid: str = "p1", owner: str = "s1", version: int = 1, **fields: Any) -> PodBehind:
    """A pod of a SharePod; `phase` and `node` are its mirror's."""
    shown = mirror(uid, fields.pop("phase", "Pending"), fields.pop("node", ""))
    found = {
        "key": KEY,
        "uid": PodUid(uid),
        "version": str(version),
        "owner": SharePodUid(owner),
        "has_controller": bool(owner),
        "is_marked": True,
        "field_hashes": template().field_hashes,
        "mirror": shown,
    }
    return PodBehind(**{**found, **fields})
