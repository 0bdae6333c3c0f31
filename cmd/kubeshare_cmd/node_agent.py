"""kubeshare-node-agent: parse arguments; `programs.node_agent` does the rest."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from kubeshare_cmd.device_options import add_device_options, chosen_devices
from kubeshare_cmd.hami_options import add_hami_options, chosen_hami
from kubeshare_cmd.ports import port
from kubeshare_py.domain.identity import NodeName
from kubeshare_py.edges.node.agent import PORT
from kubeshare_py.edges.node.card_sampler import INTERVAL_S, ROOT
from kubeshare_py.edges.process.own_names import own_address, own_node
from kubeshare_py.programs.node_agent import AgentSettings, run

EXAMPLES = """examples:
  kubeshare-node-agent                         with the pod's service account, on $NODE_NAME
  kubeshare-node-agent --pod-resources         and ask kubelet which cards others' pods have
  kubeshare-node-agent --gemini                and write Gemini's files below /kubeshare
  kubeshare-node-agent --kubeconfig FILE --node-name n1 --address 127.0.0.1 --port 9106
  kubeshare-node-agent --devices aliyun.com/gpu-mem,aliyun.com/gpu-count --memory-unit MiB
  kubeshare-node-agent --devices nvidia.com/gpu --gpu-slices 10 --hami-core

exit codes: 0 ended in order, 2 wrong usage, 3 the address or port cannot be used, or no credentials
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM; argparse exits with 2."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-node-agent",
        description="Watches the pods of its own node, does there what their GPUs need, and writes"
        " on its Node what it does.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--node-name", metavar="NAME", help="default: $NODE_NAME or the host's name")
    add("--kubeconfig", metavar="FILE", help="default: $KUBECONFIG, or the pod's service account")
    add("--address", metavar="IP", default="", help="to listen on; default: all")
    add("--port", metavar="N", type=port, default=PORT, help=f"default: {PORT}")
    add("--interval", metavar="S", type=float, default=INTERVAL_S, help="between readings; 5 s")
    add("--root", metavar="PATH", type=Path, default=ROOT, help="of the node's folders; default: /")
    add("--gemini", action="store_true", help="write Gemini's files below /kubeshare")
    add("--host-ip", metavar="IP", help="for pods to reach Gemini; default: $HOST_IP")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    add_device_options(parser)
    add_hami_options(parser)
    given = parser.parse_args(arguments)
    if given.interval <= 0:
        parser.error("--interval must be more than 0")
    return run(
        AgentSettings(
            node=NodeName(given.node_name) if given.node_name else own_node(),
            address=given.address,
            port=given.port,
            interval_s=given.interval,
            kubeconfig=given.kubeconfig,
            log_level=given.log_level,
            root=given.root,
            gemini=given.gemini,
            host_ip=given.host_ip or own_address(),
            devices=chosen_devices(parser, given),
            pod_resources=given.pod_resources,
            kubelet_root=given.kubelet_root_dir,
            mig_strategy=given.mig_strategy,
            hami=chosen_hami(parser, given),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
