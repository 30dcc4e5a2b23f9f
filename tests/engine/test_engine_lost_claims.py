"""A transactional handler whose claim is lost while it runs: what it wrote never happened."""

from __future__ import annotations

import sqlalchemy as sa
from support.fault_models import one_task

from bpm_engine import Engine
from bpm_engine.config import Config
from bpm_engine.handlers import Work


def test_what_it_wrote_is_rolled_back_when_the_instance_was_cancelled_meanwhile(emptied_url: str) -> None:
    with Engine(emptied_url, config=Config(auto_migrate=False)) as engine:
        engine.deploy(one_task("order", "pay"))
        with engine.begin() as connection:
            connection.execute(sa.text("CREATE TABLE payment (order_id text)"))
        try:

            @engine.handler("pay", transactional=True)
            def pay(work: Work, connection: sa.Connection) -> None:
                connection.execute(sa.text("INSERT INTO payment VALUES (:id)"), {"id": work.instance_id})
                engine.instances.cancel(work.instance_id)

            instance = engine.start("order")
            engine.run_until_idle()
            assert engine.instances.get(instance.id).status == "Cancelled"
            with engine.begin() as connection:
                assert connection.execute(sa.text("SELECT count(*) FROM payment")).scalar_one() == 0
        finally:
            with engine.begin() as connection:
                connection.execute(sa.text("DROP TABLE payment"))
