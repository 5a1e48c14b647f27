"""albert-keras coherence: the documents of a corpus whose sentences stand in order."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out
from albert_keras.cli.data import Corpus, Field, Sentences
from albert_keras.cli.startup import start_tensorflow
from albert_keras.data.storage import is_remote


def coherence(
    model: Annotated[
        Path, typer.Argument(help="Run or model that was pretrained on sentence order.")
    ],
    corpus: Corpus,
    out: Annotated[
        Path, typer.Option(help="New folder for scores, kept documents, counts and the plot.")
    ],
    threshold: Annotated[
        float, typer.Option(min=0, max=1, help="The least coherence that is kept; a coin has 0.5.")
    ] = 0.5,
    check: Annotated[
        int,
        typer.Option(
            min=0, help="So many of the documents are scored with their sentences shuffled, too."
        ),
    ] = 500,
    sentences: Sentences = "line",
    field: Field = None,
    length: Annotated[
        int | None,
        typer.Option(min=8, help="Longest row in pieces. Default: the longest of pretraining."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Pairs that are computed at once.")] = 64,
    seed: Annotated[int, typer.Option(help="Draws the documents of --check and shuffles.")] = 0,
) -> None:
    """Score how coherent documents are, and keep those that are.

    Each two segments in a row are shown to a model of sentence order, as they stand and swapped;
    the coherence of a document is their mean. One without a pair is kept, and counted.
    """
    refuse_missing(model, "MODEL")
    folder = find_checkpoint(model)
    refuse_length(length, folder)
    refuse_out(out)
    if any(map(is_remote, corpus)):
        start_tensorflow()  # which reads them
    from albert_keras.data.corpus import read_documents
    from albert_keras.report.axes import import_matplotlib

    read_documents(corpus, sentences, field=field)  # checks the names; it reads when it is iterated
    import_matplotlib()
    start_tensorflow()
    from rich.progress import Progress

    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.tasks.coherence import CoherenceScorer
    from albert_keras.tasks.coherence_filter import filter_corpus

    head = load_head(folder)
    _refuse_other_models(model, head)
    pretrainer, tokenizer = load_albert(folder)
    if tokenizer is None:
        raise ValueError(f"MODEL must have its vocabulary. Received: {model} without one.")
    longest = length or head["max_length"]
    if longest is None:
        raise ValueError(f"--length must be given for {model}, which does not say its own.")
    scorer = CoherenceScorer(pretrainer, tokenizer, max_length=longest, batch_size=batch)
    with Progress(transient=True) as progress:
        task = progress.add_task("Documents", total=None)
        summary = filter_corpus(
            *(corpus, scorer, out),
            threshold=threshold,
            check=check,
            seed=seed,
            sentences=sentences,
            field=field,
            progress=lambda done, total: progress.update(task, completed=done, total=total),
        )
    _show(summary, out)


def _refuse_other_models(model, head):
    if head["kind"] != "pretrainer":
        received = f"a model of the kind {head['kind']}"
    elif head.get("pair_objective", "sop") != "sop":
        received = f"which was trained with --objective {head['pair_objective']}"
    else:
        return
    raise ValueError(
        "MODEL must be pretrained on sentence order (pretrain --objective sop). Received: "
        f"{model}, {received}."
    )


def _show(summary, out):
    counts, pairs, shuffled = (summary[name] for name in ("counts", "pairs", "shuffled"))
    typer.echo(f"{out}: " + ", ".join(f"{n:,} {name}" for name, n in counts.items()))
    for reason, number in summary["dropped"].items():
        typer.echo(f"dropped before: {number:,} {reason}")
    if pairs:
        typer.echo(
            f"pairs: the order as they stand is likelier in {pairs['likelier']:.1%}"
            f"{_interval(pairs['likelier_interval'])}; sop_accuracy {pairs['sop_accuracy']:.1%}, "
            f"calibration_error {pairs['calibration_error']:.3f}"
        )
    if "auc" in shuffled:
        typer.echo(
            f"{shuffled['documents']:,} documents against themselves shuffled: area under the "
            f"curve {shuffled['auc']:.3f}{_interval(shuffled['auc_interval'], '.3f')}, above its "
            f"own shuffle {shuffled['above_its_own_shuffle']:.1%}"
            f"{_interval(shuffled['above_its_own_shuffle_interval'])}"
        )
        interval = shuffled["auc_interval"]
        if interval is None or interval[0] <= 0.5:
            typer.echo(
                "note: that does not show that the model tells these documents from their "
                "shuffles, of which a coin has an area of 0.5: what was kept was chosen by nothing "
                "better. A model that was pretrained for longer, or more documents, can show it.",
                err=True,
            )


def _interval(bounds, form=".1%"):
    return "" if bounds is None else f" ({bounds[0]:{form}} to {bounds[1]:{form}})"
