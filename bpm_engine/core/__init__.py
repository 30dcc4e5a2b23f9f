"""The token game of BPMN: pure, deterministic, without IO, clock, randomness, SQL or logging."""
