"""albert-keras vocab, records: from text files to what a training run reads."""

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_tokenizer
from albert_keras.cli.checks import refuse_missing, refuse_out
from albert_keras.cli.startup import start_tensorflow
from albert_keras.data.storage import is_remote, local_copy
from albert_keras.run_folder import MODEL
from albert_keras.text.tokenizer_folder import CONFIG_FILE, VOCABULARY_FILES

Corpus = Annotated[
    list[str],
    typer.Argument(
        help="Text files, folders of *.txt and *.jsonl, or - for standard input; also .gz, SQuAD's "
        "*.json, and gs:// paths. UTF-8; a blank line ends a document."
    ),
]
Field = Annotated[
    str | None,
    typer.Option(help="The files are JSON lines, with the text under this key. RACE: article."),
]
_VOCABULARY_NAMES = [
    name for file in (CONFIG_FILE, *VOCABULARY_FILES) for name in (file, f"{MODEL}/{file}")
]
Sentences = Annotated[
    str,
    typer.Option(help='"line": every line is a sentence; "split": a line is cut at . ! ?'),
]


def vocab(
    corpus: Corpus,
    out: Annotated[str, typer.Option(help="Folder to make for the vocabulary.")],
    size: Annotated[
        int, typer.Option(min=14, help="Number of pieces; the released models have 30,000.")
    ],
    lowercase: Annotated[bool, typer.Option(help="Lower-case the text.")] = True,
    keep_accents: Annotated[bool, typer.Option(help="Keep accents.")] = False,
    sentences: Sentences = "line",
    field: Field = None,
    max_sentences: Annotated[
        int, typer.Option(min=1, help="Train on at most so many.")
    ] = 1_000_000,
) -> None:
    """Train a SentencePiece vocabulary with ALBERT's layout."""
    from albert_keras.data.corpus import read_documents
    from albert_keras.new_folder import new_folder

    if is_remote(out):
        raise ValueError(f"--out of a vocabulary must be on this machine. Received: {out}.")
    refuse_out(out)
    if any(map(is_remote, corpus)):
        start_tensorflow()  # which reads them
    dropped: Counter = Counter()
    documents = read_documents(corpus, sentences, field=field, dropped=dropped)
    start_tensorflow()
    from albert_keras.text.sentencepiece_tokenizer import SentencepieceTokenizer
    from albert_keras.text.vocabulary import train_vocabulary

    lines = (line for document in documents for line in document)
    model = train_vocabulary(
        lines, size, lowercase=lowercase, keep_accents=keep_accents, max_sentences=max_sentences
    )
    tokenizer = SentencepieceTokenizer(model, lowercase, keep_accents)
    with new_folder(out) as partial:
        tokenizer.save(partial)
    typer.echo(f"{out}: {tokenizer.vocab_size:,} pieces, sha256 {tokenizer.sha256[:12]}")
    for reason, number in dropped.items():
        typer.echo(f"dropped: {number:,} {reason}")


def records(
    corpus: Corpus,
    vocab: Annotated[
        str, typer.Option(help="Folder of a vocabulary or of a model, or a SentencePiece .model.")
    ],
    out: Annotated[str, typer.Option(help="Folder to make for the records.")],
    length: Annotated[
        int,
        typer.Option(min=8, max=65_535, help="Longest sequence in pieces, special ones included."),
    ] = 512,
    short_fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Share of short sequences.")
    ] = 0.1,
    sentences: Sentences = "line",
    field: Field = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes. Default: by the size.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Files. Default: by the size.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on where the same command was stopped.")
    ] = False,
    runner: Annotated[
        str | None, typer.Option(help="Write them with Apache Beam, on this runner.")
    ] = None,
    beam_option: Annotated[
        list[str] | None, typer.Option(help="One of Beam's, as --beam-option=--region=R.")
    ] = None,
) -> None:
    """Cut documents into chunks of sentences, the records of pretraining."""
    from albert_keras.data.corpus import read_documents

    if beam_option and runner is None:
        raise ValueError("--beam-option is for a --runner. Received: none. Name one.")
    if runner is not None and (resume or workers):
        raise ValueError(
            "A --runner chooses its workers and tries again by itself. Received: --resume or "
            "--workers. Leave them out."
        )
    if any(map(is_remote, [*corpus, vocab, out])):
        start_tensorflow()  # which knows them
    if is_remote(out):
        from albert_keras.data.record_folder import refuse_existing_records

        refuse_existing_records(out)
    elif resume and Path(out).exists():
        raise ValueError(
            f"--resume goes on with records that were stopped. Received: {out}, which is there: "
            "`albert-keras inspect` says what it holds. For other records name another --out."
        )
    else:
        refuse_out(out)
    read_documents(corpus, sentences, field=field)  # checks the names; it reads when it is iterated
    if not is_remote(vocab):
        refuse_missing(vocab, "--vocab")
    start_tensorflow()
    from albert_keras.text.tokenizer import Tokenizer

    with local_copy(vocab, _VOCABULARY_NAMES) as here:
        tokenizer = Tokenizer.load(find_tokenizer(here))
    settings = {
        "length": length,
        "short_fraction": short_fraction,
        "sentences": sentences,
        "field": field,
        "shards": shards,
    }
    if runner is None:
        manifest = _written_here(corpus, tokenizer, out, **settings, workers=workers, resume=resume)
    else:
        from albert_keras.data.beam import write_records_with_beam

        options = [f"--runner={runner}", *(beam_option or [])]
        manifest = write_records_with_beam(corpus, tokenizer, out, **settings, options=options)
    counts = manifest["counts"]
    typer.echo(f"{out}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
    dropped = ", ".join(f"{n:,} {reason}" for reason, n in manifest["dropped"].items() if n)
    typer.echo(f"dropped: {dropped or 'nothing'}")
    if 4 * counts["pair_chunks"] < counts["chunks"]:
        advice = "raise --length, and let blank lines end documents only"
        if sentences == "line":
            advice = "if its lines are paragraphs, use --sentences split; else " + advice
        typer.echo(
            f"note: {counts['pair_chunks']:,} of {counts['chunks']:,} chunks have two sentences. "
            "The others train the masked language model, but not the order of sentences. See what "
            f"a line of the text is: {advice}.",
            err=True,
        )


def _written_here(corpus, tokenizer, out, **settings):
    from rich.progress import Progress

    from albert_keras.data.lines import STDIN
    from albert_keras.data.records import write_records

    with Progress(transient=True) as progress:
        task = progress.add_task("Records", total=None)
        try:
            return write_records(
                corpus,
                tokenizer,
                out,
                **settings,
                progress=lambda done, total: progress.update(task, completed=done, total=total),
            )
        except ValueError:
            raise
        except BaseException as error:
            if STDIN in corpus:  # of which nothing is kept
                raise
            stopped = error
    typer.echo(f"Stopped. To go on with {out}, repeat the command with --resume.", err=True)
    raise typer.Exit(130) if isinstance(stopped, KeyboardInterrupt) else stopped
