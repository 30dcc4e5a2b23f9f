"""Texts in pictures: harmless, measured, wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from bpm_engine.bpmn.draw.text import escaped, text_width, visible, wrapped


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("invoice\u202egpj.exe", "invoice⟨U+202E⟩gpj.exe"),
        ("a\u2066b\u2069c", "a⟨U+2066⟩b⟨U+2069⟩c"),
        ("zero\u200bwidth", "zero⟨U+200B⟩width"),
        ("bell\x07", "bell⟨U+0007⟩"),
        ("\x1b[31mred", "⟨U+001B⟩[31mred"),
        ("lone \ud800", "lone ⟨U+D800⟩"),
        ("two\nlines\tand", "two lines and"),
        ("Überweisung prüfen", "Überweisung prüfen"),
        ("請求書を確認", "請求書を確認"),
    ],
)
def test_control_and_bidirectional_characters_are_shown_as_codes(name: str, shown: str) -> None:
    assert visible(name) == shown


@given(st.text())
def test_any_text_is_safe_as_content_and_as_attribute(text: str) -> None:
    made = etree.fromstring(f'<a b="{escaped(text)}">{escaped(text)}</a>'.encode())
    assert (made.text or "") == made.get("b") == visible(text)
    assert len(made) == 0


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=200), st.floats(40, 200))
def test_wrapped_lines_fit_and_lose_nothing_that_has_room(text: str, width: float) -> None:
    lines = wrapped(text, width, max_lines=1000)
    assert all(text_width(line) <= width or len(line) == 1 for line in lines)
    assert "".join("".join(lines).split()) == "".join(visible(text).split())


def test_a_text_with_too_many_lines_ends_with_an_ellipsis() -> None:
    lines = wrapped("one two three four five six seven", 30, max_lines=3)
    assert len(lines) == 3
    assert lines[-1].endswith("…")
