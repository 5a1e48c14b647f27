"""albert-keras trajectories: what each layer of a model does to its input."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.checkpoint_folder import find_checkpoint
from albert_keras.cli.checks import refuse_length, refuse_missing, refuse_out
from albert_keras.cli.startup import start_tensorflow


def trajectories(
    model: Annotated[
        list[Path], typer.Argument(help="Checkpoint folders or runs, of any kind and sharing.")
    ],
    text: Annotated[
        Path, typer.Option(help="Text file, also .gz, UTF-8; every line is a row for the models.")
    ],
    out: Annotated[Path, typer.Option(help="New folder for the numbers and the plot.")],
    length: Annotated[
        int | None,
        typer.Option(min=3, help="Longest row in pieces. Default: the shortest of the models'."),
    ] = None,
    batch: Annotated[int, typer.Option(min=1, help="Lines that are computed at once.")] = 32,
) -> None:
    """Measure distance and angle between the input and output of every layer, and plot them.

    The paper's Figure 1, several models in one picture: means over all pieces of a text, with
    their standard deviations.
    """
    for one in model:
        refuse_missing(one, "MODEL")
    refuse_missing(text, "--text")
    folders = [find_checkpoint(one) for one in model]
    if len(set(folders)) < len(folders):
        raise ValueError(f"MODEL must name different ones. Received: {', '.join(map(str, model))}.")
    for folder in folders:
        refuse_length(length, folder)
    refuse_out(out)
    from albert_keras.report.axes import import_matplotlib

    import_matplotlib()
    start_tensorflow()
    from albert_keras.analysis.layer_trajectories import layer_trajectory, write_trajectories
    from albert_keras.checkpoints import load_albert, load_head
    from albert_keras.data.lines import read_lines
    from albert_keras.model import config_of
    from albert_keras.new_folder import new_folder

    loaded = {str(one): load_albert(folder) for one, folder in zip(model, folders, strict=True)}
    for name, (_, tokenizer) in loaded.items():
        if tokenizer is None:
            raise ValueError(f"MODEL must have its vocabulary. Received: {name} without one.")
    longest = length or min(
        load_head(folder)["max_length"] or config_of(one).max_position_embeddings
        for folder, (one, _) in zip(folders, loaded.values(), strict=True)
    )
    found = {}
    for name, (one, tokenizer) in loaded.items():
        texts = (line for line in read_lines(text) if line and not line.isspace())
        found[name] = layer_trajectory(one, tokenizer, texts, max_length=longest, batch_size=batch)
    with new_folder(out) as partial:
        write_trajectories(found, partial)
    for name, one in found.items():
        typer.echo(
            f"{name}: {one['num_hidden_layers']} layers, sharing {one['sharing']}, "
            f"{one['pieces']:,} pieces of {one['texts']:,} lines ({one['cut_texts']:,} cut at "
            f"{longest} pieces)"
        )
        for layer in one["layers"]:
            typer.echo(
                f"  layer {layer['layer']}: distance {layer['l2_distance']:.3f} ± "
                f"{layer['l2_distance_std']:.3f}, cosine {layer['cosine_similarity']:.4f}, "
                f"angle {layer['angle']:.2f} ± {layer['angle_std']:.2f} degrees"
            )
    typer.echo(f"{out}: trajectories.json, .csv, .png")
