"""Peer commands as a person types them, within this process: what was printed where, and how it ended."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from peerwise.cli import main

QUICK = ("--models", "logistic", "--set", "attack_seconds=0")


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str

    @property
    def told(self) -> Any:
        """Standard output, which is JSON and nothing else."""
        return json.loads(self.out, parse_constant=no_constant)


def no_constant(name: str) -> Any:
    raise AssertionError(f"{name} is no JSON")


def peerwise(*arguments: str | Path) -> Done:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stopped:  # wrong arguments and --help
            code = int(str(stopped.code or 0))
    return Done(code, out.getvalue(), err.getvalue())


def right(*arguments: str | Path) -> Done:
    done = peerwise(*arguments)
    assert done.code == 0, f"{arguments}: {done.err}"
    assert "Traceback" not in done.err
    return done


def refused(*arguments: str | Path) -> str:
    """One line on standard error, nothing on standard output, exit code 2."""
    done = peerwise(*arguments)
    assert (done.code, done.out) == (2, ""), done
    (line,) = [line for line in done.err.splitlines() if line.startswith("peerwise: ")]
    assert done.err.splitlines()[-1] == line
    assert "Traceback" not in done.err
    return line


def hospital_tables(folder: Path) -> dict[str, Path]:
    """The rows of the four hospitals, a file each."""
    right("demo", "--files", folder)
    return {path.stem: path for path in folder.glob("*.csv")}


def found(folder: Path, rows: Path, meet: Path, *more: str) -> str:
    """A federation, and its founder's fingerprint."""
    arguments = ("--data", rows, "--target", "diagnosis", "--positive", "disease", "--meet", meet, *QUICK, *more)
    return str(right("init", folder, *arguments, "--format", "json").told["fingerprint"])


def join(folder: Path, rows: Path, founder: Path, fingerprint: str, *more: str) -> None:
    """A member of it, admitted and welcomed."""
    arguments = ("--data", rows, "--invite", founder / "invite.json", "--fingerprint", fingerprint, *QUICK, *more)
    told = right("init", folder, *arguments, "--format", "json").told
    right("admit", told["request"], "--fingerprint", told["fingerprint"], "--folder", founder)
    right("admit", founder / "welcome" / f"{folder.name}.json", "--folder", folder)


def fewer_rows(rows: Path, place: Path, count: int) -> Path:
    pd.read_csv(rows).sample(count, random_state=0).to_csv(place, index=False)
    return place
