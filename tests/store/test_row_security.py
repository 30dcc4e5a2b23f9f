"""Row-level security by tenant: the option of the migration, and the traps on the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace as with_fields

import psycopg
import pytest
import sqlalchemy as sa
from psycopg import sql
from support import rows as sample
from support.databases import SCHEMA
from support.postgres.databases import Databases, libpq_url
from support.samples import HUMAN

from bpm_engine import Config, Engine, InvalidInputError, NotFoundError
from bpm_engine.store import changes as changing
from bpm_engine.store import migrate, schema, search, work
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.search import InstanceFilter
from bpm_engine.store.store import Store, connect

ROLE = "bpm_test_owner"


@pytest.fixture
def secured(postgresql_databases: Databases) -> Iterator[Store]:
    """A database owned by an ordinary role (a superuser would pass every policy), one instance of each
    tenant.
    """
    with postgresql_databases.clone(SCHEMA) as url:
        database = connect(StoreConfig(url=url))
        migrate.upgrade(database, row_level_security=True)
        database.close()
        with psycopg.connect(libpq_url(url), autocommit=True) as admin:
            if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,)).fetchone():
                admin.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(ROLE)))
            for table in [*schema.metadata.tables, migrate.VERSION_TABLE]:
                admin.execute(f"ALTER TABLE {table} OWNER TO {ROLE}")
        own = sa.make_url(url).set(username=ROLE).render_as_string(hide_password=False)
        with Store(StoreConfig(url=own, row_level_security=True, pool_size=1, pool_overflow=0)) as store:
            for tenant in ("acme", "other"):
                with store.transaction(tenant=tenant) as tx:
                    changing.apply(tx, sample.started(sample.instance(tenant_id=tenant)))
            yield store


def visible(store: Store, tenant: str | None) -> set[str]:
    """Without any filter of ours: what the database itself lets through."""
    with store.reading(tenant=tenant) as tx:
        return set(tx.execute(sa.select(schema.process_instance.c.tenant_id)).scalars())


def test_a_tenant_sees_its_own_rows_even_if_a_query_forgets_to_ask(secured: Store) -> None:
    assert visible(secured, "acme") == {"acme"}
    assert visible(secured, "other") == {"other"}
    assert visible(secured, "nobody") == set()
    assert visible(secured, "") == set()


def test_services_work_for_all_tenants(secured: Store) -> None:
    assert visible(secured, None) == {"acme", "other"}
    with secured.transaction() as tx:
        claimed = work.claim_tokens(tx, owner="w", limit=9, lease=sample.NOW - sample.NOW)
    assert {t.tenant_id for t in claimed} == {"acme", "other"}


def test_no_name_of_a_tenant_opens_the_rows_of_all(secured: Store) -> None:
    with pytest.raises(InvalidInputError, match="no tenant"):
        visible(secured, "*")
    with (
        secured.transaction(tenant="acme") as outer,
        pytest.raises(InvalidInputError, match="no tenant"),
        secured.joined(outer.connection, tenant="*"),
    ):
        pytest.fail("it was let in")
    with Engine(secured.config.url, config=Config(row_level_security=True)) as engine:
        for name in ("* ", "**", "%", "'*'", "acme' OR '*' = '*"):
            with engine.tenant(name).begin() as connection:
                assert connection.execute(sa.select(schema.process_instance.c.id)).all() == []


def test_the_tenant_of_a_former_transaction_does_not_stay_in_the_pool(secured: Store) -> None:
    """One connection only; after a transaction the setting is '' and not NULL."""
    visible(secured, "acme")
    with secured.database.engine.connect() as connection:
        assert connection.execute(sa.select(schema.process_instance.c.id)).all() == []
        assert connection.exec_driver_sql("SELECT current_setting('bpm.tenant', true)").scalar() == ""


def test_a_session_that_never_named_a_tenant_sees_nothing(secured: Store) -> None:
    with psycopg.connect(libpq_url(secured.config.url)) as fresh:
        assert fresh.execute("SELECT count(*) FROM process_instance").fetchone() == (0,)


def test_a_row_of_another_tenant_cannot_be_written(secured: Store) -> None:
    foreign = sample.started(sample.instance(tenant_id="other"))
    with (
        pytest.raises(sa.exc.ProgrammingError, match="row-level security"),
        secured.transaction(tenant="acme") as tx,
    ):
        changing.apply(tx, foreign)


def test_a_view_of_the_owner_does_not_leak(secured: Store) -> None:
    """FORCE holds for the owner of the tables, so that a plain view of the owner's shows one tenant as
    well.
    """
    with secured.transaction() as tx:
        tx.connection.exec_driver_sql("CREATE TEMP VIEW leak AS SELECT tenant_id FROM process_instance")
    with secured.reading(tenant="acme") as tx:
        assert set(tx.connection.exec_driver_sql("SELECT tenant_id FROM leak").scalars()) == {"acme"}


def test_every_table_has_the_policy_and_it_is_forced(secured: Store) -> None:
    query = "SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity"
    with secured.reading() as tx:
        assert set(tx.connection.exec_driver_sql(query).scalars()) == set(schema.metadata.tables)


def test_policies_that_would_not_hold_are_refused(postgresql_databases: Databases, secured: Store) -> None:
    """A superuser passes every policy; without policies the setting protects nothing."""
    superuser = sa.make_url(secured.config.url).set(username="postgres")
    mighty = with_fields(secured.config, url=superuser.render_as_string(hide_password=False))
    with Store(mighty) as store, pytest.raises(InvalidInputError, match="'postgres' passes every policy"):
        store.open()
    migrate.upgrade(secured.database, row_level_security=False)
    with Store(secured.config) as store, pytest.raises(InvalidInputError, match="have no policies"):
        store.open()


def test_no_unique_key_tells_what_another_tenant_has(secured: Store) -> None:
    """Policies do not hide that a key is taken: each has the tenant in it, or ids that nobody can guess."""
    query = """
        SELECT i.indexrelid::regclass::text, array_agg(a.attname::text), bool_or(t.typname = 'uuid')
        FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
        JOIN pg_type t ON t.oid = a.atttypid JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indisunique AND c.relrowsecurity GROUP BY 1"""
    with secured.reading() as tx:
        found = tx.connection.exec_driver_sql(query).all()
    assert len(found) > len(schema.metadata.tables)
    assert [row[0] for row in found if "tenant_id" not in row[1] and not row[2]] == []


def test_the_engine_works_as_before_under_the_policy(secured: Store) -> None:
    with secured.reading(tenant="acme") as tx:
        assert len(search.find_instances(tx, "acme", InstanceFilter()).items) == 1
        assert search.find_instances(tx, "other", InstanceFilter()).items == []


def test_it_can_be_switched_off_again_and_stays_on_without_being_asked(secured: Store) -> None:
    migrate.upgrade(secured.database)
    assert visible(secured, "acme") == {"acme"}
    migrate.upgrade(secured.database, row_level_security=False)
    with Store(with_fields(secured.config, row_level_security=False)) as open_store:
        assert visible(open_store, None) == {"acme", "other"}


def test_a_part_of_a_foreign_transaction_names_its_tenant_and_leaves_no_trace(secured: Store) -> None:
    setting = "SELECT current_setting('bpm.tenant', true)"
    with secured.database.engine.connect() as connection:
        assert connection.execute(sa.select(schema.process_instance.c.id)).all() == []
        for tenant in ("acme", "other"):
            with secured.joined(connection, tenant=tenant) as tx:
                assert set(tx.execute(sa.select(schema.process_instance.c.tenant_id)).scalars()) == {tenant}
            assert connection.exec_driver_sql(setting).scalar() == ""
        with pytest.raises(ZeroDivisionError), secured.joined(connection, tenant="acme"):
            raise ZeroDivisionError
        assert connection.execute(sa.select(schema.process_instance.c.id)).all() == []


def test_callers_share_their_transaction_under_the_policy(secured: Store) -> None:
    with Engine(secured.config.url, config=Config(row_level_security=True)) as engine:
        acme, other = engine.tenant("acme"), engine.tenant("other")
        acme.deploy(HUMAN)
        own = sa.create_engine(secured.database.engine.url)
        with own.begin() as connection:  # the application's, which knows nothing of tenants
            instance = acme.start("p", {"amount": 1}, connection=connection)
            (task,) = acme.tasks.reserve("ann", 1, groups=["clerks"], connection=connection)
            with pytest.raises(NotFoundError):
                other.tasks.complete(task.id, {"approved": True}, connection=connection)
            acme.tasks.complete(task.id, {"approved": True}, connection=connection)
            assert connection.execute(sa.select(schema.process_instance.c.id)).all() == []
        own.dispose()
        assert acme.instances.get(instance.id).status == "Completed"
