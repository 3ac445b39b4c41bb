"""Runtimes: the simulator, its experiments and its run folder."""

from peerwise.run.experiment import Experiment, experiment_from
from peerwise.run.experiment_file import read_experiments, set_key
from peerwise.run.folder import RunFolder
from peerwise.run.rounds import run_method
from peerwise.run.simulate import Run, federation, simulate

__all__ = [
    "Experiment",
    "Run",
    "RunFolder",
    "experiment_from",
    "federation",
    "read_experiments",
    "run_method",
    "set_key",
    "simulate",
]
