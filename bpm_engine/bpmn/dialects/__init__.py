"""Engine settings written in the words of other engines, read into one `Settings`.

Each dialect is a table (`bpm.py`, `camunda.py`, `zeebe.py`, `flowable.py`, `spiff.py`): one row per attribute
or element, saying where it may stand, which setting it becomes and what differs. The same rows drive
the reading (`reading.py`), the warnings (`survey.py`) and the reference pages.
"""
