"""The images that a pod's containers and volumes use."""

import msgspec

from kubeshare_py.domain.needs.images import PodImages
from kubeshare_py.domain.remembered import remembered
from kubeshare_py.manifests.pods.pod_fields import PodSpec
from kubeshare_py.manifests.undecodable import UNDECODABLE


class _ImageSource(msgspec.Struct, frozen=True, gc=False):
    reference: str = ""


def pod_images(spec: PodSpec) -> PodImages:
    """The images; the same object for the same ones while the cache holds it."""
    containers = (spec.init_containers or ()) + (spec.containers or ())
    names = [one.image for one in containers]
    for volume in spec.volumes or ():
        if "image" in volume:
            names.append(_reference(volume["image"]))
    return _images(tuple(names), len(containers))


def _reference(source: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(source, type=_ImageSource).reference
    except UNDECODABLE:
        return ""


@remembered(4096)
def _images(names: tuple[str, ...], containers: int) -> PodImages:
    return PodImages(tuple(sorted(_tagged(name) for name in names if name)), containers)


def _tagged(name: str) -> str:
    """The name with the tag `latest` if it has none (kube-scheduler's normalizedImageName)."""
    return f"{name}:latest" if name.rfind(":") <= name.rfind("/") else name
