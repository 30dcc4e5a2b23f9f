"""Texts in pictures: made harmless, measured, wrapped.

Names in a file are hostile. `visible` shows control and bidirectional characters as codes, so that a
name cannot reorder or hide what stands beside it; `escaped` makes a text safe between and inside tags.
Widths are estimates for a sans-serif face of 12 px: a picture must come out the same everywhere, so no
font is ever asked.
"""

from __future__ import annotations

import math
import unicodedata

FONT_SIZE = 12.0
LINE_HEIGHT = 14.0

_NARROW = frozenset("iljtfrI.,:;'|!()[]{}- /")
_WIDE = frozenset("mwMWOQGD@%&")
_XML_FORBIDDEN = frozenset({"\ufffe", "\uffff"})


def visible(text: str) -> str:
    """`text` with control, format, private and unpaired characters as codes and white space as blanks."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def _shown(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character in _XML_FORBIDDEN or unicodedata.category(character) in ("Cc", "Cf", "Co", "Cs", "Cn"):
        return f"⟨U+{ord(character):04X}⟩"
    return character


def escaped(text: str) -> str:
    """`text` made visible, for the content of an element or of a quoted attribute."""
    shown = visible(text)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        shown = shown.replace(character, entity)
    return shown


def text_width(text: str) -> float:
    return sum(map(_character_width, text))


def _character_width(character: str) -> float:
    if character in _NARROW:
        return 3.9
    if character in _WIDE:
        return 10.0
    if character.isascii():
        return 8.0 if character.isupper() else 6.7
    if unicodedata.east_asian_width(character) in "WF":
        return 12.0
    return 0.0 if unicodedata.combining(character) else 7.5


def wrapped(text: str, width: float, max_lines: int = 8) -> list[str]:
    """Lines of at most `width`: broken at blanks, inside a word only when it alone is too wide."""
    lines: list[str] = []
    line = ""
    for word in visible(text).split():
        candidate = f"{line} {word}" if line else word
        if text_width(candidate) <= width:
            line = candidate
            continue
        if line:
            lines.append(line)
        *full, line = _split_word(word, width)
        lines.extend(full)
        if len(lines) > max_lines:
            break
    if line:
        lines.append(line)
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], lines[max_lines - 1].rstrip(" .") + "…"]
    return lines


def _split_word(word: str, width: float) -> list[str]:
    if text_width(word) <= width:
        return [word]
    parts: list[str] = []
    start = 0
    used = 0.0
    for index, character in enumerate(word):
        step = _character_width(character)
        if used + step > width and index > start:
            parts.append(word[start:index])
            start, used = index, 0.0
        used += step
    return [*parts, word[start:]]


def block_size(text: str, width: float, max_lines: int = 8) -> tuple[float, float]:
    """Width and height of the text once wrapped, in whole pixels: what is placed by them stays exact."""
    lines = wrapped(text, width, max_lines)
    widest = max((text_width(line) for line in lines), default=0.0)
    return float(2 * math.ceil(widest / 2)), LINE_HEIGHT * len(lines)
