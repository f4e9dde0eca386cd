"""What happens in a simulated run: the worker's own training, and the product's own merging.

``Clients`` trains a shard as ``worker_image`` does, same seeds included; ``Server`` admits and
merges as ``aggregate`` does, a batch of one at a time; ``Pipeline`` is both, for the simulator. Not
here: time, loss, and anything that is stored. Invariant: with one place and one server the
parameters are those of the same job on the local stack, bit for bit (``against_the_stack``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch
from numpy.typing import NDArray
from pydantic import TypeAdapter

from benchmarks.reproduce.clothes_task import Perceptron
from benchmarks.reproduce.study import SEED, Study
from spotgrad.merging.admission import admit, inspect, remember
from spotgrad.merging.kernel import follow
from spotgrad.merging.occasion import Contribution, Occasion
from spotgrad.merging.rule import decide, first_objects
from spotgrad.planning.sharding import TRAIN, VALIDATION, assign
from spotgrad.protocol.job import JobSpec
from spotgrad.protocol.recipe import EMA, SERVER, Closing, base, client
from spotgrad.protocol.result import Base, Role
from worker_image.batches import Batch
from worker_image.seeds import seed_everything, subtask_seed
from worker_image.state import arrays_of, load, roles_of
from worker_image.training import Training
from worker_image.watch import Watch

Tensors = Mapping[str, NDArray[Any]]
_COMMIT = "0" * 16  # nobody looks a simulated version up


@dataclass(frozen=True)
class Images:
    """The data set of a study, cut into shards as ``dataset push`` cuts it."""

    shards: Sequence[Batch]
    test: Batch

    @staticmethod
    def of(study: Study) -> "Images":
        """Load and cut."""
        splits = study.load()
        train, test = (_batch(splits[split]) for split in (TRAIN, VALIDATION))
        rows = assign(len(train[0]), study.shards, SEED)
        return Images([tuple(column[each] for column in train) for each in rows], test)

    @property
    def whole(self) -> "Images":
        """Return the same data set in one piece, for a machine that trains alone."""
        columns = zip(*self.shards, strict=True)
        return Images([tuple(torch.cat(list(column)) for column in columns)], self.test)


def _batch(columns: Mapping[str, NDArray[Any]]) -> Batch:
    return torch.from_numpy(columns["x"].copy()), torch.from_numpy(columns["y"].copy())


@dataclass(frozen=True)
class Version:
    """A server copy that subtasks may begin from."""

    number: int
    results: int
    tensors: Tensors


@dataclass(frozen=True)
class Result:
    """What a client brings back."""

    epoch: int
    start: Version
    samples: int
    tensors: Tensors


@dataclass
class Spent:
    """Seconds of this machine, and for how many calls."""

    seconds: float = 0.0
    calls: int = 0

    def __enter__(self) -> "Spent":
        self.seconds -= perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += perf_counter()
        self.calls += 1

    @property
    def mean(self) -> float:
        """Return the seconds of one call."""
        return self.seconds / max(1, self.calls)


_SIZES = TypeAdapter(dict[str, int])
"""A perceptron's arguments, as the job says them."""


class Clients:
    """Any number of clients: none keeps anything between two subtasks."""

    def __init__(self, spec: JobSpec, images: Images) -> None:
        self._spec, self._images = spec, images
        seed_everything(spec.seed)
        self._task = Perceptron(**_SIZES.validate_python(spec.args))
        self.first = _copied(arrays_of(self._task))
        self.roles: Mapping[str, Role] = roles_of(self._task)
        self.training, self.evaluation = Spent(), Spent()

    def train(self, epoch: int, shard: int, start: Version) -> Result:
        """Train a shard from a version."""
        data, spec = self._images.shards[shard], self._spec
        with self.training:
            load(self._task, start.tensors)
            seed = subtask_seed(spec.seed, spec.name, epoch, shard, start.number)
            origin = Base(version=start.number, commit=_COMMIT, results_merged=start.results)
            generator = seed_everything(seed)
            watch = Watch(lambda: None)
            Training(self._task, data, spec.local, origin, generator=generator, watch=watch).run()
            return Result(epoch, start, len(data[0]), _copied(arrays_of(self._task)))

    def accuracy(self, tensors: Tensors, most: int | None = None) -> float:
        """Return the share of test images, or of the first ``most``, that are recognised."""
        images, labels = (column[:most] for column in self._images.test)
        with self.evaluation, torch.no_grad():
            load(self._task, tensors)
            self._task.eval()
            right = self._task(images).argmax(1) == labels
            return float(right.double().mean())


