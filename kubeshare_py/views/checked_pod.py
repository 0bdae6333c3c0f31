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

    `refused` are sentences; the pod is fine without any. `documentation` is where its dialect says
    what its keys mean, "" if it does not.
    """

    object: str
    scheduler: str
    dialect: str
    claims: tuple[CheckedClaim, ...]
    refused: tuple[str, ...]
    documentation: str = ""
