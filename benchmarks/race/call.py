"""python -m race.call MODULE:FUNCTION ARGUMENTS: calls one function of the race and prints what it gives as JSON."""

from __future__ import annotations

import json
import sys
from importlib import import_module

if __name__ == "__main__":
    place, name = sys.argv[1].split(":")
    print(json.dumps(getattr(import_module(place), name)(**json.loads(sys.argv[2]))))
