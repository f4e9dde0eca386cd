"""``dataset push``: a file on this machine becomes a data set in the bucket."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from spotgrad.cli.output import Output, counted, size_text
from spotgrad.cli.source import load_source, named_after, splits_of
from spotgrad.ports import ObjectStore
from spotgrad.steps.push_dataset import Layout, Pushed, ShardPushed, push_dataset

__all__ = ["DEFAULT_SHARDS", "Options", "push", "push_source"]

DEFAULT_SHARDS: Final = 16


@dataclass(frozen=True)
class Options:
    """How a source is cut; None where its own wish, or the default, holds."""

    shards: int | None = None
    validation: float | None = None
    seed: int = 0
    shuffle: bool = True


def push(dataset: str, path: Path, options: Options, store: ObjectStore, output: Output) -> None:
    """Push and report.

    Raises:
        InvalidJob: the source holds no data set; the bucket is as it was.
    """
    pushed = push_source(dataset, path, options, store, output)
    for split, content in pushed.manifest.splits.items():
        size = size_text(sum(shard.size_bytes for shard in content.shards))
        shards = counted(len(content.shards), "shard")
        output.say(f"{split}: {counted(content.samples, 'sample')} in {shards}, {size}")
    if pushed.changed:
        uploaded = counted(pushed.uploaded_shards, "shard")
        output.say(f"pushed {dataset}: {uploaded} uploaded", "green")
    else:
        output.say(f"{dataset} is in the bucket already, with this very content: nothing to do")
    output.document(
        {
            "dataset": dataset,
            "changed": pushed.changed,
            "uploaded_shards": pushed.uploaded_shards,
            "columns": pushed.manifest.columns,
            "splits": {
                split: {"samples": content.samples, "shards": len(content.shards)}
                for split, content in pushed.manifest.splits.items()
            },
        }
    )


def push_source(
    dataset: str, path: Path, options: Options, store: ObjectStore, output: Output
) -> Pushed:
    """Read a source, cut it and push it, with a progress bar on a terminal.

    Raises:
        InvalidJob: the source holds no data set; the bucket is as it was.
    """
    source = load_source(path)
    with named_after(path):
        splits = splits_of(source, validation=options.validation, seed=options.seed)
    layout = Layout(
        train_shards=options.shards or source.shards or DEFAULT_SHARDS,
        seed=options.seed if options.shuffle else None,
    )
    with named_after(path), output.progress() as progress:
        bar = progress.add_task(f"pushing {dataset}", total=None)

        def tell(step: ShardPushed) -> None:
            progress.update(bar, completed=step.done, total=step.total)

        return push_dataset(store, dataset, splits, layout, tell)
