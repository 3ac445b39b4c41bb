"""What stands below every table: seeds, commit, seconds and machine of the runs behind it.

python experiments/run_facts.py RUN_FOLDER ...

A folder holds a run or, one level down, the runs of a grid: these are one line, with all their commits and seconds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from peerwise.run.finished import Run
from peerwise.run.loading import load_run


def runs_of(folder: Path) -> dict[str, Run]:
    """By name: the run in this folder, or those one level below it."""
    places = [folder] if (folder / "config.toml").exists() else sorted(p.parent for p in folder.glob("*/config.toml"))
    if not places:
        raise SystemExit(f"{folder} holds no run: expected the folder that 'peerwise simulate --out' was given.")
    return {place.name: load_run(place) for place in places}


def facts(runs: list[Run]) -> str:
    """One line for a page."""
    about = [run.provenance for run in runs]
    seeds = sorted({len(each["seeds"]) for each in about})
    commits = sorted({each.get("commit", "not a checkout") for each in about})
    seconds = sum(each["seconds"] for each in about)
    workers = sorted({session["workers"] for each in about for session in each["sessions"]})
    return (
        f"{' or '.join(map(str, seeds))} seeds; commit {', '.join(commits)}; {seconds / 60:.1f} minutes "
        f"with {' or '.join(map(str, workers))} worker{'s' if workers != [1] else ''}; {about[0]['processor']}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="RUN_FOLDER")
    for folder in parser.parse_args().folders:
        print(f"{folder.name}: {facts(list(runs_of(folder).values()))}")


if __name__ == "__main__":
    main()
