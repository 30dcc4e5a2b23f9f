"""What happens when: deploy, hire workers, let orders in, kill a worker, wait until all is done, look back.

`Demo.run` does it and tells a `Screen` at every turn; what it tells is read from the database.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from bpm_engine import DefinitionError, Engine, EngineError, Finding, HistoryEntry, InstanceView
from bpm_engine.api.pictures import draw_path
from bpm_engine.demo import figures
from bpm_engine.demo.app import LEASE, metadata
from bpm_engine.demo.figures import Ledger, Progress
from bpm_engine.demo.orders import kept_open, orders
from bpm_engine.demo.robots import PROCESS, Carrier, Crowd, Customers, Managers
from bpm_engine.demo.samples import WEB_ORDER, sample_files
from bpm_engine.demo.workers import Crew, Worker

TURN = 0.1  # seconds between two turns of the robots
LOOK = 0.25  # seconds between two looks at the whole history
PER_TURN = 8  # orders placed at once
LONGEST = 120.0  # seconds: longer than this something is wrong with the machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    database: str
    tenant: str
    orders: int
    workers: int
    seed: int
    picture: Path
    log: Path


@dataclass(slots=True)
class Scene:
    """All that a screen may show at one moment."""

    settings: Settings
    begun: float = field(default_factory=time.monotonic)
    progress: Progress = field(default_factory=lambda: Progress(counts={}))
    workers: list[Worker] = field(default_factory=list)
    happened: list[tuple[float, str]] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun

    def note(self, text: str) -> None:
        self.happened.append((self.seconds, text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is told when all is done."""

    deployed: list[str]
    refused: list[str]
    progress: Progress
    ledger: Ledger
    seconds: float
    killed: Worker | None
    taken_over: int  # steps that the killed worker had begun and others finished
    instance: InstanceView
    timeline: list[HistoryEntry]
    picture: Path
    waiting_task: str | None
    incident: str | None
    failed_order: str | None  # the instance of the incident
    findings: list[Finding]

    @property
    def sound(self) -> bool:
        return not self.findings and self.ledger.exact


class Screen(Protocol):
    def deployed(self, names: list[str], refused: list[str]) -> None: ...

    def turn(self, scene: Scene) -> None: ...


