"""albert-keras vocab, records: from text files to what a training run reads."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_tokenizer
from albert_keras.cli.checks import refuse_missing, refuse_out
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
    size: Annotated[
        int, typer.Option(min=14, help="Number of pieces; the released models have 30,000.")
    ],
    lowercase: Annotated[bool, typer.Option(help="Lower-case the text.")] = True,
    keep_accents: Annotated[bool, typer.Option(help="Keep accents.")] = False,
    sentences: Sentences = "line",
    max_sentences: Annotated[
        int, typer.Option(min=1, help="Train on at most so many.")
    ] = 1_000_000,
) -> None:
    """Train a SentencePiece vocabulary with ALBERT's layout."""
    from albert_keras.data.corpus import read_documents
    from albert_keras.new_folder import new_folder

    refuse_out(out)
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
    vocab: Annotated[
        Path, typer.Option(help="Folder of a vocabulary or of a model, or a SentencePiece .model.")
    ],
    out: Annotated[Path, typer.Option(help="Folder to make for the records.")],
    length: Annotated[
        int,
        typer.Option(min=8, max=65_535, help="Longest sequence in pieces, special ones included."),
    ] = 512,
    short_fraction: Annotated[
        float, typer.Option(min=0, max=1, help="Share of short sequences.")
    ] = 0.1,
    sentences: Sentences = "line",
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes. Default: by the size.")
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Files. Default: by the size.")
    ] = None,
) -> None:
    """Cut documents into chunks of sentences, the records of pretraining."""
    from rich.progress import Progress

    from albert_keras.data.corpus import read_documents

    refuse_out(out)
    read_documents(corpus, sentences)  # checks the names; it reads when it is iterated
    refuse_missing(vocab, "--vocab")
    start_tensorflow()
    from albert_keras.data.records import write_records
    from albert_keras.text.tokenizer import Tokenizer

    with Progress(transient=True) as progress:
        task = progress.add_task("Records", total=None)
        manifest = write_records(
            corpus,
            Tokenizer.load(find_tokenizer(vocab)),
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
