"""Peak memory of reading eICU: the larger vitalPeriodic gets, the more is read, and no more is held.

python benchmarks/eicu.py --stays 60 5000 15000 --memory 300MB

Makes a patient and a vitalPeriodic table with a row every five minutes of two days, as the full database has them
(200,859 stays, 146 million rows), reads the 24-hour mortality cohort, and prints seconds and peak memory beside what
the finished arrays take and what Python and its libraries take without them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from measure import MEGABYTE, own_peak

from peerwise.data import Sequences, load

VITALS = "temperature, sao2, heartrate, respiration, systemicsystolic, systemicdiastolic, systemicmean"


def make(folder: Path, stays: int) -> Path:
    folder.mkdir()
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"""COPY (SELECT i AS patientunitstayid, 'Male' AS gender, 60 AS age, 'Asian' AS ethnicity,
                i % 50 AS hospitalid, 170 AS admissionheight, 70 AS admissionweight, -60 AS hospitaladmitoffset,
                'MICU' AS unittype, 'Floor' AS unitadmitsource, 1 AS unitvisitnumber, 'admit' AS unitstaytype,
                'p' || i AS uniquepid, if(i % 9 = 0, 'Expired', 'Alive') AS hospitaldischargestatus,
                3000 AS unitdischargeoffset FROM range({stays}) AS t(i)) TO '{folder}/patient.csv' (HEADER)"""
        )
        connection.execute(
            f"""COPY (SELECT k AS vitalperiodicid, (k * 7919) % {stays} AS patientunitstayid,
                5 * (k // {stays}) AS observationoffset, 37 AS temperature, 90 + k % 10 AS sao2,
                60 + k % 60 AS heartrate, 12 + k % 12 AS respiration, 100 + k % 50 AS systemicsystolic,
                60 + k % 30 AS systemicdiastolic,
                70 + k % 40 AS systemicmean
                FROM range({stays * 576}) AS t(k)) TO '{folder}/vitalPeriodic.csv.gz' (HEADER)"""
        )
    return folder


def read(folder: str, memory: str) -> None:
    """In a process of its own; the last line is what it says of itself."""
    before, started = own_peak(), time.perf_counter()
    data = load("eicu", folder, window=24, min_stays=1, min_events=0, memory=memory)
    assert isinstance(data.X, Sequences)
    arrays = data.X.static.nbytes + data.X.series.nbytes
    seconds = time.perf_counter() - started
    print(json.dumps({"before": before, "peak": own_peak(), "arrays": arrays / MEGABYTE, "seconds": seconds}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stays", type=int, nargs="+", default=[60, 5000, 15_000])
    parser.add_argument("--memory", default="300MB", help="what DuckDB may use")
    parser.add_argument("--read", metavar="FOLDER", help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.read:
        return read(a.read, a.memory)
    print("stays | rows of vitalPeriodic | file MB | seconds | peak MB | without tables MB | finished arrays MB")
    with tempfile.TemporaryDirectory() as place:
        for stays in a.stays:
            folder = make(Path(place) / str(stays), stays)
            size = (folder / "vitalPeriodic.csv.gz").stat().st_size / MEGABYTE
            command = [sys.executable, __file__, "--read", str(folder), "--memory", a.memory]
            said = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            print(
                f"{stays} | {stays * 576:,} | {size:.0f} | {said['seconds']:.0f} | {said['peak']:.0f} | "
                f"{said['before']:.0f} | {said['arrays']:.0f}"
            )
    return None


if __name__ == "__main__":
    main()
