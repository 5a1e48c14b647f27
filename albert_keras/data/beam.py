"""The records of `write_records`, written by Apache Beam on many machines.

Reading, packing, sorting and the manifest are the functions of the local writer, so the shards and
the manifest have the same bytes whatever runs them. Only the grouping by shard is Beam's.

    albert-keras records books/ --vocab vocabulary --out records --runner DirectRunner

runs on this machine to try it out: it keeps all records in memory, and `write_records` is faster.
On Google Cloud Dataflow (not run by us; it needs `pip install 'apache-beam[gcp]'` as well):

    albert-keras records gs://bucket/text --vocab gs://bucket/vocabulary \\
        --out gs://bucket/records --runner DataflowRunner \\
        --beam-option=--project=PROJECT --beam-option=--region=europe-west1 \\
        --beam-option=--temp_location=gs://bucket/tmp \\
        --beam-option=--sdk_container_image=IMAGE

IMAGE has this library beside Beam, since TensorFlow is too large to be sent along:

    FROM apache/beam_python3.11_sdk:2.77.0
    RUN pip install 'albert-keras[beam]'

A file is read by one worker and its blocks are packed by all, so a corpus of several files is read
in parallel. A shard, 30 MB by default, is sorted in a worker's memory. Workers must see the same
paths: give gs:// ones, or those of a disk that all have.
"""

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import tensorflow as tf

from albert_keras.data.chunks import ChunkFormat
from albert_keras.data.corpus import are_packed, read_documents, text_files, total_bytes
from albert_keras.data.lines import STDIN
from albert_keras.data.manifest import new_manifest, read_manifest, write_manifest
from albert_keras.data.packer import blocks_of, pack_block
from albert_keras.data.record_folder import begin_remote, refuse_existing_records
from albert_keras.data.records import check_arguments, refuse_empty
from albert_keras.data.shards import MAX_SHARDS, shard_name, shards_for, write_shard
from albert_keras.data.storage import is_remote
from albert_keras.new_folder import new_folder
from albert_keras.text.tokenizer import Tokenizer

try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError as error:
    raise ImportError(
        f"Records are written on a runner by Apache Beam, which cannot be imported ({error}). "
        "Install it: pip install 'albert-keras[beam]'."
    ) from error


def write_records_with_beam(
    inputs: Sequence[str | Path],
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    length: int = 512,
    short_fraction: float = 0.1,
    sentences: Literal["line", "split"] = "line",
    field: str | None = None,
    shards: int | None = None,
    options: Sequence[str] = ("--runner=DirectRunner",),
) -> dict:
    """Runs the pipeline to its end and returns the manifest; see `write_records`.

    Args:
        inputs, tokenizer, folder, length, short_fraction, sentences, field, shards: as
            `write_records` takes them, but for standard input.
        options: of the pipeline, as Beam's command line takes them.

    Raises:
        ValueError: as `write_records`, when names and settings are bad. What is found in the text
            fails the pipeline with the runner's own error, which quotes ours.

    Example:
        >>> write_records_with_beam(
        ...     ["gs://bucket/text"], tokenizer, "gs://bucket/records",
        ...     options=["--runner=DataflowRunner", "--project=mine", "--region=europe-west1"],
        ... )
    """
    layout = ChunkFormat(length, short_fraction, 2 if tokenizer.vocab_size <= 65_535 else 4)
    check_arguments(layout, None, shards)
    read_documents(inputs, sentences, field=field)  # checks the names
    files = text_files(inputs)
    if STDIN in files:
        raise ValueError("A runner reads files. Received: standard input.")
    spools = shards or (MAX_SHARDS if are_packed(files) else shards_for(total_bytes(files)))

    def finished(counts):
        """Of all text: raises for a bad corpus, else gives the number of shards."""
        refuse_empty(Counter(counts), inputs)
        return shards or min(spools, shards_for(counts["text_bytes"]))

    def shard_of(packed, shards):
        spool, records = packed
        return spool * shards // spools, records

    def written(shard_and_parts, target, shards):
        shard, parts = shard_and_parts
        path = tf.io.gfile.join(target, shard_name(shard, shards))
        return shard, write_shard(path, b"".join(parts), layout)

    vocabulary = {"sha256": tokenizer.sha256, "size": tokenizer.vocab_size}

    def finish(_, target, counts, shards):
        entries = [entry for _, entry in sorted(shards, key=lambda shard: shard[0])]
        manifest = new_manifest(
            layout,
            sentences,
            vocabulary,
            counts,
            [entry for entry, _ in entries],
            max(max_sentences for _, max_sentences in entries),
        )
        write_manifest(manifest, target)

    with (
        _target(folder) as target,
        beam.Pipeline(options=PipelineOptions(list(options))) as pipeline,
    ):
        read = (
            pipeline
            | "Files" >> beam.Create([str(file) for file in files])
            | "Spread files" >> beam.Reshuffle()
            | "Read" >> beam.ParDo(_Read(sentences, field)).with_outputs("counts", main="blocks")
        )
        packed = (
            read.blocks
            | "Spread blocks" >> beam.Reshuffle()
            | "Pack"
            >> beam.ParDo(_Pack(pickle.dumps(tokenizer), layout, spools)).with_outputs(
                "counts", main="records"
            )
        )
        counts = (
            (read.counts, packed.counts)
            | "All counts" >> beam.Flatten()
            | "Add" >> beam.CombineGlobally(_added)
        )
        shard_count = counts | "Count shards" >> beam.Map(finished)
        records = packed.records | "To shards" >> beam.Map(
            shard_of, shards=beam.pvalue.AsSingleton(shard_count)
        )
        # A shard without a record is a file too.
        none = shard_count | "All shards" >> beam.FlatMap(
            lambda shards: [(shard, b"") for shard in range(shards)]
        )
        entries = (
            (records, none)
            | "All records" >> beam.Flatten()
            | "Group" >> beam.GroupByKey()
            | "Sort" >> beam.Map(written, target, shards=beam.pvalue.AsSingleton(shard_count))
        )
        _ = (
            pipeline
            | "Once" >> beam.Create([None])
            | "Manifest"
            >> beam.Map(
                finish,
                target,
                counts=beam.pvalue.AsSingleton(counts),
                shards=beam.pvalue.AsList(entries),
            )
        )
    return read_manifest(str(folder))


class _Read(beam.DoFn):
    """A file -> blocks of documents, and what was dropped."""

    def __init__(self, sentences, field):
        self._sentences, self._field = sentences, field

    def process(self, file):
        dropped: Counter = Counter()
        yield from blocks_of(
            read_documents([file], self._sentences, field=self._field, dropped=dropped)
        )
        yield beam.pvalue.TaggedOutput("counts", dict(dropped))


class _Pack(beam.DoFn):
    """A block of documents -> (spool, records), and counts."""

    def __init__(self, pickled_tokenizer, layout, spools):
        self._pickled_tokenizer, self._layout, self._spools = pickled_tokenizer, layout, spools

    def setup(self):
        self._tokenizer = pickle.loads(self._pickled_tokenizer)

    def process(self, block):
        packed = pack_block(block, self._tokenizer, self._layout, self._spools)
        yield from packed.spools.items()
        yield beam.pvalue.TaggedOutput("counts", dict(packed.counts))


def _added(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    return dict(sum(map(Counter, counts), Counter()))


@contextmanager
def _target(folder: str | Path) -> Iterator[str]:
    """Where the workers write: beside a folder of this machine, or into a remote one."""
    refuse_existing_records(folder)
    if is_remote(folder):
        begin_remote(folder)
        yield folder
        return
    with new_folder(folder) as partial:
        yield str(partial)
