"""Costs: prices, and the ledger that adds them up."""
