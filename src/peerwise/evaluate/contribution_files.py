"""A contribution graph as a file, for other tools: JSON (nodes and edges in plain lists) or GraphML."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree.ElementTree import ParseError

import networkx as nx

from peerwise.errors import BrokenFile, ConfigError
from peerwise.parcels import write_atomic

FORMS = (".json", ".graphml")
UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, ParseError, nx.NetworkXException)


def save_graph(graph: nx.DiGraph, path: str | Path) -> None:
    """By the name's ending: ``.json`` or ``.graphml``."""
    path = _checked(Path(path))
    if path.suffix == ".json":
        text = json.dumps(nx.node_link_data(graph, edges="edges"), indent=1, allow_nan=False)
    else:
        text = "\n".join(nx.generate_graphml(graph))
    write_atomic(path, (text + "\n").encode())


def load_graph(path: str | Path) -> nx.DiGraph:
    """A graph that `save_graph` wrote; anything else is refused."""
    path = _checked(Path(path))
    try:
        text = path.read_text("utf-8")
        graph = (
            nx.node_link_graph(json.loads(text), edges="edges") if path.suffix == ".json" else nx.parse_graphml(text)
        )
        weights = [edge["weight"] for *_, edge in graph.edges(data=True)]
        weights += [about["self_weight"] for about in graph.nodes.values() if "self_weight" in about]
        fits = all(0 <= weight <= 1 for weight in weights)
    except UNREADABLE as error:
        raise BrokenFile(f"{path} cannot be read as a contribution graph ({error}): save it again.") from error
    if type(graph) is not nx.DiGraph or not fits or not all(isinstance(site, str) for site in graph):
        raise BrokenFile(
            f"{path} holds no contribution graph: expected a directed graph of named sites with weights from 0 to 1. "
            f"Save it again."
        )
    return graph


def _checked(path: Path) -> Path:
    if path.suffix not in FORMS:
        raise ConfigError(f"{path} ends in {path.suffix!r}: expected {' or '.join(FORMS)}.")
    return path
