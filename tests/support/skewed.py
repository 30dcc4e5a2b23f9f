"""Clocks that are wrong: of processes, by a library that is loaded before the C library, and of a database,
by a function that is found before the server's own.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import psycopg
from support.postgres.databases import libpq_url

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long skew(void) {
    static int known;
    static long seconds;
    if (!known) { const char *text = getenv("BPM_TEST_SKEW"); seconds = text ? atol(text) : 0; known = 1; }
    return seconds;
}
int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (!result && clock == CLOCK_REALTIME) now->tv_sec += skew();
    return result;
}
int gettimeofday(struct timeval *now, void *zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (!result) now->tv_sec += skew();
    return result;
}
time_t time(time_t *now) {
    struct timespec told;
    clock_gettime(CLOCK_REALTIME, &told);
    if (now) *now = told.tv_sec;
    return told.tv_sec;
}
"""
FAKED = """
CREATE SCHEMA faked;
CREATE TABLE faked.step (at timestamptz NOT NULL, seconds float NOT NULL);
INSERT INTO faked.step VALUES (pg_catalog.clock_timestamp(), 0);
CREATE FUNCTION faked.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT pg_catalog.clock_timestamp() + make_interval(secs => seconds)
     FROM faked.step ORDER BY at DESC LIMIT 1';
CREATE TABLE faked.fired (timer_id uuid NOT NULL, due_at timestamptz NOT NULL, latest timestamptz NOT NULL);
"""
# An engine asks the server for the time once a second: what the clock showed within that counts.
WATCH = """
CREATE FUNCTION faked.watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO faked.fired
    SELECT OLD.id, OLD.due_at, pg_catalog.clock_timestamp() + make_interval(secs => max(seconds))
    FROM (SELECT seconds, lead(at) OVER (ORDER BY at) AS until FROM faked.step) AS steps
    WHERE until IS NULL OR until > pg_catalog.clock_timestamp() - interval '1.2 s';
    RETURN NULL;
END $$;
CREATE TRIGGER watch AFTER UPDATE OF status ON public.timer FOR EACH ROW
    WHEN (OLD.status = 'Scheduled' AND NEW.status = 'Fired') EXECUTE FUNCTION faked.watch();
"""


def skewing(folder: Path) -> Path | None:
    """The library that adds BPM_TEST_SKEW seconds to the clock of a process; None: there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, library = folder / "skew.c", folder / "skew.so"
    source.write_text(SHIM, encoding="utf-8")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class SteppingDatabase:
    """A PostgreSQL database whose clock can be set, and that notes what it showed when a timer fired."""

    def __init__(self, url: str) -> None:
        """Before the first connection of an engine: each looks for the clock as it finds it then."""
        self._connection = psycopg.connect(libpq_url(url), autocommit=True)
        self._connection.execute(FAKED)
        self._connection.execute(WATCH)
        name = self._connection.info.dbname
        self._connection.execute(f'ALTER DATABASE "{name}" SET search_path = faked, public, pg_catalog')

    def step(self, seconds: float) -> None:
        self._connection.execute(
            "INSERT INTO faked.step VALUES (pg_catalog.clock_timestamp(), %s)", (seconds,)
        )

    def fired(self) -> int:
        return self._number("SELECT count(*) FROM faked.fired")

    def fired_twice(self) -> int:
        return self._number("SELECT count(*) - count(DISTINCT timer_id) FROM faked.fired")

    def early(self) -> int:
        return self._number("SELECT count(*) FROM faked.fired WHERE latest < due_at")

    def _number(self, query: str) -> int:
        row = self._connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._connection.close()
