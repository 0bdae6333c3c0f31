"""The part of `metadata` that the scheduler needs."""

import msgspec


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object's identity and its user-given words. A bookmark has only `resourceVersion`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
