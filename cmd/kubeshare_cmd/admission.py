"""kubeshare-admission: parse arguments and start."""

import argparse
import sys

from kubeshare_cmd.ports import port
from kubeshare_py.configuration.scheduler import ConfigurationError
from kubeshare_py.edges.admission import PORT
from kubeshare_py.edges.scheduler import configuration_file, process
from kubeshare_py.programs import admission

EXAMPLES = """examples:
  kubeshare-admission --config config/scheduler.yaml
  kubeshare-admission --certificate-file tls.crt --key-file tls.key

exit codes: 0 ended in order, 2 the configuration, the certificate or the arguments cannot be used,
3 the cluster cannot be reached with these credentials
"""


def main() -> int:
    """Run until SIGINT or SIGTERM; the exit code."""
    parser = argparse.ArgumentParser(
        prog="kubeshare-admission",
        description="A webhook that tells the containers of new pods which cards they get.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--config", metavar="FILE", help="the scheduler's configuration (default: built in)")
    add("--kubeconfig", metavar="FILE", help="default: in-cluster, or kubectl's")
    add("--address", metavar="IP", default="", help="to listen on; default: all")
    add("--port", metavar="N", type=port, default=PORT, help=f"default: {PORT}")
    add(
        "--service", metavar="NAME.NAMESPACE", default="kubeshare-admission.kube-system",
        help="by which the API server calls it; default: kubeshare-admission.kube-system",
    )  # fmt: skip
    add(
        "--webhooks", metavar="NAME", default="kubeshare-admission",
        help="the MutatingWebhookConfiguration; default: kubeshare-admission",
    )  # fmt: skip
    add("--runtime-class", metavar="NAME", default="", help="of pods with a card; default: none")
    add("--allow-variable", metavar="NAME", action="append", default=[], help="left to pods")
    add("--contested", action="store_true", help="nvidia.com/gpu makes pods ours as well")
    add("--certificate-file", metavar="FILE", default="", help="default: it makes one itself")
    add("--key-file", metavar="FILE", default="", help="goes with --certificate-file")
    flag = argparse.BooleanOptionalAction
    add("--validate", action=flag, default=True, help="refuse pods that are not understood")
    add("--log-level", default="info", choices=("debug", "info", "warning"))
    given = parser.parse_args()
    if bool(given.certificate_file) != bool(given.key_file):
        parser.error("--certificate-file and --key-file go together")
    settings = admission.AdmissionSettings(
        address=given.address,
        port=given.port,
        service=given.service,
        webhooks=given.webhooks,
        certificate_file=given.certificate_file,
        key_file=given.key_file,
        kubeconfig=given.kubeconfig,
        runtime_class=given.runtime_class,
        validates=given.validate,
        left_alone=frozenset(given.allow_variable),
        contested=given.contested,
    )
    try:
        configuration = configuration_file.load(given.config)
        return process.run(admission.main(configuration, settings), given.log_level)
    except ConfigurationError as error:
        print(f"kubeshare-admission: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
