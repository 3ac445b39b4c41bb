"""A thousand peers: how good are a site's answers if it fetches only some of their models, and asks only some of those?

Real images shared out among small sites (`scale_peers`); each peer has a cheap real model, a fifth of them a bad one. A
few other sites with rows of their own ask. Peers are ranked by what can be known before fetching, the first of them are
fetched, and PeerwiseClassifier learns whom to trust. All choices use the site's own rows that are not test rows.

python experiments/scale.py --out runs/scale --plot scale.png
python experiments/scale.py --out runs/scale_chosen --seeds 10,11 --judge validation      # what was chosen on

Running again goes on where it stopped, site by site. ``--fast``: 100 peers, 4 sites, one seed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scale_figures import drawn, tables
from scale_peers import Array, Asking, Cards, federation

from peerwise import PeerwiseClassifier
from peerwise.parcels.egress.facts import EDGES
from peerwise.parcels.promise import promise
from peerwise.space import as_logits
from peerwise.trust.frugal import Cascade

FETCHED = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000)
ASKED = (1, 2, 4, 8, 16, 32, 64)
KEPT_OF = 64  # models that were fetched, of which fewer are asked


def by_random(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    return rng.random(len(cards.counts))


def by_rows(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """The bucket of its number of rows, which grow about threefold from one to the next."""
    return np.searchsorted(EDGES, cards.counts.sum(axis=1), side="right")


def by_card(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """As `peerwise pull` with most_peers does, from today's cards."""
    known = {str(label): share for label, share in enumerate(shares(site, part))}
    return np.array([promise(card, known) for card in cards.today()])


