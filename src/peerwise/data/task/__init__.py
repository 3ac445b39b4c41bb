"""The task that all members agree on, and a site's rows held against it."""

from peerwise.data.task.made import task_from
from peerwise.data.task.mapping import ColumnMap
from peerwise.data.task.problems import Problem
from peerwise.data.task.public import public_rows, read_public
from peerwise.data.task.rows import Cases, check_rows, inputs_of, read_inputs, read_rows
from peerwise.data.task.task import METRICS, PublicRows, Task, TaskFeature

__all__ = [
    "METRICS",
    "Cases",
    "ColumnMap",
    "Problem",
    "PublicRows",
    "Task",
    "TaskFeature",
    "check_rows",
    "inputs_of",
    "public_rows",
    "read_inputs",
    "read_public",
    "read_rows",
    "task_from",
]
