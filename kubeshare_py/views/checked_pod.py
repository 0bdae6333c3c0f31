"""What pods of manifests ask for, as `kubectl kubeshare check` shows it."""

import msgspec


class CheckedClaim(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One claim: of a container (`container-0`, `init-0`), or of the whole pod if that is "".

    `milli` are thousandths of each GPU, `limitMilli` caps their time; `memoryBytes` is for each
    GPU, None for the part of its memory that goes with the share.
    """

    count: int
    milli: int
    limit_milli: int
    container: str = ""
    memory_bytes: int | None = None
    exclusive: bool = False
    models: tuple[str, ...] = ()


class CheckedPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod of a manifest. `dialect` is "" if it asks for no GPU, or in several dialects.

    `path` leads from the object to the pod's template, where the object is of a kind with several.
    `scheduler` is the schedulerName of the scheduler that takes the pod. `refused` are sentences;
    the pod is fine without any. `notes` are sentences about a pod that is fine, or under a
    condition. `documentation` is where its dialect says what its keys mean, "" if it does not.
    """

    object: str
    scheduler: str
    dialect: str
    claims: tuple[CheckedClaim, ...]
    refused: tuple[str, ...]
    documentation: str = ""
    path: str = ""
    notes: tuple[str, ...] = ()
