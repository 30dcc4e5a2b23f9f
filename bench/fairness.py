"""How long one token of a quiet tenant waits behind the ready tokens of a loud one.

    python bench/fairness.py [--ready 100000] [--tenants 1] [--handler 0] [--patience 60]

One worker with all its services. The loud tenants' tokens are older and of the same priority. The quiet one
starts an instance while the worker is busy; its way through one handler is timed, several times. Reliability
9.3 asks for less than two seconds.
"""

from __future__ import annotations

import argparse
import time

import psycopg
from _server import server_url  # also makes `support` importable
from support.postgres.databases import libpq_url
from support.samples import WORK

from bpm_engine import Config, Engine

TIMES = 5
CLONES = {
    "process_instance": ("id", "root_instance_id"),
    "scope": ("id", "instance_id", "root_instance_id"),
    "token": ("id", "instance_id", "root_instance_id", "scope_id"),
}
MADE = "('01900000-0000-7000-8{kind}-' || lpad(to_hex(n), 12, '0'))::uuid"


def fill(url: str, engine: Engine, tenants: int, ready: int) -> None:
    """Copies of one instance that rests before its work, as many as wanted."""
    for tenant in range(tenants):
        loud = engine.tenant(f"loud{tenant}")
        loud.deploy(WORK)
        model = loud.start("p")
        first, last = tenant * ready // tenants + 1, (tenant + 1) * ready // tenants
        with psycopg.connect(libpq_url(url), autocommit=True) as connection:
            for table, ids in CLONES.items():
                _clone(connection, table, ids, model.id, first, last)
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def _clone(
    connection: psycopg.Connection, table: str, ids: tuple[str, ...], model: str, first: int, last: int
) -> None:
    query = (
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'"
    )
    columns = [f'"{row[0]}"' for row in connection.execute(query, [table])]
    made = {
        f'"{name}"': MADE.format(kind="001" if (table, name) == ("token", "id") else "000") for name in ids
    }
    values = ", ".join(made.get(name, f"m.{name}") for name in columns)
    owner = "id" if table == "process_instance" else "instance_id"
    connection.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {values} FROM {table} m,"
        f" generate_series(%s::int, %s::int) n WHERE m.{owner} = %s",
        [first, last, model],
    )


def wait(quiet: Engine, patience: float) -> float | None:
    """Seconds from the start until the end of one instance; None: not in that time."""
    begin = time.perf_counter()
    instance = quiet.start("p")
    while time.perf_counter() - begin < patience:
        if quiet.instances.get(instance.id).status == "Completed":
            return time.perf_counter() - begin
        time.sleep(0.01)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ready", type=int, default=100_000, help="tokens of the loud tenants")
    parser.add_argument("--tenants", type=int, default=1, help="loud tenants")
    parser.add_argument("--handler", type=float, default=0.0, help="seconds that a handler takes")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds until giving up")
    options = parser.parse_args()
    with server_url() as url:
        engine = Engine(url, config=Config(auto_migrate=True))
        engine.handler("work")(lambda work: time.sleep(options.handler) if options.handler else None)
        asking = Engine(
            url, config=Config(auto_migrate=False)
        )  # as in another process: nothing is handed over
        quiet = asking.tenant("quiet")
        fill(url, engine, options.tenants, options.ready)
        quiet.deploy(WORK)
        with engine.running():
            time.sleep(1.0)
            for _ in range(TIMES):
                waited = wait(quiet, options.patience)
                left = left_of_loud(url)
                told = "given up" if waited is None else f"{waited:6.2f} s"
                print(f"  quiet tenant {told}   ready of the loud ones afterwards {left:9,}")
                if waited is None or not left:
                    break
        asking.close()
        engine.close()


def left_of_loud(url: str) -> int:
    with psycopg.connect(libpq_url(url), autocommit=True) as connection:
        query = "SELECT count(*) FROM token WHERE ready_topic IS NOT NULL AND tenant_id LIKE 'loud%'"
        return int(connection.execute(query).fetchone()[0])  # type: ignore[index]


if __name__ == "__main__":
    main()