def by_classes(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """The share of the site's rows whose class it has trained on; of equals, the one with more rows."""
    return (cards.counts > 0) @ shares(site, part) + 1e-6 * by_rows(cards, site, part, rng)


def by_histogram(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """The logarithm of the rows behind each class, weighted by how often the site has it."""
    return np.log1p(cards.counts) @ shares(site, part)


def by_claim(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    return cards.claimed


def by_likeness(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """How often its answers to the probes are those of the own model."""
    return (cards.answers == site.probes).mean(axis=1)


def by_consensus(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """How often its answers to the probes are those of most peers, probes weighted to have the site's own classes as
    often as its rows have."""
    share = shares(site, part)
    votes = np.stack([(cards.answers == label).sum(axis=0) for label in range(len(share))])
    most = votes.argmax(axis=0)
    weight = (share / np.maximum(np.bincount(most, minlength=len(share)), 1))[most]
    return (cards.answers == most) @ weight


def by_own_rows(cards: Cards, site: Asking, part: str, rng: np.random.Generator) -> Array:
    """Its accuracy on the site's own rows: known only of models that have been fetched, here all of them."""
    rows = site.rows(part)
    return (site.outputs[rows, 1:].argmax(axis=2) == site.y[rows, None]).mean(axis=0)


RANKINGS = {
    "random": by_random,
    "rows": by_rows,
    "card": by_card,
    "classes, then rows": by_classes,
    "histogram": by_histogram,
    "claimed accuracy": by_claim,
    "sketch, like own": by_likeness,
    "sketch, consensus": by_consensus,
    "own rows (fetches all)": by_own_rows,
}


def shares(site: Asking, part: str) -> Array:
    found = np.bincount(site.y[site.rows(part)], minlength=site.outputs.shape[2])
    return found / found.sum()


def ranked(name: str, cards: Cards, site: Asking, part: str, seed: list[int]) -> Array:
    """Columns of the outputs (the own model has the first), most promising first; ties fall by lot."""
    rng = np.random.default_rng(seed)
    score = RANKINGS[name](cards, site, part, rng)
    return 1 + np.lexsort((rng.random(len(score)), -score))


def kept(outputs: Array, y: Array, most: int) -> list[int]:
    """Columns in the order in which each makes the mean answer of those before it, the own model first, most likely."""
    total, chosen = outputs[:, 0].astype(np.float64), [0]
    likely = outputs[np.arange(len(y)), :, y].astype(np.float64)  # what each model gives the true class
    right = total[np.arange(len(y)), y]
    for count in range(2, 2 + min(most, outputs.shape[1] - 1)):
        score = np.log(np.maximum((right[:, None] + likely) / count, 1e-3)).mean(axis=0)
        score[chosen] = -np.inf
        chosen.append(int(score.argmax()))
        right = right + likely[:, chosen[-1]]
    return chosen[1:]


def said_by(trust: Array, says: Array, most: int) -> Array:
    """The answers if only so many models, those trusted most on each row, have a say."""
    ordered = np.argsort(-trust, axis=1)[:, :most]
    rows = np.arange(len(trust))[:, None]
    votes = np.zeros((len(trust), says.max() + 1))
    np.add.at(votes, (rows, says[rows, ordered]), trust[rows, ordered])
    return votes.argmax(axis=1)


class Judge:
    """Learners of one site, and how often their answers are right on the rows that judge."""

    def __init__(self, site: Asking, judge: str) -> None:
        self.part = "learn" if judge == "test" else "train"
        self.site, self.learn, self.judged = site, site.rows(self.part), site.rows(judge)
        self.y = site.y[self.judged]

    def own(self) -> float:
        return float((self.site.outputs[self.judged, 0].argmax(axis=1) == self.y).mean())

    def fitted(self, columns: Any) -> PeerwiseClassifier:
        pool, site = [0, *columns], self.site
        learner = PeerwiseClassifier(own=[0], random_state=0)
        return learner.fit_outputs(
            site.outputs[self.learn][:, pool], site.y[self.learn], site.X[self.learn], kind="probabilities"
        )

    def asked(self, columns: Any) -> dict[str, float]:
        started = time.process_time()
        learner = self.fitted(columns)
        fitted = time.process_time()
        pool = [0, *columns]
        answers = learner.predict_proba_outputs(self.site.outputs[self.judged][:, pool], self.site.X[self.judged])
        right = float((answers.argmax(axis=1) == self.y).mean())
        return {"right": right, "fit": fitted - started, "answer": time.process_time() - fitted}


def measured(cards: Cards, site: Asking, judge: str, seed: list[int]) -> Iterator[dict[str, Any]]:
    """A line for every way to choose and number of models."""
    by, peers = Judge(site, judge), len(cards.counts)
    yield {"how": "own model", "fetched": 0, "asked": 0, "right": by.own()}
    for name in RANKINGS:
        order = ranked(name, cards, site, by.part, seed)
        for count in (count for count in FETCHED if count < peers):
            yield {"how": name, "fetched": count, "asked": count, **by.asked(order[:count])}
    yield {"how": "all", "fetched": peers, "asked": peers, **by.asked(np.arange(1, 1 + peers))}
    learn, y = site.rows(by.part), site.y[site.rows(by.part)]
    for name in ("card", "own rows (fetches all)"):
        count = min(KEPT_OF, peers) if name == "card" else peers
        fetched = ranked(name, cards, site, by.part, seed)[:count]
        order = fetched[np.array(kept(site.outputs[learn][:, [0, *fetched]], y, max(ASKED))) - 1]
        for asked in ASKED:
            yield {"how": f"kept of {count}", "fetched": count, "asked": asked, **by.asked(order[:asked])}
    yield from few_asked(by, ranked("card", cards, site, by.part, seed)[:KEPT_OF])


def few_asked(by: Judge, fetched: Array) -> Iterator[dict[str, Any]]:
    """All that were fetched are learned from. Either all are asked and few have a say, or rows stop in a cascade."""
    site, pool = by.site, [0, *fetched]
    learner, asked = by.fitted(fetched), site.outputs[by.judged][:, pool]
    trust, says = learner.trust_outputs(asked, site.X[by.judged]), asked.argmax(axis=2)
    for most in ASKED:
        right = float((said_by(trust, says, most) == by.y).mean())
        yield {"how": "all asked, few have a say", "fetched": len(fetched), "asked": most, "right": right}
    logits = as_logits(site.outputs[:, pool], "probabilities")
    started = time.process_time()
    cascade = Cascade.fit(
        PeerwiseClassifier(own=[0], random_state=0), logits[by.learn], site.y[by.learn], site.X[by.learn], own=[0]
    )
    spent = time.process_time() - started
    line = {"how": "cascade", "fetched": len(fetched), "fit": spent}
    if cascade is None:
        right = float((learner.predict_proba_outputs(asked, site.X[by.judged]).argmax(axis=1) == by.y).mean())
        yield {**line, "asked": len(fetched), "right": right}
        return
    given = logits[by.judged]
    found = cascade.answer(lambda columns, rows: given[np.ix_(rows, columns)], len(given), site.X[by.judged])
    peers_asked = float(found.consulted[:, 1:].sum(axis=1).mean())
    yield {**line, "asked": peers_asked, "right": float((found.probabilities.argmax(axis=1) == by.y).mean())}


def main(given: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/scale"), help="one file a seed and site (resumable)")
    parser.add_argument("--peers", type=int, default=1000)
    parser.add_argument("--asking", type=int, default=20)
    parser.add_argument("--seeds", default="0,1,2", help="by comma")
    parser.add_argument("--judge", choices=("validation", "test"), default="test", help="rows that count")
    parser.add_argument("--dataset", default="fashion_mnist")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--fast", action="store_true", help="100 peers, 4 asking sites, one seed")
    a = parser.parse_args(given)
    if a.fast:
        a.peers, a.asking, a.seeds = 100, 4, "0"
    a.out.mkdir(parents=True, exist_ok=True)
    for seed in map(int, a.seeds.split(",")):
        run(a, seed)
    found = pd.concat([pd.read_csv(file) for file in sorted(a.out.glob("*.csv"))])
    sys.stdout.write(tables(found) + "\n")
    if a.plot:
        drawn(found, a.plot)


def run(a: argparse.Namespace, seed: int) -> None:
    files = [a.out / f"{a.dataset}-{a.peers}-{a.judge}-{seed}-{place}.csv" for place in range(a.asking)]
    if all(file.exists() for file in files):
        return
    cards, sites = federation(a.peers, a.asking, seed, a.dataset)
    for place, (file, site) in enumerate(zip(files, sites, strict=True)):
        if not file.exists():
            lines = pd.DataFrame(measured(cards, site, a.judge, [seed, place])).assign(seed=seed, site=place)
            part = file.with_suffix(".part")
            lines.to_csv(part, index=False)
            part.replace(file)


if __name__ == "__main__":
    main()
