"""The URL of a database: what is read, and that nothing of it is repeated where it is refused."""

from __future__ import annotations

import traceback

import pytest

from bpm_engine import Engine
from bpm_engine.errors import InvalidInputError
from bpm_engine.store.address import read_address
from bpm_engine.store.config import StoreConfig
from bpm_engine.store.store import Store

WRONG = {
    "a connection string of libpq": (
        "host=db user=shop password=hunter2",
        "no database URL; write postgresql:",
    ),
    "no host": ("postgresql://shop:hunter2/orders", "no number where its port would be"),
    "a port that there is not": ("postgresql://shop:8675309/orders", "no number where its port would be"),
    "an @ in the password": ("postgresql://shop:hunter@2hunter2@db/orders", "written as %40"),
    "an @ and a slash": ("postgresql://shop:hun@ter/hunter2@db/orders", "written as %40"),
    "three slashes": ("postgresql:///shop:hunter2@db/orders", "written as %40"),
    "another database": ("hunter2://shop:hunter2@db/orders", "must begin with postgresql: or sqlite:"),
    "another driver": ("postgresql+asyncpg://shop:hunter2@db/orders", "with psycopg, not with 'asyncpg'"),
    "two slashes": ("sqlite://hunter2.db", "three slashes"),
    "a port of a file": ("sqlite://shop:hunter2/orders", "three slashes"),
    "no slashes": ("sqlite:hunter2", "no database URL"),
    "nothing": ("", "no database URL"),
}
SECRETS = ("hunter", "8675309")


@pytest.mark.parametrize("name", WRONG)
def test_a_url_that_cannot_be_read_is_not_repeated(name: str) -> None:
    url, told = WRONG[name]
    with pytest.raises(InvalidInputError, match=told) as refused:
        Engine(url)
    whole = "".join(traceback.format_exception(refused.value))
    assert not [secret for secret in SECRETS if secret in whole]


@pytest.mark.parametrize("name", [name for name in WRONG if WRONG[name][0].startswith("postgresql")])
def test_nor_is_the_one_past_a_pooler(name: str) -> None:
    url, told = WRONG[name]
    with pytest.raises(InvalidInputError, match=told) as refused:
        Store(StoreConfig(url="postgresql://db/orders", direct_url=url))
    assert not [secret for secret in SECRETS if secret in str(refused.value)]


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg", "postgres+psycopg"])
def test_every_spelling_means_the_same_driver(scheme: str) -> None:
    url = read_address(f"{scheme}://shop:hun%40ter2@db:6432/orders%402?sslmode=require")
    assert url.drivername == "postgresql+psycopg"
    assert (url.username, url.password, url.host, url.port) == ("shop", "hun@ter2", "db", 6432)
    assert (url.database, url.query["sslmode"]) == ("orders@2", "require")


@pytest.mark.parametrize(
    "url",
    ["postgresql://", "postgresql:///orders?host=/tmp", "postgresql://shop@corp@db/orders", "sqlite://"],
)
def test_what_is_unusual_and_right_is_read(url: str) -> None:
    assert read_address(url)
