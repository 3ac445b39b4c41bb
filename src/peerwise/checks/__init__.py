"""The check kit: what every trust learner, method and transport must do. Use it in the tests of your own."""

from peerwise.checks.method import check_method
from peerwise.checks.transport import check_transport
from peerwise.checks.trust_learner import check_trust_learner

__all__ = ["check_method", "check_transport", "check_trust_learner"]
