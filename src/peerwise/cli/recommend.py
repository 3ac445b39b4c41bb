"""peerwise recommend: which method for this site, from what was measured."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from rich.console import Console

from peerwise.cli.output import print_json, results_console
from peerwise.cli.peer.common import folded, line, size
from peerwise.errors import ConfigError

EXAMPLES = """examples:
  peerwise recommend cleveland                        # the folder of a site, after 'peerwise init'
  peerwise recommend ward.csv --target disease --sites 6
  peerwise recommend --kind image --rows 300 --classes 10 --sites 8 --label-skew strong --one-shot
  peerwise recommend --kind table --own-columns       # peers have other columns than this site
  peerwise recommend runs/heart --format json
"""
GIVEN = ("kind", "rows", "classes", "sites", "skew", "public")
SAID = ("own_columns", "strangers", "wrong_labels", "one_shot")
SHOWN = 5


def add_to(verbs: Any) -> None:
    parser = verbs.add_parser(
        "recommend",
        description="Which methods did best in settings like yours, what they gained over what a site has alone, what "
        "they cost, and which to avoid: from the leaderboard of docs/results/leaderboard.md, and from nothing else.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "place", type=Path, nargs="?", help="a site's folder, a run of 'simulate', or a file of rows (with --target); "
        "what is given below goes before what is found there"
    )  # fmt: skip
    parser.add_argument("--target", metavar="COLUMN", help="the column to be predicted, of a file of rows")
    parser.add_argument("--kind", choices=["table", "image", "sequence"], help="of rows")
    parser.add_argument("--rows", type=int, help="that this site has to learn from")
    parser.add_argument("--classes", type=int)
    parser.add_argument("--sites", type=int, help="that take part")
    parser.add_argument(
        "--label-skew", dest="skew", choices=["strong", "mild", "none"],
        help="how much the sites' classes differ (default: as this site's own labels tell, or not known)",
    )  # fmt: skip
    parser.add_argument("--public", type=int, metavar="ROWS", help="without labels, that all sites have (default: 0)")
    parser.add_argument("--own-columns", action="store_true", help="this site has other columns than its peers")
    parser.add_argument("--strangers", action="store_true", help="it is asked about classes that only peers have")
    parser.add_argument("--wrong-labels", action="store_true", help="some peer's labels may be wrong")
    parser.add_argument("--one-shot", action="store_true", help="one exchange of models, no rounds")
    parser.add_argument("--format", choices=["table", "json"], default="table")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    from peerwise.evaluate.recommend import Situation, recommend

    given = _given(arguments)
    if "kind" not in given:
        raise ConfigError("no kind of rows: name a site's folder, or --kind table, image or sequence.")
    found = {**_of_run(arguments.place), **recommend(Situation(**given))}
    if arguments.format == "json":
        print_json(found)
    else:
        _print(results_console(), found)
    return 0


def _given(arguments: argparse.Namespace) -> dict[str, Any]:
    flags = {name: getattr(arguments, name) for name in GIVEN if getattr(arguments, name) is not None}
    flags |= {name: True for name in SAID if getattr(arguments, name)}
    if arguments.place is None:
        if arguments.target is not None:
            raise ConfigError(f"--target {arguments.target} without a file of rows: name the file, or leave it out.")
        return flags
    from peerwise.evaluate.situation import situation_at

    found = situation_at(arguments.place, arguments.target)
    if {"strangers", "own_columns"} & set(flags) and "skew" not in flags:
        found.pop("skew", None)  # what is asked about is others' classes or columns, not the own labels
    return found | flags


def _of_run(place: Path | None) -> dict[str, Any]:
    """The headline and the figures of a run of 'simulate', which say more than any other setting does; else nothing."""
    if place is None or not (place / "results.parquet").is_file():
        return {}
    from peerwise.evaluate import assess
    from peerwise.evaluate.summary import REFERENCES
    from peerwise.report.headline import bar_of, headline
    from peerwise.run import load_run

    run = load_run(place)
    assessment = assess(run)
    ranked = assessment.methods.sort_values("accuracy", ascending=False)
    lines = []
    for name, each in ranked.iterrows():
        gain = math.nan if name in REFERENCES else float(each.get("accuracy_gain", math.nan))
        figures = {"accuracy": float(each["accuracy"]), "balanced_accuracy": float(each["balanced_accuracy"])}
        bar = bar_of(assessment, str(name))
        lines.append({"method": str(name), **figures, "bar": bar, "gain": None if math.isnan(gain) else gain})
    return {"run": {"headline": headline(run, assessment), "methods": lines}}


def _print_run(console: Console, run: dict[str, Any]) -> None:
    folded(console, f"in this run: {run['headline']}", 2)
    line(console, f"{'method':<20} {'accuracy':>9} {'balanced':>9}  over its bar")
    for each in run["methods"][:SHOWN]:
        gain = "" if each["gain"] is None else f"{100 * each['gain']:+.1f} points over {each['bar']}"
        figures = f"{100 * each['accuracy']:>7.1f} % {100 * each['balanced_accuracy']:>7.1f} %"
        line(console, f"{each['method']:<20} {figures}  {gain}".rstrip())
    line(console, "")


def _print(console: Console, found: dict[str, Any]) -> None:
    if "run" in found:
        _print_run(console, found["run"])
    line(console, f"situation: {_situation(found['situation'])}")
    measured = found["comparable"]
    folded(console, f"comparable settings, measured: {', '.join(each['setting'] for each in measured)}", 2)
    near = found["nearest"]
    line(console, f"nearest measured: {near['setting']} ({near['sites']} sites, {near['rows']} train rows a site, "
                  f"{near['classes']} classes)")  # fmt: skip
    for note in found["notes"]:
        folded(console, f"note: {note}", 2)
    line(console)
    if not found["use"]:
        line(console, "use: your own models. No method gained anything here beyond chance.")
    for place, each in enumerate(found["use"]):
        line(console, f"{'use: ' if place == 0 else '     '}{each['method']}")
        folded(console, f"       {_gain(each)}", 7)
        folded(console, f"       {_cost(each)}", 7)
    if found["avoid"]:
        worst = ", ".join(f"{each['method']} ({100 * each['gain']:+.1f})" for each in found["avoid"][:SHOWN])
        more = len(found["avoid"]) - SHOWN
        folded(console, f"avoid: {worst}{f' and {more} more' if more > 0 else ''}", 7)
    left_out: dict[str, list[str]] = {}
    for method, why in found["left_out"].items():
        left_out.setdefault(why, []).append(method)
    for why, methods in left_out.items():
        folded(console, f"not considered ({why}): {', '.join(methods)}", 2)
    about = found["evidence"]
    line(console, f"from {about['command']}, commit {', '.join(about['commits'])}, {about['dates'][-1]}")


def _situation(given: dict[str, Any]) -> str:
    parts = [f"{given['kind']} rows"]
    parts += [f"{given[name]} {name}" for name in ("rows", "classes", "sites") if given[name] is not None]
    parts.append("label skew not known" if given["skew"] is None else f"label skew {given['skew']}")
    parts.append(f"{given['public']} public rows")
    return ", ".join(parts + [name.replace("_", " ") for name in SAID if given[name]])


def _gain(each: dict[str, Any]) -> str:
    said = f"{100 * each['gain']:+.1f} ± {100 * each['error']:.1f} points over what a site has alone"
    many = each["settings"]
    across = (
        f" in {many} settings, from {100 * each['lowest']:+.1f} to {100 * each['highest']:+.1f}" if many > 1 else ""
    )
    return (
        f"{said}{across or ' in one setting'}; sites that win {each['wins']:.0%}, lose {each['losses']:.0%}; the worst "
        f"site {100 * each['worst_site']:+.1f}"
    )


def _cost(each: dict[str, Any]) -> str:
    how = "in rounds" if each["rounds"] else "once"
    needs = f"; needs {', '.join(each['needs'])}" if each["needs"] else ""
    return f"sends {size(round(each['bytes']))} a site, {how}; {each['seconds']:.1f} CPU seconds a site there{needs}"
