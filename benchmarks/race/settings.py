"""What a race is run on, and how large it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from race.splits import split_file

PEERS = """rigfl and graphroute are not measured: no Python with them was given. They need numpy below 2, so they get an
environment of their own:
  python3 -m venv .peers
  .peers/bin/pip install torch==2.13.0
  .peers/bin/pip install rigfl==0.3.0 graphroute==0.1.7 scikit-learn psutil
then --peer-python .peers/bin/python, or PEERWISE_PEER_PYTHON=.peers/bin/python."""
DESLIB = """DESlib is not measured: no Python with it was given. It fails on scikit-learn 1.6 and later:
  python3 -m venv .deslib
  .deslib/bin/pip install DESlib==0.3.7 'scikit-learn<1.6' 'numpy<2'
then --deslib-python .deslib/bin/python, or PEERWISE_DESLIB_PYTHON=.deslib/bin/python."""
SIMULATORS = """pfl, fluke and FedLab are not measured: no Python with them was given:
  python3 -m venv .simulators
  .simulators/bin/pip install torch==2.13.0 torchvision==0.28.0 pfl==0.6.0
  .simulators/bin/pip install --no-deps fluke-fl==0.8.1 fedlab==1.3.0
  .simulators/bin/pip install diskcache torchmetrics rich pandas scikit-learn psutil cerberus omegaconf pyyaml typer \\
      requests wandb datasets tensorboard clearml matplotlib seaborn opacus pynvml munch tqdm
