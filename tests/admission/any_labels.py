"""Labels and annotations as users write them, right and wrong."""

import re

from hypothesis import strategies as st

from kubeshare_py.dialects.pod_keys import ASKING_ANNOTATIONS, LABELS, RESULT_ANNOTATIONS

#: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_LABEL_VALUE = re.compile("([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")

_numbers = st.one_of(
    st.sampled_from(["0", "1", "1.0", "2", "2.0", "3", "0.5", "0.50", "1.5", "00", "0.0", "10"]),
    st.sampled_from(["1000000", "1000001", "1000000.5", "9" * 40, "", "half", "1e1", "1.0001"]),
    st.from_regex("[0-3]{1,3}([.][05]{1,3})?", fullmatch=True),
)
_memory = st.one_of(
    st.sampled_from(["8Gi", "8", "1.5G", "512m", "8GB", "1e9", "", "9223372036854775807"]),
    st.sampled_from(["9223372036854775808", "0009223372036854775807", "1E", "1e1234", "0x1"]),
    st.sampled_from(["281474976710656", "281474976710657", "256Ti", "257Ti", "0.25Pi", "0e999"]),
    st.sampled_from(["1e999", "1e14", "3e14", "513Ti", "512Ti", "300T", "1e99"]),
    st.from_regex("[0-9]{1,2}([.][0-9])?(K|k|Ki|Gi|gi|e|e1|E9|)", fullmatch=True),
)
_counts = st.sampled_from(
    ["", "0", "1", "5", "10", "007", "x", "1.5", "9" * 19, "1000001", "1000000"]
)
_parts = st.one_of(
    st.sampled_from(["", "0", "0.5", "1", "1.05", "1.1", "1.5", "2", "1e1", "1e-3", "1e-999"]),
    st.sampled_from(["1e100", "1e999", "0e5", "x", "1.", "0.", "5e", "1.0999"]),
    st.from_regex("[01][.][0-9]{1,6}", fullmatch=True),
)
_names = st.sampled_from(
    [
        "A100",
        "a100",
        "GTX 1080",
        "gtx-1080",
        "H100",
        "*",
        "**",
        "L40*",
        "L40**",
        "*L*4*0**",
        "*L*4*0*S*",
        "",
        "-",
        "a_b",
        "NVIDIA-TITAN-X-(Pascal)",
        "Quadro RTX 6000/8000",
        "NVIDIA-RTX-PRO-6000-Blackwell-Max-Q-Workstation-Edition-MIG-2g.48gb",
        "x" * 253,
        "x" * 254,
        "é",
    ]
)
_lists = st.lists(_names, max_size=3).map(", ".join)
_models = st.one_of(
    st.lists(_lists, max_size=3).map(" > ".join),
    st.sampled_from([">", ",", "A100,A100", "* > A100", "A100 > *", "A100 > *, B", "x" * 1025]),
    st.integers(15, 18).map(lambda many: ",".join(f"m{one}" for one in range(many))),
    st.just("x" * 61),
)
_flags = st.sampled_from(["", "true", "false", "True", "yes"])
_priorities = st.sampled_from(["", "0", "100", "101", "-1", "-2", "007", "0100", "x", "1.0"])
_VALUES = {
    "gpu_limit": _numbers,
    "gpu_request": _numbers,
    "gpu_mem": _memory,
    "numa_bind": _flags,
    "gpu_exclusive": _flags,
    "priority": _priorities,
    "group_name": st.sampled_from(["", "g"]),
    "pod_group_name": st.sampled_from(["", "h"]),
    "group_headcount": _counts,
    "group_threshold": _parts,
}
_MODEL_VALUES = {
    "gpu_models": _models,
    "gpu_models_denied": _models,
    "gpu_model_mix": st.sampled_from(["", "same", "any", "Same"]),
    "gpu_request_of": _names,
}
_WITHIN = st.sampled_from(["", "zone", "topology.kubernetes.io/zone", "two words", "-a", "a" * 70])
_odd = st.one_of(
    st.sampled_from([*LABELS, *ASKING_ANNOTATIONS, *RESULT_ANNOTATIONS, "app", "shared/x"]),
    st.sampled_from(["sharedgpu/gpu_requset", "sharedgpu/GPU_limit", "shared-gpu/gpu_limit"]),
    st.sampled_from(
        [
            "sharedgpu.io/gpu_mem",
            "sharedgpu.io/team",
            "kubeshare/gpu_mem",
            "sharedgpu/gpu_mem",
            "sharedgpu/container-1.gpu_uuid",
        ]
    ),
    st.from_regex("sharedgpu/[a-z]{1,5}", fullmatch=True),
)


def _is_label_value(text: str) -> bool:
    return _LABEL_VALUE.fullmatch(text) is not None


@st.composite
def labels_and_annotations(draw: st.DrawFn) -> tuple[dict[str, str], dict[str, str]]:
    """Those of one pod; in most of them one part is right, so that others are looked at."""
    about = draw(st.sampled_from(["cards", "group", "models", "all"]))
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    if about in ("group", "models"):
        labels["sharedgpu/gpu_request"] = draw(st.sampled_from(["0.5", "1", "2"]))
    for name, values in _VALUES.items():
        part = "group" if "group" in name else "cards"
        if about in (part, "all") and draw(st.integers(0, 3)):
            labels[f"sharedgpu/{name}"] = draw(values.filter(_is_label_value))
    if about in ("models", "all"):
        for name, values in _MODEL_VALUES.items():
            if draw(st.booleans()):
                annotations[f"sharedgpu/{name}"] = draw(values)
            if not draw(st.integers(0, 4)):
                labels[f"sharedgpu/{name}"] = draw(values.filter(_is_label_value))
    if about in ("group", "all") and draw(st.booleans()):
        annotations["sharedgpu/group_within"] = draw(_WITHIN)
    if not draw(st.integers(0, 5)):
        draw(st.sampled_from([labels, annotations]))[draw(_odd)] = ""
    return labels, annotations
