"""The names of KubeShare 1.0's annotations, which SharePods and their pods have.

They are those of README.md and pkg/apis/kubeshare/v1/types.go of github.com/NTHU-LSALab/KubeShare,
release-1.0.
"""

#: The share of one card: guaranteed, and at most; decimals from 0 to 1.
REQUEST = "kubeshare/gpu_request"
LIMIT = "kubeshare/gpu_limit"
#: Bytes of the card's memory.
MEMORY = "kubeshare/gpu_mem"
#: The three without which no SharePod has a GPU.
AMOUNTS = (REQUEST, LIMIT, MEMORY)

#: The name of a virtual GPU: the card that pods of this name share. Users may choose it, and the
#: Binding says which one the pod got.
VIRTUAL_GPU = "kubeshare/GPUID"

#: Words by which pods choose the pods that they share a card with.
AFFINITY = "kubeshare/sched_affinity"
ANTI_AFFINITY = "kubeshare/sched_anti-affinity"
EXCLUSION = "kubeshare/sched_exclusion"
TAGS = (AFFINITY, ANTI_AFFINITY, EXCLUSION)

#: All that a pod may ask by, in the order of the manual.
KEYS = (*AMOUNTS, VIRTUAL_GPU, *TAGS)
