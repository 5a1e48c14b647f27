"""albert-keras vocab, records: from text files to what a training run reads."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_missing
from albert_keras.cli.startup import start_tensorflow

Corpus = Annotated[
    list[str],
    typer.Argument(
        help="Text files, folders of *.txt, or - for standard input. UTF-8; a blank line ends a "
        "document."
    ),
]
Sentences = Annotated[
    str,
    typer.Option(help='"line": every line is a sentence; "split": a line is cut at . ! ?'),
]


def vocab(
    corpus: Corpus,
    out: Annotated[Path, typer.Option(help="Folder to make for the vocabulary.")],
    size: Annotated[int, typer.Option(help="Number of pieces; the released models have 30,000.")],
    lowercase: Annotated[bool, typer.Option(help="Lower-case the text.")] = True,
    keep_accents: Annotated[bool, typer.Option(help="Keep accents.")] = False,
    sentences: Sentences = "line",
    max_sentences: Annotated[int, typer.Option(help="Train on at most so many.")] = 1_000_000,
) -> None:
    """Train a SentencePiece vocabulary with ALBERT's layout."""
    from albert_keras.data.corpus import read_documents
    from albert_keras.new_folder import new_folder, refuse_existing

    refuse_existing(out)
    documents = read_documents(corpus, sentences)
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


def records(
    corpus: Corpus,
    vocab: Annotated[Path, typer.Option(help="Vocabulary folder, or a SentencePiece .model.")],
    out: Annotated[Path, typer.Option(help="Folder to make for the records.")],
    length: Annotated[
        int, typer.Option(help="Longest sequence in pieces, special ones included.")
    ] = 512,
    short_fraction: Annotated[float, typer.Option(help="Share of short sequences.")] = 0.1,
    sentences: Sentences = "line",
    workers: Annotated[int | None, typer.Option(help="Processes. Default: by the size.")] = None,
    shards: Annotated[int | None, typer.Option(help="Files. Default: by the size.")] = None,
) -> None:
    """Cut documents into chunks of sentences, the records of pretraining."""
    from rich.progress import Progress

    from albert_keras.data.corpus import read_documents
    from albert_keras.new_folder import refuse_existing

    refuse_existing(out)
    read_documents(corpus, sentences)  # checks the names; it reads when it is iterated
    refuse_missing(vocab, "--vocab")
    start_tensorflow()
    from albert_keras.data.records import write_records
    from albert_keras.text.tokenizer import Tokenizer

    with Progress(transient=True) as progress:
        task = progress.add_task("Records", total=None)
        manifest = write_records(
            corpus,
            Tokenizer.load(vocab),
            out,
            length=length,
            short_fraction=short_fraction,
            sentences=sentences,
            workers=workers,
            shards=shards,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    counts = {**manifest["counts"], **manifest["dropped"]}
    typer.echo(f"{out}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
