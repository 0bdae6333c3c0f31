"""Pods as anybody may write them, as far as their containers' environment goes."""

from typing import Any

from hypothesis import strategies as st

from tests.admission.patched import SHARE

_LIBRARY = "/kubeshare/library/libgemhook.so.1"
_NAMES = st.sampled_from(
    [
        *("NVIDIA_VISIBLE_DEVICES", "LD_PRELOAD", "LD_PRELOAD", "NVIDIA_GPU_MEMORY_LIMIT"),
        *("CUDA_MPS_PIPE_DIRECTORY", "POD_NAME", "USER_A", "USER_B"),
        *("NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_GDS", "NVIDIA_MIG_CONFIG_DEVICES"),
    ]
)
_VALUES = st.sampled_from(
    [
        "",
        "all",
        "void",
        "/a.so",
        _LIBRARY,
        f"{_LIBRARY}:/b.so",
        "$(USER_A)",
        "/tmp/nvidia-mps",
        "disabled",
    ]
)
_SOURCES = st.sampled_from(
    [
        {
            "fieldRef": {
                "apiVersion": "v1",
                "fieldPath": "metadata.annotations['sharedgpu/gpu_uuid']",
            }
        },
        {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        {"secretKeyRef": {"name": "s", "key": "k"}},
    ]
)
_ENTRIES = st.one_of(
    st.fixed_dictionaries({"name": _NAMES, "value": _VALUES}),
    st.fixed_dictionaries({"name": _NAMES, "valueFrom": _SOURCES}),
)
_ENVS = st.none() | st.lists(_ENTRIES, min_size=1, max_size=5)
_MOUNTS = st.none() | st.lists(
    st.sampled_from(["/work", "/dev/shm", "/tmp/nvidia-mps", "/kubeshare/library"]),
    min_size=1, max_size=3, unique=True,
)  # fmt: skip
_LABELS = st.sampled_from(
    [
        *({}, {"sharedgpu/priority": "1"}, SHARE, SHARE, SHARE),
        {"sharedgpu/gpu_request": "2", "sharedgpu/gpu_limit": "2"},
        *({"sharedgpu/gpu_limit": "1.0"}, {"sharedgpu/gpu_mem": "1"}),
        *({"sharedgpu/gpu_limit": zero} for zero in ("0", "0.0", "00.00", "0.5")),
        {"sharedgpu/gpu_limit": "0", "sharedgpu/gpu_request": "2", "sharedgpu/gpu_mem": "1"},
    ]
)
_WISHES = st.sampled_from(["", "none", "driver", "mps", "mps", "gemini", "gemini", "other"])


def _container(name: str, **fields: Any) -> st.SearchStrategy[dict[str, Any]]:
    def made(env: list[Any] | None, mounts: list[str] | None) -> dict[str, Any]:
        found = {"name": name, "image": "busybox", **fields}
        if env:
            found["env"] = env
        if mounts:
            found["volumeMounts"] = [{"name": "own", "mountPath": path} for path in mounts]
        return found

    return st.builds(made, _ENVS, _MOUNTS)


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod of ours: one or two containers, and perhaps an init container and a sidecar."""
    labels, wish = draw(_LABELS), draw(_WISHES)
    containers = [draw(_container(f"c{number}")) for number in range(draw(st.integers(1, 2)))]
    inits = [
        draw(_container("init")),
        draw(_container("side", restartPolicy="Always")),
    ][: draw(st.integers(0, 2))]
    spec: dict[str, Any] = {
        "schedulerName": "kubeshare-scheduler",
        "automountServiceAccountToken": False,
        "containers": containers,
    }
    if inits:
        spec["initContainers"] = inits
    if draw(st.booleans()):
        spec["runtimeClassName"] = "nvidia"
    if any("volumeMounts" in one for one in (*containers, *inits)) or draw(st.booleans()):
        spec["volumes"] = [{"name": "own", "emptyDir": {}}]
        if draw(st.booleans()):
            spec["volumes"].append({"name": "kubeshare-mps", "emptyDir": {}})
    found = {**labels, **({"sharedgpu/isolation": wish} if wish else {})}
    metadata = {"name": "p", **({"labels": found} if found else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
