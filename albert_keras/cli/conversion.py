"""albert-keras convert: a checkpoint of any format that is read, in one that is written."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint, find_tokenizer
from albert_keras.cli.checks import refuse_missing, refuse_out
from albert_keras.cli.fields import Set, fields_in
from albert_keras.cli.startup import start_tensorflow
from albert_keras.run_folder import MODEL

# The outputs of two right implementations differ by less; of two different models, by far more.
TOLERANCE = 1e-3


class To(StrEnum):
    """The formats that are written."""

    HUGGINGFACE = "huggingface"
    GOOGLE = "google"


def convert(
    source: Annotated[Path, typer.Argument(help="Checkpoint folder, or a TF checkpoint's prefix.")],
    dest: Annotated[Path, typer.Argument(help="Folder to make.")],
    to: Annotated[To, typer.Option(help="Layout of DEST.")] = To.HUGGINGFACE,
    vocab: Annotated[
        Path | None, typer.Option(help="Vocabulary. Default: the one in SOURCE.")
    ] = None,
    lowercase: Annotated[bool | None, typer.Option(help="The vocabulary is lower-cased.")] = None,
    keep_accents: Annotated[bool | None, typer.Option(help="It keeps accents.")] = None,
    head: Annotated[
        str | None,
        typer.Option(help='Of one logit in Google\'s: "classifier" or "multiple_choice".'),
    ] = None,
    allow_missing: Annotated[
        list[str] | None,
        typer.Option(help="Tensors that SOURCE may lack, as 'cls/*'. May be repeated."),
    ] = None,
    allow_unused: Annotated[
        list[str] | None, typer.Option(help="Tensors to leave out. May be repeated.")
    ] = None,
    set_: Set = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write in spite of a probe or a report.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option(help="Reference outputs (.npz) to compare with.")
    ] = None,
) -> None:
    """Read a checkpoint of any known format, check it, and write it as another."""
    if not Path(f"{source}.index").exists():  # a TensorFlow checkpoint's prefix is no file
        refuse_missing(source, "SOURCE")
    for path, flag in ((vocab, "--vocab"), (report, "--report")):
        if path is not None:
            refuse_missing(path, flag)
    refuse_out(dest)
    settings = fields_in(set_)
    start_tensorflow()
    from albert_keras.checkpoints import save_albert
    from albert_keras.checkpoints.filling import unmatched
    from albert_keras.checkpoints.folder import OURS
    from albert_keras.checkpoints.formats import HUGGING_FACE, import_checkpoint
    from albert_keras.checkpoints.tf1 import write_tf1
    from albert_keras.model import config_of
    from albert_keras.reshaping import with_settings

    if source.is_dir() and not (source / "config.json").exists() and (source / MODEL).is_dir():
        source = find_checkpoint(source)  # of a run
    read = import_checkpoint(
        source,
        vocab=vocab and find_tokenizer(vocab),
        lowercase=lowercase,
        keep_accents=keep_accents,
        head=head,
        allow_missing=allow_missing or (),
        allow_unused=allow_unused or (),
    )
    model = with_settings(read.model, **settings) if settings else read.model
    typer.echo(f"{source}: {read.format}, {model.name}, {model.count_params():,} parameters")
    for name, shape in read.fit.missing.items():
        typer.echo(f"newly drawn: {name} {shape}")
    for name, shape in read.fit.unused.items():
        typer.echo(f"left out: {name} {shape}")
    if read.fit.state:
        typer.echo(f"left out: {read.fit.state} tensors of the training's state")
    theirs = read.format == HUGGING_FACE and not (source / OURS).exists()
    if theirs and config_of(read.model).hidden_act == "gelu_erf" and "hidden_act" not in settings:
        typer.echo(
            "note: the config says the exact GELU. Google trained its v1 models, which Hugging "
            "Face publishes with this config, with the tanh form: --set hidden_act=gelu_tanh."
        )
    doubts = [*_probe(model, read), *_compare(model, report)]
    if doubts and not force:
        raise ValueError(" ".join(doubts) + " To write it as it is all the same, add --force.")
    if read.tokenizer is None:
        typer.echo(
            "note: no vocabulary. A spiece.model or vocab.txt is read, tokenizer.json is not; "
            "--vocab names one."
        )
    elif read.tokenizer.vocab_size < config_of(model).vocab_size:
        typer.echo(
            f"note: the vocabulary has {read.tokenizer.vocab_size:,} pieces, the model rows for "
            f"{config_of(model).vocab_size:,}."
        )
    for flag, patterns, names in (
        ("--allow-missing", allow_missing, read.fit.missing),
        ("--allow-unused", allow_unused, read.fit.unused),
    ):
        for pattern in patterns or ():
            if unmatched(names, [pattern]) == [*names]:
                typer.echo(f"note: {flag} {pattern} was not needed: it matched nothing.")
    if to == To.GOOGLE:
        if read.labels or read.max_length:
            typer.echo(
                f"left out, Google's layout has no place for it: labels {read.labels}, longest row "
                f"of training {read.max_length}"
            )
        write_tf1(model, dest, tokenizer=read.tokenizer)
    else:
        save_albert(
            model, dest, tokenizer=read.tokenizer, labels=read.labels, max_length=read.max_length
        )
    typer.echo(f"{dest}: written as {to}")


def _probe(model, read):
    """Prints what the weights say about heads and activation; gives what contradicts the config."""
    if "mlm_logits" not in model.output:
        return []  # of other models nothing can be told
    if read.tokenizer is None:
        typer.echo("probe: not possible without a vocabulary")
        return []
    from albert_keras.checkpoints.probe import probe

    candidates = probe(model, read.tokenizer)
    if not candidates:
        typer.echo(
            "probe: the model predicts the words of a paragraph no better than the mean of its own "
            "predictions. Is the vocabulary its own? Of heads and activation nothing can be told."
        )
    configured, better = {}, {}
    for one in candidates:
        name = one.setting
        line = f"probe: {name} {one.value}: {one.loss:.3f} nats a masked piece"
        if name not in configured:
            configured[name] = one.value
            typer.echo(f"{line} (configured)")
            continue
        word = "better" if one.gain > 0 else "worse"
        typer.echo(f"{line}, {abs(one.gain):.4f} {word} (standard error {one.error:.4f})")
        if one.contradicts and one.gain > better.get(name, (None, 0.0))[1]:
            better[name] = one.value, one.gain
    return [
        f"The weights must fit the config. Received: {name} {configured[name]}, and {value} "
        f"predicts masked words {gain:.2f} nats better; add --set {name}={value}."
        for name, (value, gain) in better.items()
    ]


def _compare(model, report):
    """Prints the differences from the reference; gives the first that is too large."""
    if report is None:
        return []
    from albert_keras.checkpoints.parity import compare, read_reference

    doubts = []
    for output, largest, scale in compare(model, read_reference(report)):
        typer.echo(f"{output}: largest difference {largest:.2e}, largest value {scale:.3g}")
        if not largest <= TOLERANCE * max(scale, 1):  # NaN as well
            doubts.append(
                f"Outputs must equal the reference's. Received: {report}, from which {output} "
                f"differs by {largest:.2e}."
            )
    return doubts[:1]
