"""From results to claims: each method over all sites, and against every site's own model."""

from peerwise.evaluate.summary import summarise

__all__ = ["summarise"]
