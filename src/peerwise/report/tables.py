"""The summary as tables within 80 columns. Colour marks the best and the worst only."""

from __future__ import annotations

import math

import pandas as pd
from rich.table import Table

from peerwise.evaluate.summary import LOCAL
from peerwise.report.cells import decimal, interval, marked, number, percent, plain_table, size

PHASES = {"train": "train\ns", "outputs": "pool\ns", "fit": "fit\ns", "predict": "predict\ns"}
NAN = math.nan


def metric_table(summary: pd.DataFrame) -> Table:
    """Accuracy and balanced accuracy in percent: mean, spread over sites and seeds, mean of the worst tenth."""
    accuracy = ("accuracy", "±\nsites", "±\nseeds", "worst\n10 %")
    table = plain_table("method", *accuracy, "balanced\naccuracy", "±\nseeds", "worst\n10 %")
    for method, line in summary.iterrows():
        cells = [marked(line["accuracy"], summary["accuracy"])]
        parts = [percent(line[f"accuracy_{part}"]) for part in ("std", "seed_std", "worst_tenth")]
        balanced = marked(line["balanced_accuracy"], summary["balanced_accuracy"])
        rest = [percent(line[f"balanced_accuracy_{part}"]) for part in ("seed_std", "worst_tenth")]
        table.add_row(str(method), *cells, *parts, balanced, *rest)
    return table


def own_table(summary: pd.DataFrame, metric: str) -> Table | None:
    """Each method against the sites' own models; None if nothing can be held to them."""
    others = summary[summary.index != LOCAL]
    if f"{metric}_gain" not in summary.columns or not others[f"{metric}_gain"].notna().any():
        return None
    tested = metric == "accuracy" and "tests" in others.columns
    columns = ("method", "gain", "95 %\ninterval", "win/tie/\nloss %", "loss/\nsite")
    table = plain_table(*columns, *(("sig.\nbetter", "sig.\nworse") if tested else ()))
    for method, line in others.iterrows():
        ends = interval(line.get(f"{metric}_gain_low", NAN), line.get(f"{metric}_gain_high", NAN))
        shares = [percent(line[f"{metric}_{key}"], ".0f") for key in ("wins", "ties", "losses")]
        cells = [percent(line[f"{metric}_gain"], "+.1f"), ends, "/".join(shares)]
        cells.append(percent(line[f"{metric}_negative_transfer_burden"], ".2f"))
        if tested:
            cells += [f"{line[f'significantly_{key}']:.0f}" for key in ("better", "worse")]
        table.add_row(str(method), *cells)
    return table


def probability_table(summary: pd.DataFrame) -> Table | None:
    """What the probabilities are worth; None where the results do not have it."""
    shown = {"auroc": "AUROC", "auprc": "AUPRC", "sensitivity": "sensi-\ntivity", "specificity": "speci-\nficity"}
    errors = {"ece": "ECE", "log_loss": "NLL", "brier": "Brier"}
    if not {*shown, *errors} <= set(summary.columns):
        return None
    shown["open_auroc"] = "open\nAUROC"
    known = {key: name for key, name in shown.items() if key in summary.columns and summary[key].notna().any()}
    table = plain_table("method", *known.values(), *errors.values())
    for method, line in summary.iterrows():
        cells = [percent(line[key]) for key in known]
        table.add_row(str(method), *cells, percent(line["ece"]), decimal(line["log_loss"]), decimal(line["brier"]))
    return table


def behaviour_table(summary: pd.DataFrame) -> Table | None:
    """Whom a method trusts: how many models, how often none was reliable, and how near it comes to a perfect choice;
    None if no method chooses."""
    chosen = summary[summary["ensemble_size"].notna()]
    if chosen.empty:
        return None
    more = {"oracle_gap_closed": "gap\nclosed", "trust_on_wrong": "wrong\ntrust", "mismatch": "mis-\nmatch",
            "home_spearman": "home\nrho"}  # fmt: skip
    known = {key: name for key, name in more.items() if key in chosen.columns}
    table = plain_table("method", "models", "ESS", "fall-\nback", "oracle", *known.values())
    for method, line in chosen.iterrows():
        cells = [number(line["ensemble_size"]), number(line["ess"]), percent(line["fallback"]), percent(line["oracle"])]
        forms = {"mismatch": number, "home_spearman": decimal}
        table.add_row(str(method), *cells, *(forms.get(key, percent)(line[key]) for key in known))
    return table


def cost_table(summary: pd.DataFrame) -> Table:
    """Rounds; bytes sent and received by a site; seconds of all sites together: training, asking the pool's models,
    fitting, predicting."""
    table = plain_table("method", "rounds", "sent\n/site", "received\n/site", *PHASES.values())
    for method, line in summary.iterrows():
        rounds = line.get("rounds", NAN)
        cells = ["-" if math.isnan(rounds) else f"{rounds:.0f}"]
        cells += [size(line[key]) if key in line else "-" for key in ("bytes_sent", "bytes_received")]
        table.add_row(str(method), *cells, *(number(line.get(f"seconds_{phase}", NAN)) for phase in PHASES))
    return table


def subgroup_table(part: pd.DataFrame) -> Table:
    """One subgroup's metrics, method by method, and the gain over the own models there."""
    shown = {"accuracy": "accuracy", "balanced_accuracy": "balanced", "auroc": "AUROC",
             "sensitivity": "sensi-\ntivity", "specificity": "speci-\nficity"}  # fmt: skip
    known = {key: name for key, name in shown.items() if part[key].notna().any()}
    held = "accuracy_gain" in part.columns
    table = plain_table("method", *known.values(), *(("gain",) if held else ()))
    for _, line in part.iterrows():
        cells = [str(line["method"]), *(percent(line[key]) for key in known)]
        if held:
            cells.append("" if line["method"] == LOCAL else percent(line["accuracy_gain"], "+.1f"))
        table.add_row(*cells)
    return table