then --simulator-python .simulators/bin/python, or PEERWISE_SIMULATOR_PYTHON=.simulators/bin/python."""


@dataclass(frozen=True)
class Federation:
    """FedAvg at ``sites`` sites, each with so many train, validation and test ``rows``; the share ``join`` of the sites
    takes part in a round. ``net``: one of `race.peers.sites_task`. ``flower``: whether Flower is measured too."""

    sites: int
    rows: tuple[int, int, int]
    net: str
    batch: int
    rounds: int
    join: float = 1.0
    flower: bool = False


@dataclass(frozen=True)
class Size:
    """``federations``: splits, with the family of nets of each. ``sites``: the first so many of a split."""

    federations: dict[str, str]
    sites: int | None
    pools: tuple[str, ...]
    paper_pools: tuple[str, ...]  # those on which `feddes` is measured too
    balanced_pool: str  # at its first site `feddes` and graphroute are compared on the class-balanced graph
    rounds_on: str
    net: tuple[str, str, int]  # our name and rigfl's of the same net, and the width of its last hidden layer
    rounds: int
    rules: dict[str, int]
    repeats: int
    rows: tuple[int, ...]
    models: tuple[int, ...]
    rows_fixed: int
    models_fixed: int
    peer_rows: tuple[int, ...]
    peer_models: tuple[int, ...]
    peer_epochs: int
    grown: str  # the split whose sites are cut in four, to see how cost grows with their number
    grown_sites: tuple[int, ...]
    peer_sites: tuple[int, ...]
    images: str  # the data set of the federations below
    federations_in_rounds: tuple[Federation, ...]
    large_federation: Federation
    smallest: dict[str, Any]  # the settings of the smallest run, on digits
    repeats_in_rounds: int


C3, C7, DIGITS = "fmnist_n8000_C3_a1_s0", "fmnist_n8000_C7_a10_s0", "digits_dir0.3_s0"
LIGHT, TABULAR = "light", "tabular_heterogeneous_3"
FAMILIES = {  # our nets, in the order of rigfl's family of that name
    LIGHT: ("lenet5", "cnn16", "cnn8"),
    TABULAR: ("race.nets:linear", "race.nets:layers", "race.nets:residual"),
}
SIZES = {
    "full": Size(
        federations={C3: LIGHT, C7: LIGHT, DIGITS: TABULAR},
        sites=None,
        pools=(f"{C7}__light3", f"{C3}__light3", f"{DIGITS}__{TABULAR}"),
        paper_pools=(f"{DIGITS}__{TABULAR}",),
        balanced_pool=f"{C7}__light3",
        rounds_on=C3,
        net=("cnn16", "small_cnn", 128),
        rounds=8,
        rules={"queries": 5000, "models": 100, "rows": 2000, "classes": 3},
        repeats=2,
        rows=(200, 400, 800, 1000, 2000, 5000, 10_000, 20_000, 50_000),
        models=(5, 10, 20, 50),
        rows_fixed=1000,
        models_fixed=20,
        peer_rows=(250, 500, 1000, 2000),
        peer_models=(5, 10, 20, 50),
        peer_epochs=5,
        grown=C3,
        grown_sites=(5, 10, 20, 40),
        peer_sites=(5, 10, 20),
        images="fashion_mnist",
        federations_in_rounds=(
            Federation(20, (240, 80, 80), "cnn8", batch=32, rounds=20, flower=True),
            Federation(200, (24, 8, 8), "mlp64", batch=16, rounds=6, flower=True),
            Federation(1000, (4, 2, 2), "mlp64", batch=16, rounds=6, join=0.1, flower=True),
        ),
        large_federation=Federation(10_000, (12, 4, 4), "mlp64", batch=16, rounds=3, join=0.01),
        smallest={"sites": 3, "methods": "local", "models": "logistic", "seeds": 1},
        repeats_in_rounds=3,
    ),
    "small": Size(
        federations={"fmnist_n2000_C3_a1_s0": LIGHT, DIGITS: TABULAR},
        sites=4,
        pools=(f"{DIGITS}__{TABULAR}",),
        paper_pools=(),
        balanced_pool=f"{DIGITS}__{TABULAR}",
        rounds_on="fmnist_n2000_C3_a1_s0",
        net=("cnn16", "small_cnn", 128),
        rounds=4,
        rules={"queries": 500, "models": 20, "rows": 400, "classes": 3},
        repeats=1,
        rows=(200, 400, 800, 1000, 2000),
        models=(5, 20),
        rows_fixed=500,
        models_fixed=10,
        peer_rows=(100, 200, 400),
        peer_models=(5, 20),
        peer_epochs=3,
        grown="fmnist_n2000_C3_a1_s0",
        grown_sites=(3, 6, 12),
        peer_sites=(3, 6),
        images="fashion_mnist",
        federations_in_rounds=(
            Federation(5, (240, 80, 80), "cnn8", batch=32, rounds=3, flower=True),
            Federation(50, (4, 2, 2), "mlp64", batch=16, rounds=3, join=0.1),
        ),
        large_federation=Federation(500, (12, 4, 4), "mlp64", batch=16, rounds=3, join=0.01),
        smallest={"sites": 3, "methods": "local", "models": "logistic", "seeds": 1},
        repeats_in_rounds=1,
    ),
    "tiny": Size(
        federations={"digits_tiny": TABULAR},
        sites=None,
        pools=(),
        paper_pools=("synthetic",),
        balanced_pool="synthetic",
        rounds_on="digits_tiny",
        net=("mlp", "tabular_mlp", 64),
        rounds=3,
        rules={"queries": 60, "models": 8, "rows": 50, "classes": 3},
        repeats=1,
        rows=(60, 120, 240),
        models=(3, 6),
        rows_fixed=60,
        models_fixed=3,
        peer_rows=(60, 120),
        peer_models=(3, 6),
        peer_epochs=2,
        grown="digits_tiny",
        grown_sites=(3, 6, 12),
        peer_sites=(3,),
        images="synthetic",
        federations_in_rounds=(Federation(6, (12, 4, 4), "mlp64", batch=16, rounds=3, join=0.5),),
        large_federation=Federation(12, (6, 2, 2), "mlp64", batch=16, rounds=3, join=0.1),
        smallest={"sites": 3, "methods": "local", "rows": 150, "models": "logistic", "seeds": 1},
        repeats_in_rounds=1,
    ),
}


@dataclass(frozen=True)
class Race:
    size: Size
    out: Path
    splits: Path | None
    pools: Path | None
    peer_python: str | None
    deslib_python: str | None
    simulator_python: str | None

    def split(self, name: str) -> Path:
        return split_file(name, self.splits, self.out)
