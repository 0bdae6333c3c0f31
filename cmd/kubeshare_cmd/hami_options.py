"""The arguments about HAMi-core."""

import argparse

from kubeshare_cmd.ports import port
from kubeshare_py.edges.node.hami_core.hami_part import PORT
from kubeshare_py.node_agent.hami_core import HOOK, PRIORITY, HamiCoreSettings

#: The library's: errors, warnings, information, all.
_LOG_LEVELS = ("0", "1", "3", "4")


def add_hami_options(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add = parser.add_argument
    add(
        "--hami-core", action="store_true",
        help="give containers with devices HAMi-core's library and limits, if that is their"
        " back-end",
    )  # fmt: skip
    add(
        "--hami-hook", metavar="PATH", default=HOOK,
        help=f"where HAMi's folder vgpu is; default: {HOOK}",
    )  # fmt: skip
    add(
        "--hami-core-policy", choices=("default", "force", "disable"), default="default",
        help="when the library keeps to the limits of time; default: as it is told",
    )  # fmt: skip
    add(
        "--hami-oversubscribe", action="store_true",
        help="tell the library that pods may get more memory than cards have",
    )  # fmt: skip
    add("--hami-log-level", choices=_LOG_LEVELS, default="", help="of the library; its own")
    add(
        "--hami-priority-resource", metavar="NAME", default=PRIORITY,
        help=f"by which containers tell their priority; default: {PRIORITY}",
    )  # fmt: skip
    add(
        "--hami-feedback", action="store_true",
        help="tell the library, as HAMi's monitor does, to keep to limits of time only while"
        " containers share a card, and to wait for containers of higher priority",
    )  # fmt: skip
    add(
        "--hami-metrics-port", metavar="N", type=port,
        help=f"serve the metrics of HAMi's monitor there, as it does at {PORT}; default: not",
    )  # fmt: skip
    add("--hami-legacy-metrics", action="store_true", help="those of HAMi before 2.9 too")


def chosen_hami(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> HamiCoreSettings | None:
    """How HAMi-core is used; argparse exits with 2 if something is missing for it."""
    if not given.hami_core:
        if given.hami_metrics_port is not None:
            parser.error("--hami-metrics-port: needs --hami-core")
        return None
    if not given.devices:
        parser.error("--hami-core: needs --devices, with which containers get it")
    if not given.hami_hook.startswith("/"):
        parser.error("--hami-hook: must begin with /")
    return HamiCoreSettings(
        hook=given.hami_hook,
        core_policy=given.hami_core_policy,
        oversubscribe=given.hami_oversubscribe,
        log_level=given.hami_log_level,
        priority=given.hami_priority_resource,
        feedback=given.hami_feedback,
        metrics_port=given.hami_metrics_port,
        legacy_metrics=given.hami_legacy_metrics,
    )
