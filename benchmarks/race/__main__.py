"""python benchmarks/race --all [--size full|small|tiny] [--only PART ...] [--out FOLDER] [--page FILE]

Measures ours and the peers, part by part, and draws the tables and plots of docs/race.md. Each part's figures are kept
in the folder as PART.json: a run that was stopped goes on with the next part, and --all with all parts there only
draws. Peers without an environment are named, and ours is measured alone."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before anything is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measure import load_line  # noqa: E402

from race import bounds, feddes, growth, many_sites, rounds, rules, selection  # noqa: E402
from race.about import about_run  # noqa: E402
from race.page import write_page  # noqa: E402
from race.settings import DESLIB, PEERS, SIMULATORS, SIZES, Race  # noqa: E402

MODULES = (bounds, rules, rounds, many_sites, selection, feddes, growth)
PARTS = {part.__name__.rpartition(".")[2]: part.measure for part in MODULES}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "race.md"


def main() -> None:
    a = _arguments()
    race = Race(SIZES[a.size], a.out, a.splits, a.pools, a.peer_python, a.deslib_python, a.simulator_python)
    a.out.mkdir(parents=True, exist_ok=True)
    peers = ((a.peer_python, PEERS), (a.deslib_python, DESLIB), (a.simulator_python, SIMULATORS))
    for python, missing in peers:
        if not python:
            print(missing)
    for name in a.only or PARTS:
        _kept(name, race, a)
    found = {name: json.loads(file.read_text()) for name in PARTS if (file := a.out / f"{name}.json").is_file()}
    (a.out / "race.json").write_text(json.dumps(found, indent=1))
    if a.page:
        write_page(a.page, found)
        print(f"{a.page} has the tables of {', '.join(found)}")


def _kept(name: str, race: Race, a: argparse.Namespace) -> None:
    file = race.out / f"{name}.json"
    if file.is_file():
        print(f"{name}: kept from before ({file})", flush=True)
        return
    print(f"{name}: {load_line()}", flush=True)
    started = time.perf_counter()
    found: dict[str, Any] = {"figures": PARTS[name](race)}
    seconds = time.perf_counter() - started
    found["about"] = about_run(a.size, seconds)
    file.write_text(json.dumps(found, indent=1))
    print(f"{name}: {seconds:.0f} s", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--all", action="store_true", help="all parts that are not there yet")
    which.add_argument("--only", nargs="+", choices=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--out", type=Path, default=Path("race"))
    parser.add_argument("--page", type=Path, help=f"where the tables and plots go, e.g. {PAGE.name}")
    parser.add_argument("--splits", type=Path, help="a folder of split files; those that are missing are drawn")
    parser.add_argument("--pools", type=Path, help="a folder of files with pool outputs")
    for name in ("peer", "deslib", "simulator"):
        variable = f"PEERWISE_{name.upper()}_PYTHON"
        parser.add_argument(f"--{name}-python", default=os.environ.get(variable), help=f"or {variable}")
    return parser.parse_args()


if __name__ == "__main__":
    main()
