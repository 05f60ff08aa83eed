"""The `dflash2` command: doctor, bench and predict. Each part is imported only when it is asked for."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from dflash2 import __version__
from dflash2.errors import Dflash2Error, ToolMissing
from dflash2.extras import PREDICT_HINT
from dflash2.variants import KernelFamily


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status (2 for a mistake in its use, 1 for a failure it explains)."""
    arguments = build_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except Dflash2Error as err:
        print(f"dflash2 {arguments.command}: {err}", file=sys.stderr)
        return 1
    return status


def build_parser() -> argparse.ArgumentParser:
    """The command line of `dflash2`."""
    parser = argparse.ArgumentParser(
        prog="dflash2", description="Volta (sm_70) kernels: environment, speed, prediction"
    )
    parser.add_argument("--version", action="version", version=f"dflash2 {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    _add_doctor(commands)
    _add_bench(commands)
    _add_predict(commands)
    return parser


def _add_doctor(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("doctor", help="report what this environment has of what the kernels need")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    parser.set_defaults(run=_run_doctor)


def _run_doctor(arguments: argparse.Namespace) -> int:
    from dflash2 import doctor

    return doctor.run(as_json=arguments.json)


def _add_bench(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "bench",
        help="each op against its baseline on this card, the roofline and the prediction for a V100",
        description="Roofline and prediction need no GPU; what can be measured on this machine's card is.",
    )
    parser.add_argument("--op", action="append", default=[], choices=[family.value for family in KernelFamily])
    parser.add_argument("--no-card", action="store_true", help="roofline and prediction only")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.set_defaults(run=_run_bench)


def _run_bench(arguments: argparse.Namespace) -> int:
    from dflash2.bench import report

    return report.run(ops=arguments.op, as_json=arguments.json, measures=not arguments.no_card)


def _add_predict(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict V100 times from machine code (no GPU needed; nothing is measured)",
        description="Predicts V100 times from the kernels' sm_70 machine code. Every number is a prediction.",
    )
    parser.add_argument(
        "what",
        choices=("attention", "prefill", "decode", "validate"),
        nargs="?",
        default="attention",
        help="prefill or decode attention (attention: both), or the model against published V100 figures",
    )
    parser.add_argument("--head-dim", type=int, action="append", help="only this head dim (may be repeated)")
    parser.add_argument("--tokens", type=int, action="append", help="only this length (may be repeated)")
    parser.add_argument("--page-size", type=int, default=16)
    parser.add_argument("--splits", type=int, help="cut decode's keys into this many (default: as the operators do)")
    parser.add_argument("--pessimistic", action="store_true", help="only the column with the small instruction cache")
    parser.add_argument("--limits", action="store_true", help="say what limits each kernel")
    parser.add_argument("--set", action="append", default=[], metavar="CONSTANT=VALUE", help="override a V100 constant")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.set_defaults(run=_run_predict)


def _run_predict(arguments: argparse.Namespace) -> int:
    try:
        from dflash2.predict import report
    except ModuleNotFoundError as err:
        raise ToolMissing(f"the timing model needs more than dflash2 itself: {err}", PREDICT_HINT) from err
    return report.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
