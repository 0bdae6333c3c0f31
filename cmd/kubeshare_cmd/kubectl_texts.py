"""The help of `kubectl kubeshare`: examples and exit codes."""

GPUS = """  kubectl kubeshare gpus                one line for each card: memory, share, pods
  kubectl kubeshare gpus --summary      one line for each node, and the cluster's totals
  kubectl kubeshare gpus node-1 -d      one line for each pod on one node
  kubectl kubeshare gpus --topology     how they are joined, and which islands are whole
  kubectl kubeshare gpus -l zone=a -o wide
  kubectl kubeshare gpus -o jsonpath='{.nodes[*].cards[*].uuid}'
"""
PODS = """  kubectl kubeshare pods                where pods are, what they hold, why they wait
  kubectl kubeshare pods -A -l app=x    the same for all namespaces, by label
  kubectl kubeshare pods -w             and what changes from now on
"""
WHY = """  kubectl kubeshare why train-0         why it waits, what would help; why it is there
  kubectl kubeshare why job/lstm -n a   of a job's pods, in namespace a
"""
TOP = """  kubectl kubeshare top                 cards as bars, and who waits, every two seconds
  kubectl kubeshare top --once          the same as text
  kubectl kubeshare top --model a100 --sort free
"""
CHECK = """  kubectl kubeshare check -f pod.yaml   which scheduler takes its pods, what they ask for
  helm template . | kubectl kubeshare check -f -
  kubectl kubeshare check -f a.yaml -f b.yaml -o json
  kubectl kubeshare check -f pod.yaml --config config/scheduler.yaml
"""
COMMANDS = {
    "gpus": ("cards: memory, share, pods", GPUS),
    "pods": ("pods: where, what they ask for and hold, why they wait", PODS),
    "why": ("why a pod is where it is, or why it waits", WHY),
    "check": ("what the pods of manifests ask for, and what is refused", CHECK),
    "top": ("the whole cluster on one screen, live", TOP),
}
CHECK_EPILOG = """examples:
{}
With a kubeconfig, the API server is asked what it would make of each pod (a dry run: nothing is
created). Without --config the profile of a scheduler with default values counts.

exit codes: 0 all pods are fine, 1 a pod is refused or no scheduler here would take it,
            2 wrong usage or an unreadable file"""
EPILOG = """examples:
{}
exit codes: 0 done (also when a pod waits), 1 not found or refused, 2 wrong usage,
            3 the API server or the scheduler cannot be reached, 130 interrupted"""
