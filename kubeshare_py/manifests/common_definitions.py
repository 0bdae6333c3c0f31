"""What objects of all kinds have in common: metadata, owners, label selectors."""

import msgspec

from kubeshare_py.domain.cluster_objects import Requirement

# The part of `metadata` that the scheduler needs, and that of lists.


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


class ListMetadata(msgspec.Struct):
    """Of a list, the token by which the API server is asked for its next page."""

    next_page: str | None = msgspec.field(default=None, name="continue")


# LabelSelector objects, as in the specs of budgets and workloads.
#
# https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/label-selector/


class RequirementFields(msgspec.Struct, frozen=True, gc=False):
    """One line of a label selector or of a node selector term."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class SelectorFields(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A label selector; an empty one selects everything."""

    match_labels: dict[str, str] | None = None
    match_expressions: tuple[RequirementFields, ...] | None = None


def requirement(fields: RequirementFields) -> Requirement:
    """The line as a value."""
    return Requirement(fields.key, fields.operator, fields.values or ())


def requirements(fields: SelectorFields) -> tuple[Requirement, ...]:
    """What must hold, the labels first."""
    labels = (fields.match_labels or {}).items()
    equal = tuple(Requirement(key, "In", (value,)) for key, value in labels)
    return equal + tuple(requirement(one) for one in fields.match_expressions or ())


def query(fields: SelectorFields) -> str:
    """`a=b,c in (d,e),!f`, sorted by key: as `labelSelector=` takes it; "" for an empty one."""
    parts = [(key, f"{key}={value}") for key, value in (fields.match_labels or {}).items()]
    parts += [(one.key, _text(one)) for one in fields.match_expressions or ()]
    return ",".join(text for _, text in sorted(parts))


def _text(line: RequirementFields) -> str:
    if line.operator in ("In", "NotIn"):
        return f"{line.key} {line.operator.lower()} ({','.join(sorted(line.values or ()))})"
    return f"!{line.key}" if line.operator == "DoesNotExist" else line.key
