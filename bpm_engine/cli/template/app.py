"""The application: an engine with its handlers. `bpm run --app app:engine` makes it work."""

import os

from handlers import HANDLERS

from bpm_engine import Engine

engine = Engine(os.environ.get("BPM_DATABASE_URL", "sqlite:///bpm.db"))
for topic, function in HANDLERS.items():
    engine.handler(topic)(function)