class Demo:
    def __init__(self, engine: Engine, settings: Settings, screen: Screen) -> None:
        self._engine = engine
        self._settings = settings
        self._screen = screen
        self._scene = Scene(settings)
        self._killed: Worker | None = None
        self._killed_at = 0.0
        self._replaced = False

    def run(self) -> Ending:
        deployed, refused = self._deploy()
        self._screen.deployed(deployed, refused)
        with Crew(self._settings.database, self._settings.log) as crew:
            self._scene = Scene(self._settings)
            seconds = self._play(crew)
        return self._ending(deployed, refused, seconds)

    def _deploy(self) -> tuple[list[str], list[str]]:
        names, refused = [], []
        for file in (WEB_ORDER, *sample_files()):
            try:
                deployment = self._engine.deploy(file, actor="demo")
            except DefinitionError:  # uses something that is not run yet; `bpm validate` names it
                refused.append(file.name)
            else:
                names += [definition.key for definition in deployment.definitions]
        for schedule in self._engine.schedules.find():
            if schedule.status == "Active":  # the samples are there to look at, not to start by themselves
                self._engine.schedules.pause(schedule.id, actor="demo")
        with self._engine.begin() as connection:
            metadata.create_all(connection)
        return names, refused

    def _play(self, crew: Crew) -> float:
        for _ in range(self._settings.workers):
            self._hire(crew)
        with ThreadPoolExecutor(PER_TURN) as threads, self._engine.running(only=()):
            self._turns(crew, Crowd(threads))
        return self._scene.seconds

    def _turns(self, crew: Crew, crowd: Crowd) -> None:
        engine, settings = self._engine, self._settings
        wanted = [*kept_open(), *orders(settings.orders, settings.seed)]
        customers = Customers(engine, crowd, wanted, settings.seed)
        robots: list[Callable[[], int]] = [
            lambda: customers.place(PER_TURN),
            Managers(engine, crowd, settings.seed).decide,
            Carrier(engine, crowd, settings.seed).collect,
        ]
        looked = 0.0
        while not self._is_over(customers):
            begun = time.monotonic()
            for robot in robots:
                robot()
            if begun >= looked + LOOK:
                looked = begun
                self._scene.progress = figures.look(self._engine)
            self._upset(crew)
            self._screen.turn(self._scene)
            time.sleep(max(0.0, TURN - (time.monotonic() - begun)))
        self._screen.turn(self._scene)

    def _is_over(self, customers: Customers) -> bool:
        scene = self._scene
        if scene.seconds > LONGEST:
            raise EngineError(
                f"the demo is not done after {LONGEST:.0f} s; the workers may say why in {self._settings.log}"
            )
        repaired = scene.progress.number("check_order", "incident") > 0
        return not customers.left and scene.progress.ended >= self._settings.orders and repaired

    def _hire(self, crew: Crew) -> None:
        worker = crew.hire()
        self._scene.workers = crew.workers
        self._scene.note(f"{worker.name} is at work (pid {worker.pid})")

    def _upset(self, crew: Crew) -> None:
        """Kill a worker when a third is done; hire another once its work was taken over."""
        scene = self._scene
        for worker in crew.crashed():
            raise EngineError(f"{worker.name} ended by itself; see {self._settings.log}")
        if self._killed is None and (victim := self._victim(crew.workers)) is not None:
            self._killed = victim
            crew.kill(victim)
            scene.note(f"{victim.name} (pid {victim.pid}) is killed with SIGKILL")
            self._killed_at = scene.seconds
        taken_over = scene.progress.total("recovered")
        missed = taken_over > 0 or scene.seconds > self._killed_at + 3 * LEASE
        if self._killed and not self._replaced and missed:
            self._replaced = True
            scene.note("its leases are over: the others take over what it had begun")
            self._hire(crew)

    def _victim(self, workers: Sequence[Worker]) -> Worker | None:
        """In the middle of it all with full hands, later with anything in them, at the end in any case."""
        share = self._scene.progress.ended / self._settings.orders
        if share < 1 / 3:
            return None
        held = {worker.name: figures.held_by(self._engine, worker.name) for worker in workers}
        busiest = max(workers, key=lambda worker: held[worker.name])
        enough = 3 if share < 1 / 2 else 1 if share < 1 else 0
        return busiest if held[busiest.name] >= enough else None

    def _ending(self, deployed: list[str], refused: list[str], seconds: float) -> Ending:
        engine = self._engine
        stories = figures.read_stories(engine)
        lost = self._killed.name if self._killed else None
        instance = max(stories, key=lambda each: each.worth(lost)).instance
        version = instance.definition_version
        picture = draw_path(engine.definitions.xml(PROCESS, version), engine.history.steps(instance.id))
        self._settings.picture.write_text(picture, encoding="utf-8")
        tasks = engine.tasks.find(candidate_group="managers", limit=1)
        incidents = engine.incidents.find(definition=PROCESS, limit=1)
        return Ending(
            deployed=deployed,
            refused=refused,
            progress=figures.look(engine),
            ledger=figures.read_ledger(engine, self._settings.tenant),
            seconds=seconds,
            killed=self._killed,
            taken_over=sum(each.taken_over(lost) for each in stories),
            instance=instance,
            timeline=list(engine.history.find(instance.id)),
            picture=self._settings.picture,
            waiting_task=next((task.id for task in tasks), None),
            incident=next((incident.id for incident in incidents), None),
            failed_order=next((incident.instance_id for incident in incidents), None),
            findings=engine.doctor(),
        )
