"""``python -m peerwise`` is the command."""

import sys

from peerwise.cli import main

sys.exit(main())
