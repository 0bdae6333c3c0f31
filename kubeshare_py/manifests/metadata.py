"""The part of `metadata` that the scheduler needs."""

import msgspec


class OwnerReference(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An owner of an object; at most one of them is its controller."""

    uid: str = ""
    controller: bool = False
    api_version: str = ""
    kind: str = ""
    name: str = ""


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """An object's identity, labels and annotations. A bookmark has only `resourceVersion`."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def controller_uid(self) -> str:
        """The uid of its controller, "" if it has none."""
        owners = self.owner_references or ()
        return next((owner.uid for owner in owners if owner.controller), "")
