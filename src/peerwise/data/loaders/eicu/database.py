"""Reading the tables with DuckDB, out of core: what does not fit into the memory it is given goes to a temporary
folder, and only aggregates come back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from peerwise.data.loaders.eicu.tables import TABLES, Table
from peerwise.errors import BrokenFile, ConfigError, DataError, MissingData

if TYPE_CHECKING:
    import duckdb

THREADS = 4  # each needs buffers of its own: many would not fit into little memory
BATCH = 100_000  # rows that are handed over at a time


class Database:
    """The tables in one folder. ``missing`` are those that are not there and can be done without."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
        self._connection = connection
        self._files = {path.name.lower(): path for path in sorted(folder.iterdir())}
        self.folder = folder
        self.missing: list[str] = []
        for name, table in TABLES.items():
            self._view(name, table)

    def has(self, name: str) -> bool:
        return name not in self.missing

    def keep(self, name: str, frame: pd.DataFrame) -> None:
        """A small table of our own, for others to be joined with."""
        self._connection.register("given", frame)
        self._connection.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self._connection.unregister("given")

    def frame(self, sql: str, *tables: str) -> pd.DataFrame:
        """A small answer; ``tables`` are those it is read from."""
        with self._named(tables):
            return self._connection.execute(sql).fetchdf()

    def batches(self, sql: str, *tables: str) -> Iterator[dict[str, NDArray[Any]]]:
        """An answer of any size, some rows at a time."""
        with self._named(tables):
            for batch in self._connection.sql(sql).to_arrow_reader(BATCH):
                names = batch.schema.names
                yield {name: batch.column(name).to_numpy(zero_copy_only=False) for name in names}

    def _view(self, name: str, table: Table) -> None:
        """``stay``, ``minute``, ``known`` (both in minutes; null where there is no such column) and the listed columns,
        as text."""
        path = self._path(table.file)
        if path is None:
            if table.required:
                raise MissingData(
                    f"eicu: {self.folder} has no {table.file}.csv or {table.file}.csv.gz, which says who was there; "
                    f"copy it from where the other tables are from."
                )
            self.missing.append(name)
            return
        escaped = str(path).replace("'", "''")
        # Given in full: what DuckDB guesses from the first rows is not always so (a quote may come late in a file).
        source = f"read_csv('{escaped}', all_varchar = true, header = true, delim = ',', quote = '\"', escape = '\"')"
        times = [column for column in (table.at, table.entered) if column]
        keys = ("patientunitstayid",) if table.of_a_stay else ()
        self._check_columns(source, name, path, (*keys, *times, *table.columns))
        columns = [f"nullif(trim({column}), '') AS {column}" for column in table.columns]
        if table.of_a_stay:
            at = f"TRY_CAST({table.at} AS INTEGER)" if table.at else "NULL"
            known = f"greatest({at}, TRY_CAST({table.entered} AS INTEGER))" if table.entered else at
            columns += ["TRY_CAST(patientunitstayid AS BIGINT) AS stay", f"{at} AS minute", f"{known} AS known"]
        self._connection.execute(f"CREATE VIEW {name} AS SELECT {', '.join(columns)} FROM {source}")

    def _path(self, file: str) -> Path | None:
        names = (f"{file.lower()}.csv.gz", f"{file.lower()}.csv")
        return next((self._files[name] for name in names if name in self._files), None)

    def _check_columns(self, source: str, name: str, path: Path, wanted: tuple[str, ...]) -> None:
        with self._named((name,)):
            found = [str(row[0]).lower() for row in self._connection.execute(f"DESCRIBE FROM {source}").fetchall()]
        if lacking := [column for column in wanted if column not in found]:
            raise BrokenFile(
                f"eicu: {path} lacks the columns {', '.join(lacking)}; it has {', '.join(found[:8])}... Expected the "
                f"table as PhysioNet has it."
            )

    @contextmanager
    def _named(self, tables: tuple[str, ...]) -> Iterator[None]:
        """Errors of DuckDB as ours, with the files that were being read."""
        import duckdb

        try:
            yield
        except duckdb.OutOfMemoryException as problem:
            raise DataError(
                f"eicu: {', '.join(tables)} cannot be read in the memory given ({_first_line(problem)}); give more, "
                f"e.g. memory='4GB', or more room for temporary files."
            ) from problem
        except (duckdb.IOException, duckdb.InvalidInputException) as problem:
            paths = {str(self._path(TABLES[name].file)) for name in tables}
            raise BrokenFile(
                f"{', '.join(sorted(paths))} cannot be read: {_first_line(problem)} It is truncated or damaged, fetch "
                f"it again."
            ) from problem


@contextmanager
def opened(folder: Path, memory: str) -> Iterator[Database]:
    try:
        import duckdb
    except ImportError as problem:
        raise MissingData("eicu: the tables are read with DuckDB; pip install 'peerwise[eicu]'.") from problem
    with tempfile.TemporaryDirectory(prefix="peerwise-eicu-") as spill, duckdb.connect() as connection:
        try:
            connection.execute("SET memory_limit = $1", [memory])
        except duckdb.Error as problem:
            raise ConfigError(f"memory is {memory!r}: expected an amount such as '500MB' or '4GB'.") from problem
        connection.execute("SET temp_directory = $1", [spill])
        connection.execute(f"SET threads = {min(THREADS, _threads(connection))}")
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET enable_progress_bar = false")  # it would be printed among results
        yield Database(connection, folder)


def _threads(connection: duckdb.DuckDBPyConnection) -> int:
    found = connection.execute("SELECT current_setting('threads')").fetchone()
    return int(found[0]) if found else 1


def _first_line(problem: BaseException) -> str:
    return str(problem).strip().splitlines()[0][:200]


def nothing(rows: int, *shape: int) -> NDArray[np.float32]:
    """An array in which nothing is known yet."""
    return np.full((rows, *shape), np.nan, dtype=np.float32)
