"""The arguments of kubeshare-replay."""

import argparse
from pathlib import Path

from kubeshare_py.domain.identity import PodKey

EXAMPLES = """examples:
  kubeshare-replay /var/log/kubeshare/events              is all decided as it was?
  kubeshare-replay DIR --pod ml/train-0                   what happened to this pod, and why
  kubeshare-replay DIR --until 2026-11-23T12:00:00Z       only until then
  kubeshare-replay DIR --profile config/spread.yaml       what these profiles would have done
  kubeshare-replay DIR --list                             the sessions in DIR

exit codes: 0 the same as in the log, 1 it differs, 2 wrong usage, or a log that cannot be read
"""


def parser() -> argparse.ArgumentParser:
    """The parser."""
    made = argparse.ArgumentParser(
        prog="kubeshare-replay",
        description="Runs an event log of kubeshare-scheduler through the same scheduler again.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = made.add_argument
    add("folder", metavar="DIR", type=Path, help="the folder of --event-log, or one session in it")
    add("--session", metavar="NAME", default="", help="default: the last one")
    add("--until", metavar="T", default="", help="a time (RFC 3339), or seconds from the beginning")
    what = made.add_mutually_exclusive_group()
    what.add_argument("--pod", metavar="NS/NAME", type=_key, help="only what concerns this pod")
    what.add_argument("--profile", metavar="FILE", help="decide by the profiles of this file")
    what.add_argument("--list", action="store_true", help="list the sessions and end")
    add("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    return made


def _key(text: str) -> PodKey:
    namespace, slash, name = text.partition("/")
    if not (slash and namespace and name):
        raise argparse.ArgumentTypeError("must be NAMESPACE/NAME")
    return PodKey(namespace, name)
