"""Volumes of pods, and the storage objects that they need."""

from random import Random

from tests.differential.generator.words import HOSTNAME, ZONE, ZONES, Json, chance, some

DRIVER, GCE_DRIVER = "csi.example.com", "pd.csi.storage.gke.io"
_STORAGE = "storage.k8s.io/v1"
_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_SELECTED = "volume.kubernetes.io/selected-node"
_ONE_POD = "ReadWriteOncePod"
_MODES = ("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany", _ONE_POD)
#: Names of classes; pods and volumes may also name one that is not there.
CLASSES = ("waiting", "local", "immediate", "unset", "absent", "")
_SIZES = ("1Gi", "5Gi", "20Gi")
_CLAIMS = 6


def storage(rng: Random, nodes: list[Json], namespace: str) -> list[Json]:
    """Classes, claims in a namespace, volumes, and what CSI drivers publish about the nodes."""
    names = [node["metadata"]["name"] for node in nodes]
    volumes = [_volume(rng, f"pv{at}", names) for at in range(rng.randint(0, 6))]
    claims = [_claim(rng, f"claim{at}", namespace, names) for at in range(_CLAIMS)]
    for claim in claims:
        _bind(rng, claim, volumes)
    return [
        *_classes(rng),
        *(one for one in volumes if not chance(rng, 0.03)),
        *(one for one in claims if not chance(rng, 0.03)),
        *_drivers(rng, names),
    ]


def volumes(rng: Random, made: Json) -> None:
    """Volumes of a pod: of claims, made for the pod, of disks, and such as do not matter."""
    found: list[Json] = []
    for at in range(rng.choice((1, 1, 2, 3))):
        way = rng.random()
        if way < 0.7:
            # The last one is never there.
            name = f"claim{_CLAIMS if chance(rng, 0.04) else rng.randint(0, _CLAIMS - 1)}"
            source: Json = {"persistentVolumeClaim": {"claimName": name}}
        elif way < 0.8:
            spec = _claim_spec(rng)
            source = {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
        elif way < 0.9:
            source = _disk(rng)
        else:
            source = {"emptyDir": {}}
        found.append({"name": f"v{at}", **source})
    made["spec"]["volumes"] = found


def ephemeral_claims(rng: Random, pods: list[Json], nodes: list[Json]) -> list[Json]:
    """The claims of the generic ephemeral volumes of these pods; some of others, some missing."""
    names = [node["metadata"]["name"] for node in nodes]
    found = []
    for pod in pods:
        meta = pod["metadata"]
        for volume in pod["spec"].get("volumes", ()):
            if "ephemeral" not in volume or chance(rng, 0.15):
                continue
            claim = _claim(rng, f"{meta['name']}-{volume['name']}", meta["namespace"], names)
            claim["spec"] = dict(volume["ephemeral"]["volumeClaimTemplate"]["spec"])
            stranger = meta["name"] == "incoming" and chance(rng, 0.15)
            uid = "another" if stranger else meta["uid"]
            claim["metadata"]["ownerReferences"] = [
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": meta["name"],
                    "uid": uid,
                    "controller": True,
                }
            ]
            found.append(claim)
    return found


def _disk(rng: Random) -> Json:
    disk = rng.choice(("d1", "d2"))
    read_only = {"readOnly": True} if chance(rng, 0.4) else {}
    kind = rng.choice(("gcePersistentDisk", "awsElasticBlockStore", "iscsi", "rbd"))
    if kind == "gcePersistentDisk":
        return {kind: {"pdName": disk, **read_only}}
    if kind == "awsElasticBlockStore":
        return {kind: {"volumeID": disk, **read_only}}
    if kind == "iscsi":
        return {
            kind: {
                "targetPortal": "10.0.0.9:3260",
                "iqn": f"iqn.2026-01.x:{disk}",
                "lun": 0,
                **read_only,
            }
        }
    monitors = some(rng, ("m1", "m2", "m3"), 2) or ["m1"]
    return {kind: {"monitors": monitors, "image": disk, "pool": "rbd", **read_only}}


