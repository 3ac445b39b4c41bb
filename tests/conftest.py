"""For all tests."""

from __future__ import annotations

import signal

# Whoever starts the tests in the background may have Ctrl-C ignored, and the processes that tests start and interrupt
# would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
