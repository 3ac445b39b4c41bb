"""The race against the peers, all figures in one run: python benchmarks/race --all [--peer-python PYTHON].

Every part measures ours and the peers on the same machine, splits and networks; docs/race.md has the tables."""
