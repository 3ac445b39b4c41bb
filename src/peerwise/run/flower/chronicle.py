"""What the hub knows of a run: scores by round, bytes, who was left out and why; in research, answers on test rows."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peerwise.parcels import write_atomic, write_tree
from peerwise.run.flower.answer import Answer
from peerwise.run.flower.settings import FlowerSettings
from peerwise.run.flower.wire import LAST


class Chronicle:
    """``results.json``, rewritten after every round, and in research ``answers.tree`` (by site: y, probabilities)."""

    def __init__(self, settings: FlowerSettings) -> None:
        self._out = Path(settings.out) if settings.out else None
        self._rounds: list[dict[str, Any]] = []
        self._left_out: list[dict[str, Any]] = []
        self._sites: dict[str, dict[str, Any]] = {}
        self._tested: dict[str, Any] = {}
        self._about = {"method": settings.method, "settings": settings.settings, "seed": settings.seed}
        self._since = time.monotonic()

    def answered(self, round: int, found: Mapping[str, Answer]) -> None:
        for name, answer in found.items():
            self._sites[name] = {
                "sent": answer.sent,
                "received": answer.received,
                "validation_accuracy": answer.scores,
                "best_round": answer.best,
                "peers_left_out": answer.left_out,
            }
            if answer.tested is not None:
                self._tested[name] = answer.tested
        if round != LAST:
            seconds, self._since = time.monotonic() - self._since, time.monotonic()
            self._rounds.append({"round": round, "sites": sorted(found), "seconds": seconds})
        self.save()

    def left_out(self, round: int, who: str, why: str) -> None:
        self._left_out.append({"round": None if round == LAST else round, "site": who, "why": why})

    def save(self) -> None:
        if self._out is None:
            return
        known = {**self._about, "rounds": self._rounds, "sites": self._sites, "left_out": self._left_out}
        self._out.mkdir(parents=True, exist_ok=True)
        write_atomic(self._out / "results.json", json.dumps(known, indent=1, allow_nan=False).encode())
        if self._tested:
            write_tree(self._out / "answers.tree", self._tested)
