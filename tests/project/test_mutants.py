"""The list of known bugs stays true to the code; `make mutants` runs it."""

from __future__ import annotations

import re

import pytest
from support.mutants import PROJECT, Mutant, mutants


@pytest.mark.parametrize("mutant", mutants(), ids=lambda mutant: mutant.name)
def test_a_known_bug_fits_the_code_and_names_tests_that_exist(mutant: Mutant) -> None:
    text = (PROJECT / mutant.file).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1
    compile(text.replace(mutant.old, mutant.new), mutant.file, "exec")
    for test in mutant.tests:
        path, _, name = test.partition("::")
        source = (PROJECT / path).read_text(encoding="utf-8")
        assert re.search(rf"def {re.escape(name.partition('[')[0])}\(" if name else "def test_", source), test


def test_there_are_at_least_twenty() -> None:
    assert len(mutants()) >= 20
