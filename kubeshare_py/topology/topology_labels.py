"""The node labels that name topology domains."""

REGION = "topology.kubernetes.io/region"
ZONE = "topology.kubernetes.io/zone"
#: There is no well-known label for racks; this is the most common one.
RACK = "topology.kubernetes.io/rack"
#: From NVIDIA's GPU Feature Discovery. NVLink joins the GPUs of nodes with the same value: they are
#: in one IMEX domain.
CLIQUE = "nvidia.com/gpu.clique"

#: From the widest topology domain to the narrowest.
LABELS = (REGION, ZONE, RACK, CLIQUE)
