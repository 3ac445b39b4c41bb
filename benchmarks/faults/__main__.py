"""python benchmarks/faults [--quick] [--only PART,PART] [--work FOLDER]: one line a fault, and docs/reliability.md.

Each part's lines are kept in the folder, so that a run that was stopped goes on with the next part."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before anything is imported: a process with threads cannot be forked
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import onnxruntime  # noqa: E402, F401 (here, or every child would import it)

import peerwise.models.zoo.tables  # noqa: E402, F401
from faults.crowd import crowds  # noqa: E402
from faults.history import history  # noqa: E402
from faults.killing import Killing  # noqa: E402
from faults.models import bad_answers, bad_workers, hostile  # noqa: E402
from faults.page import write_page  # noqa: E402
from faults.rows import Row  # noqa: E402
from faults.sites import MODELS, Sites  # noqa: E402
from faults.tampering import tampering  # noqa: E402
from faults.west import Faulty, statements, transfers  # noqa: E402

FEW, ONCE = 3, 12
PAGE = Path(__file__).resolve().parents[2] / "docs" / "reliability.md"

Part = Callable[[], Iterable[Row]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few of each")
    parser.add_argument("--few", type=int, default=FEW, help="how many of each, where it is quick")
    parser.add_argument("--only", default="", help="parts, with commas")
    parser.add_argument("--work", type=Path, help="a folder for the sites and what was found")
    parser.add_argument("--page", type=Path, help="where the table goes (default with all parts: docs/reliability.md)")
    a = parser.parse_args()
    work = a.work or Path(tempfile.mkdtemp(prefix="faults-"))
    small = Sites(work / "small", models=MODELS[:1])
    sites = small if a.quick else Sites(work / "sites")
    parts = all_parts(small, sites, few=a.few if a.quick else 0)
    chosen = a.only.split(",") if a.only else list(parts)
    for each in {small, sites}:
        if not (each.kept / "done").is_dir():
            each.begin()
            each.second_day()
    failed = False
    for name in chosen:
        rows = told(name, parts[name], work / f"{name}.json")
        failed = failed or any(row.problems for row in rows)
    found = {name: kept(work / f"{name}.json") for name in parts if (work / f"{name}.json").is_file()}
    if a.page or (len(found) == len(parts) and not a.quick):
        write_page(a.page or PAGE, found)
    sys.exit(1 if failed else 0)


def all_parts(small: Sites, sites: Sites, *, few: int) -> dict[str, Part]:
    """``few``: so many of each; 0: all of them. The ``small`` sites have one model each and are killed many times."""
    killing, once = Killing(small, few), Killing(small, few or ONCE)
    faulty: list[Faulty] = []

    def on_west(part: Callable[[Faulty], Iterable[Row]]) -> Part:
        def work() -> Iterable[Row]:
            if not faulty:
                faulty.append(Faulty(sites))
            return part(faulty[0])

        return work

    return {
        "stages": killing.stages,
        "kill": killing.writes,
        "otherwise": killing.otherwise,
        "full": lambda: killing.writes("full"),
        "full once": lambda: once.writes("full once"),
        "transfers": on_west(transfers),
        "crowds": lambda: crowds(sites),
        "tampering": lambda: tampering(sites, quick=bool(few)),
        "statements": on_west(statements),
        "history": on_west(history),
        "answers": on_west(bad_answers),
        "hostile": lambda: [hostile(sites, 10 * few)],
        "workers": on_west(bad_workers),
    }


def told(name: str, part: Part, file: Path) -> list[Row]:
    """The lines of a part, printed as they come and kept at its end."""
    if file.is_file():
        return kept(file)
    started, rows = time.monotonic(), []
    for row in part():
        rows.append(row)
        print(f"{row.trials:6} {row.struck:6} {len(row.problems):4}  {row.what}  {row.note}", flush=True)
        for problem in row.problems[:5]:
            print(f"        {problem[:600]}", flush=True)
    print(f"{name}: {time.monotonic() - started:.0f} s", flush=True)
    file.write_text(json.dumps([vars(row) for row in rows]))
    return rows


def kept(file: Path) -> list[Row]:
    return [Row(**row) for row in json.loads(file.read_text())]


if __name__ == "__main__":
    main()
