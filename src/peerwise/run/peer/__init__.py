"""One real site of a federation: its working folder, and all that it can do there."""

from peerwise.run.peer.answering import Answers, predict
from peerwise.run.peer.arrivals import Arrival, arrivals, in_use
from peerwise.run.peer.connection import connect, outbox
from peerwise.run.peer.doctor import Check, doctor
from peerwise.run.peer.fitting import fit, read_bundle
from peerwise.run.peer.folder import PeerFolder
from peerwise.run.peer.founding import found, join, task_for
from peerwise.run.peer.live import live
from peerwise.run.peer.membership import admit, renew, revoke, rotate
from peerwise.run.peer.methods import is_published, method_of
from peerwise.run.peer.publishing import preview, publish, withdraw
from peerwise.run.peer.pulling import pull
from peerwise.run.peer.reviewing import decided, review
from peerwise.run.peer.rounds import fit_by_rounds
from peerwise.run.peer.standing import status
from peerwise.run.peer.training import train

__all__ = [
    "Answers",
    "Arrival",
    "Check",
    "PeerFolder",
    "admit",
    "arrivals",
    "connect",
    "decided",
    "doctor",
    "fit",
    "fit_by_rounds",
    "found",
    "in_use",
    "is_published",
    "join",
    "live",
    "method_of",
    "outbox",
    "predict",
    "preview",
    "publish",
    "pull",
    "read_bundle",
    "renew",
    "review",
    "revoke",
    "rotate",
    "status",
    "task_for",
    "train",
    "withdraw",
]
