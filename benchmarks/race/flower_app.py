"""FedAvg on Flower's simulation engine, as a Flower app: a client, a server, and what they cost.

Flower's own strategy averages. A client trains with the loop that our FedAvg uses, on the same batches from the same
first weights, and notes the test rows where the averaged weights do better on its validation rows than before.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import psutil
import torch
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg as FlowerFedAvg
from flwr.simulation import run_simulation

from peerwise import Site, load, make_sites
from peerwise.data import derived_seed
from peerwise.methods.fedavg import FedAvg
from peerwise.models import one_thread
from peerwise.models.fitted import tensors
from peerwise.models.nets import Net, net_probabilities
from race.processes import cores
from race.rounds import BUDGET

client = ClientApp()


@lru_cache(maxsize=1)
def _sites(file: str, net: str) -> list[Site]:
    return make_sites(load(file), recipes=[net])


def _placed(message: Message, context: Context) -> tuple[FedAvg, Site, Net, int]:
    config = message.content["config"]
    site = _sites(config["file"], config["net"])[int(context.node_config["partition-id"])]
    method = FedAvg(**{**BUDGET, "rounds": config["rounds"], "batch_size": config["batch-size"]})
    net = method.new_net(site, np.random.default_rng(0))
    net.load_state_dict(message.content["arrays"].to_torch_state_dict(), strict=False)
    return method, site, net, int(config["server-round"]) - 1


@client.train()
def train(message: Message, context: Context) -> Message:
    method, site, net, round = _placed(message, context)
    with one_thread():
        method.fit(site, net, round)
    metrics = MetricRecord({"num-examples": len(site.train)})
    return Message(RecordDict({"arrays": _parameters(net), "metrics": metrics}), reply_to=message)


@client.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    _, site, net, _ = _placed(message, context)
    best = context.state.get("best") or MetricRecord({"validation": -1.0, "test": 0.0})
    with one_thread():
        score = _accuracy(net, site.val)
        if score > best["validation"]:
            best = MetricRecord({"validation": score, "test": _accuracy(net, site.test)})
    context.state["best"] = best
    metrics = MetricRecord({"num-examples": len(site.val), "place": int(context.node_config["partition-id"]), **best})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)


def _parameters(net: Net) -> ArrayRecord:
    """What travels: as in our FedAvg, the scaling of inputs stays at home."""
    return ArrayRecord({name: value.detach() for name, value in net.named_parameters()})


def _accuracy(net: Net, rows: Any) -> float:
    return float((net_probabilities(net, tensors(rows.X)).argmax(axis=1) == rows.y).mean()) if len(rows) else 0.0


class Watched(FlowerFedAvg):
    """Flower's FedAvg, with an eye on the clock, the bytes and what each client scores."""

    def __init__(self, join: float) -> None:
        super().__init__(fraction_train=join, fraction_evaluate=join)
        self.ends: list[float] = []
        self.cpu: list[float] = []
        self.right: dict[int, float] = {}
        self.bytes = {"sent": 0, "received": 0}

    def _construct_messages(self, record: RecordDict, node_ids: list[int], message_type: str) -> Iterable[Message]:
        self.bytes["received"] += len(node_ids) * _size(record)
        return super()._construct_messages(record, node_ids, message_type)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        came = list(replies)
        self.bytes["sent"] += sum(_size(reply.content) for reply in came)
        self.ends.append(time.perf_counter())
        self.cpu.append(_seconds_of_all())
        return super().aggregate_train(server_round, came)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> Any:
        came = list(replies)
        for reply in came:
            metrics = reply.content["metrics"]
            self.right[int(metrics["place"])] = float(metrics["test"])
        return super().aggregate_evaluate(server_round, came)


def _size(content: RecordDict) -> int:
    return sum(record.count_bytes() for record in content.values())


def _seconds_of_all() -> float:
    """CPU seconds of this process and of all that came of it and live."""
    total, root = 0.0, psutil.Process()
    for process in (root, *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            spent = process.cpu_times()
            total += spent.user + spent.system
    return total


def simulation(
    file: str, net: str, rounds: int, batch_size: int = BUDGET["batch_size"], join: float = 1.0
) -> dict[str, Any]:
    """In this process: seconds a round, CPU seconds of all processes by round, each site's accuracy in its best round,
    bytes a site. A site that was drawn in no round is not among them."""
    sites, strategy, server = _sites(file, net), Watched(join), ServerApp()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        first = np.random.default_rng(derived_seed(sites[0].seed, "common"))
        arrays = _parameters(FedAvg(**BUDGET).new_net(sites[0], first))
        config = {"file": file, "net": net, "rounds": rounds, "batch-size": batch_size}
        settings = {"train_config": ConfigRecord(dict(config)), "evaluate_config": ConfigRecord(dict(config))}
        strategy.start(grid, arrays, num_rounds=rounds, **settings)

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        backend = {"client_resources": {"num_cpus": 1}}
        backend["init_args"] = {"num_cpus": len(cores()), "include_dashboard": False, "_temp_dir": folder}
        run_simulation(server, client, len(sites), backend_config=backend)
    between = (strategy.ends[-1] - strategy.ends[0]) / (len(strategy.ends) - 1)
    bytes_a_site = {way: total / len(sites) for way, total in strategy.bytes.items()}
    right = [strategy.right[place] for place in sorted(strategy.right)]
    return {
        "round": between,
        "ends": strategy.cpu,
        "accuracy": float(np.mean(right)),
        "right": right,
        "bytes": bytes_a_site,
    }
