"""Loops around the store and the core: each service is one `run_once`."""
