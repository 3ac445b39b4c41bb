"""The check kit: what every trust learner, method and exchange must do. Use it in the tests of your own."""

from peerwise.checks.exchange import check_exchange
from peerwise.checks.method import check_method
from peerwise.checks.trust_learner import check_trust_learner

__all__ = ["check_exchange", "check_method", "check_trust_learner"]
