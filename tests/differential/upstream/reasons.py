"""Short names of the reasons of kube-scheduler's plugins, for the cases."""

REASONS = {
    "affinity": "node(s) didn't match pod affinity rules",
    "anti-affinity": "node(s) didn't match pod anti-affinity rules",
    "others' anti-affinity": "node(s) didn't satisfy existing pods anti-affinity rules",
    "skew": "node(s) didn't match pod topology spread constraints",
    "no label": "node(s) didn't match pod topology spread constraints (missing required label)",
    "node affinity": "node(s) didn't match Pod's node affinity/selector",
    "added affinity": "node(s) didn't match scheduler-enforced node affinity",
    "name": "node(s) didn't match the requested node name",
    "cordoned": "node(s) were unschedulable",
    "ports": "node(s) didn't have free ports for the requested pod ports",
    "features": "node(s) didn't match Pod's required features",
    "pods": "Too many pods",
    "cpu": "Insufficient cpu",
    "memory": "Insufficient memory",
    "storage": "Insufficient ephemeral-storage",
    "disk": "node(s) had no available disk",
    "in use": "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
    " already in-use by another pod",
    "zone": "node(s) had no available volume zone",
    "volume limit": "node(s) exceed max volume count",
    "no volume": "node(s) didn't find available persistent volumes to bind",
    "volume's nodes": "node(s) didn't match PersistentVolume's node affinity",
    "no space": "node(s) did not have enough free storage",
    "volume lost": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}
