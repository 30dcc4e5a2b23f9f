"""`bpm explain`: why an instance rests where it does, and what would let it go on."""

from __future__ import annotations

import click

from bpm_engine.cli.session import Session, on_engine
from bpm_engine.cli.tables import element, item_words, print_heading


@click.command()
@click.argument("instance")
@on_engine()
def explain(session: Session, instance: str) -> None:
    """Explain what an instance waits for: why, since when, what releases it, what is late.

    \b
    Examples:
      bpm explain 0192f0c1-…
      bpm explain A-17                      by its business key
    """
    explained = session.engine.instances.explain(session.instance(instance))

    def show() -> None:
        process = f"{explained.definition_key} version {explained.definition_version}"
        session.say(f"{process}: {explained.text}", bold=True)
        for token in explained.tokens:
            words = item_words(token.item)
            place = f"{element(token.node_id)} ({words})" if words else element(token.node_id)
            print_heading(session.color, f"{place}  {token.name}".rstrip())
            for number, line in enumerate(str(token).splitlines()):
                text = token.text if number == 0 else line.strip()
                session.say(f"  {text}", fg="yellow" if text.startswith("late:") else None)

    session.answer(explained, show)
