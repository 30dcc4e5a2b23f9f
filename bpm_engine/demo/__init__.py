"""`bpm demo`: a web shop that runs a few hundred orders, loses a worker and shows that nothing else was lost.

`app` is the application as a user would write it (an engine, its handlers); `bpm run` runs it in worker
processes of their own. `orders` says what is ordered, `robots` play the people and the carrier, `story` tells
what happens when, `screen` shows it, `figures` counts it in the database.
"""
