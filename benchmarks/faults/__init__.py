"""Faults put into real sites, and what was left of them: python benchmarks/faults [--quick] [--only PART].

Every trial checks the promises of `promises.py`; the table goes to docs/reliability.md."""
