"""Volumes of a pod that placement depends on, and which volumes a placement gives to its claims.

Rules: https://kubernetes.io/docs/concepts/storage/persistent-volumes/ and
https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/
"""

from dataclasses import dataclass, field

from kubeshare_py.domain.identity import PodUid

#: Only one pod of a node may have such a disk, even to read it.
_EBS = "awsElasticBlockStore"
_EXCLUSIVE = frozenset({_EBS, "gcePersistentDisk", "iscsi", "rbd"})


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A PersistentVolumeClaim that a pod mounts, by its name in the pod's namespace.

    `owner` is set for a generic ephemeral volume: the claim's controller must be this pod, which is
    called `pod`.
    """

    name: str
    owner: PodUid | None = None
    pod: str = ""


@dataclass(frozen=True, slots=True)
class InlineDisk:
    """A disk that a pod's spec names without a claim.

    `source` is the field of the volume, such as `gcePersistentDisk`. `disk` names the disk among
    those of its source; for `rbd`, with its pool. `monitors` are those of `rbd`, else empty.
    `csi_driver` attaches the disk, "" if no CSI driver does.
    """

    source: str
    disk: str
    read_only: bool = False
    monitors: tuple[str, ...] = ()
    csi_driver: str = ""

    @property
    def is_exclusive(self) -> bool:
        """Whether pods of one node cannot share the disk, unless all of them only read it."""
        return self.source in _EXCLUSIVE

    def conflicts(self, other: "InlineDisk") -> bool:
        """Whether pods with these disks cannot be on one node."""
        if not self.is_exclusive or (self.source, self.disk) != (other.source, other.disk):
            return False
        if self.monitors and not {*self.monitors} & {*other.monitors}:
            return False
        return self.source == _EBS or not (self.read_only and other.read_only)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodVolumes:
    """The claims and disks that a pod mounts, in the order of its spec; the claims' namespace.

    Each claim and disk is there once. Invariant: it has a claim or a disk, else ValueError. The
    fields are hashed once.
    """

    namespace: str
    claims: tuple[PodClaim, ...] = ()
    disks: tuple[InlineDisk, ...] = ()
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not self.claims and not self.disks:
            raise ValueError("neither a claim nor a disk")
        object.__setattr__(self, "_hash", hash((self.namespace, self.claims, self.disks)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """The PersistentVolume `volume` is to be bound to a claim, both by name."""

    claim: str
    volume: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeChoice:
    """What has to be done on one node before a pod can be bound to it: its PreBind.

    `namespace` is that of the claims. `bindings` are existing volumes for claims that have none,
    the smallest request first; `provisions` are claims for which a volume is to be made, by name.
    Empty if all claims are bound.
    """

    namespace: str
    bindings: tuple[StaticBinding, ...] = ()
    provisions: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bindings or self.provisions)
