"""For all tests."""

from __future__ import annotations

import signal

from hypothesis import settings

# Whoever starts the tests in the background may have Ctrl-C ignored, and the processes that tests start and interrupt
# would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says what else the machine does, not what the code does; all else as it was, also under CI.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")
