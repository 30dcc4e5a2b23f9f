"""The durable store: rows and set-based statements on PostgreSQL and SQLite. It knows nothing of BPMN.

`store.Store` opens transactions; the topic modules (`trees`, `changes`, `work`, `timers`, `messages`, …) hold
the statements, each with the function that runs it. Start at `bpm_engine.store.store`.
"""