def _classes(rng: Random) -> list[Json]:
    waiting: Json = {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"}
    if chance(rng, 0.4):
        expression = {"key": ZONE, "values": some(rng, ZONES, 2) or [ZONES[0]]}
        waiting["allowedTopologies"] = [{"matchLabelExpressions": [expression]}]
    fields = {
        "waiting": waiting,
        "local": {
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        "immediate": {"provisioner": DRIVER, "volumeBindingMode": "Immediate"},
        "unset": {"provisioner": DRIVER, "volumeBindingMode": "Immediate"},
    }
    return [
        {"apiVersion": _STORAGE, "kind": "StorageClass", "metadata": {"name": name}, **one}
        for name, one in fields.items()
        if not (name == "unset" and chance(rng, 0.5))
    ]


def _volume(rng: Random, name: str, nodes: list[str]) -> Json:
    spec: Json = {
        "capacity": {"storage": rng.choice(_SIZES)},
        "accessModes": _access_modes(rng),
        "storageClassName": rng.choice(("waiting", "local", "local", "immediate", "")),
        "persistentVolumeReclaimPolicy": "Retain",
        "volumeMode": "Block" if chance(rng, 0.1) else "Filesystem",
    }
    way = rng.random()
    if way < 0.6:
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    elif way < 0.85:
        spec["gcePersistentDisk"] = {"pdName": f"disk-{name}"}
    else:
        spec["hostPath"] = {"path": "/mnt"}
    if chance(rng, 0.5):
        key, values = rng.choice(((ZONE, ZONES), (HOSTNAME, nodes or ["n0"])))
        expression = {"key": key, "operator": "In", "values": some(rng, values, 2) or [values[0]]}
        term = {"matchExpressions": [expression]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    labels = {}
    if chance(rng, 0.3):
        key = rng.choice((ZONE, ZONE, "failure-domain.beta.kubernetes.io/zone"))
        labels[key] = rng.choice((*ZONES, f"{ZONES[0]}__{ZONES[1]}"))
    if chance(rng, 0.3):
        labels["kind"] = rng.choice(("a", "b"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels, "uid": f"uid-{name}"},
        "spec": spec,
        "status": {"phase": "Available" if chance(rng, 0.95) else "Released"},
    }


def _access_modes(rng: Random) -> list[str]:
    found = {rng.choice(_MODES) for _ in range(rng.randint(1, 3))}
    # Not beside another one.
    return [_ONE_POD] if _ONE_POD in found else sorted(found)


def _claim_spec(rng: Random) -> Json:
    spec: Json = {
        "accessModes": [rng.choice(_MODES)],
        "resources": {"requests": {"storage": rng.choice(_SIZES)}},
        "storageClassName": rng.choice(
            ("waiting", "waiting", "waiting", "local", "local", "local", *CLASSES)
        ),
        "volumeMode": "Block" if chance(rng, 0.05) else "Filesystem",
    }
    if chance(rng, 0.15):
        spec["selector"] = {"matchLabels": {"kind": rng.choice(("a", "b"))}}
    return spec


def _claim(rng: Random, name: str, namespace: str, nodes: list[str]) -> Json:
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if nodes and chance(rng, 0.08):
        metadata["annotations"] = {_SELECTED: rng.choice(nodes)}
    if chance(rng, 0.03):
        metadata["deletionTimestamp"] = "2026-01-03T00:00:00Z"
        metadata["finalizers"] = ["kubernetes.io/pvc-protection"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": _claim_spec(rng),
        "status": {"phase": "Pending"},
    }


def _bind(rng: Random, claim: Json, among: list[Json]) -> None:
    """Perhaps bind a claim to a volume that is free, half or wholly, or to one that is gone."""
    free = [one for one in among if "claimRef" not in one["spec"]]
    if not free or not chance(rng, 0.55):
        if chance(rng, 0.05):
            claim["status"]["phase"] = "Lost"
            claim["spec"]["volumeName"] = "gone"
            claim["metadata"].setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = (
                "yes"
            )
        return
    volume = rng.choice(free)
    meta = claim["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }
    volume["spec"]["claimRef"] = reference
    claim["spec"]["storageClassName"] = volume["spec"]["storageClassName"]
    if chance(rng, 0.15):  # kept for the claim
        if chance(rng, 0.5):
            del reference["uid"]
        return
    volume["status"]["phase"] = "Bound"
    claim["spec"]["volumeName"] = volume["metadata"]["name"]
    if chance(rng, 0.93):
        meta.setdefault("annotations", {})["pv.kubernetes.io/bind-completed"] = "yes"
        claim["status"]["phase"] = "Bound"


def _drivers(rng: Random, nodes: list[str]) -> list[Json]:
    found: list[Json] = []
    for name in nodes:
        if chance(rng, 0.15):
            continue
        drivers: list[Json] = []
        for driver in (DRIVER, GCE_DRIVER):
            one: Json = {"name": driver, "nodeID": name, "topologyKeys": [ZONE]}
            if chance(rng, 0.5):
                one["allocatable"] = {"count": rng.choice((0, 1, 2, 3))}
            if chance(rng, 0.85):
                drivers.append(one)
        metadata: Json = {"name": name}
        if chance(rng, 0.6):
            metadata["annotations"] = {_MIGRATED: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"}
        spec = {"drivers": drivers}
        found.append(
            {"apiVersion": _STORAGE, "kind": "CSINode", "metadata": metadata, "spec": spec}
        )
    tracked = chance(rng, 0.4)
    found.append(
        {
            "apiVersion": _STORAGE,
            "kind": "CSIDriver",
            "metadata": {"name": DRIVER},
            "spec": {"storageCapacity": tracked, "attachRequired": True},
        }
    )
    if tracked:
        found += [_capacity(rng, at) for at in range(rng.randint(0, 4))]
    if nodes and chance(rng, 0.25):
        found += [_attachment(rng, at, nodes) for at in range(rng.randint(1, 3))]
    return found


def _capacity(rng: Random, at: int) -> Json:
    made: Json = {
        "apiVersion": _STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"capacity{at}", "namespace": "default"},
        "storageClassName": rng.choice(("waiting", "waiting", "immediate")),
    }
    if chance(rng, 0.9):
        made["nodeTopology"] = (
            {"matchLabels": {ZONE: rng.choice(ZONES)}} if chance(rng, 0.8) else {}
        )
    if chance(rng, 0.9):
        made["capacity"] = rng.choice(("0", "2Gi", "100Gi"))
    if chance(rng, 0.3):
        made["maximumVolumeSize"] = rng.choice(("1Gi", "10Gi"))
    return made


def _attachment(rng: Random, at: int, nodes: list[str]) -> Json:
    return {
        "apiVersion": _STORAGE,
        "kind": "VolumeAttachment",
        "metadata": {"name": f"attachment{at}"},
        "spec": {
            "attacher": DRIVER,
            "nodeName": rng.choice(nodes),
            "source": {"persistentVolumeName": f"pv{rng.randint(0, 5)}"},
        },
        "status": {"attached": True},
    }