class Server:
    """The parameter server: the gate, the rule, the kernel."""

    def __init__(self, spec: JobSpec, first: Tensors, roles: Mapping[str, Role]) -> None:
        self._spec, self._roles = spec, roles
        self.objects: dict[str, Tensors] = dict.fromkeys(first_objects(spec.merge), first)
        self.version = Version(0, 0, first)
        self.merged = 0
        self.staleness: list[int] = []
        self._tally: Mapping[str, float] = {}
        self._norms: tuple[float, ...] = ()
        self.merging = Spent()

    @property
    def published(self) -> Tensors:
        """Return the copy that is evaluated and exported."""
        return self.objects.get(EMA, self.objects[SERVER])

    def admit(self, result: Result) -> bool:
        """Return whether the gate lets the result in, as the job file asks."""
        server, start = self.objects[SERVER], result.start.tensors
        found = inspect(server, start, result.tensors, self._roles, result.samples)
        if found.update_norm is None:
            return False
        if admit(found.update_norm, self._norms, self._spec.admission.norm) is not None:
            return False
        self._norms = remember(self._norms, found.update_norm)
        return True

    def merge(self, result: Result, *, ends_epoch: bool, ends_job: bool) -> None:
        """Merge one result; a synchronous round closes with its epoch."""
        closes: Closing | None = "round" if ends_epoch and self._spec.merge.in_rounds else None
        occasion = Occasion(
            self._spec.in_flight, frozenset(self.objects), self._tally, ends_job, closes
        )
        stale = self.merged - result.start.results
        behind = self.version.number - result.start.number
        batch = [Contribution(result.epoch, stale, result.samples, behind)]
        recipe = decide(self._spec, occasion, batch)
        inputs = self.objects | {client(0): result.tensors, base(0): result.start.tensors}
        made = follow(recipe, inputs, self._roles)
        kept = {name: one for name, one in self.objects.items() if name not in recipe.drops}
        self.objects, self._tally = kept | made, recipe.tally
        self.merged += 1
        self.staleness.append(stale)
        if SERVER in made:
            self.version = Version(self.version.number + 1, self.merged, made[SERVER])


@dataclass
class Pipeline:
    """Clients and server, as the simulator asks for them."""

    spec: JobSpec
    images: Images
    clients: Clients = field(init=False)
    server: Server = field(init=False)

    def __post_init__(self) -> None:
        self.clients = Clients(self.spec, self.images)
        self.server = Server(self.spec, self.clients.first, self.clients.roles)
        self._epoch_start = (0, self.server.version)

    def begin(self, epoch: int) -> Version:
        """Return the latest version, or the one that stood when the epoch began."""
        if not self.spec.merge.starts_at_epoch:
            return self.server.version
        if self._epoch_start[0] != epoch:
            self._epoch_start = (epoch, self.server.version)
        return self._epoch_start[1]

    def train(self, epoch: int, shard: int, start: Version) -> Result:
        """Train a shard."""
        return self.clients.train(epoch, shard, start)

    def admit(self, result: Result) -> bool:
        """Ask the gate."""
        with self.server.merging:
            return self.server.admit(result)

    def merge(self, epoch: int, result: Result, *, ends_epoch: bool, ends_job: bool) -> None:
        """Merge; the gate's time and this one's are one call."""
        del epoch
        with self.server.merging:
            self.server.merge(result, ends_epoch=ends_epoch, ends_job=ends_job)


def _copied(arrays: Tensors) -> dict[str, NDArray[Any]]:
    return {name: array.copy() for name, array in arrays.items()}
