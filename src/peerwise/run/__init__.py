"""Runtimes: the simulator, its experiments and its run folder."""

from peerwise.run.experiment import Experiment, experiment_from
from peerwise.run.experiment_file import read_experiments, set_key
from peerwise.run.finished import Run
from peerwise.run.folder import RunFolder
from peerwise.run.loading import load_run
from peerwise.run.runner import run_method
from peerwise.run.simulate import federation, simulate

__all__ = [
    "Experiment",
    "Run",
    "RunFolder",
    "experiment_from",
    "federation",
    "load_run",
    "read_experiments",
    "run_method",
    "set_key",
    "simulate",
]
