"""albert-keras serve: a development server for exported models."""

from pathlib import Path
from typing import Annotated

import typer

from albert_keras.cli.checks import refuse_out
from albert_keras.cli.startup import start_tensorflow
from albert_keras.served_folder import versions_in


def serve(
    folder: Annotated[list[Path], typer.Argument(help="Folders of `albert-keras export`.")],
    host: Annotated[
        str, typer.Option(help="Address to listen at. Whoever reaches another one can ask.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of HTTP. 0: any.")] = 8501,
    grpc_port: Annotated[int, typer.Option(min=0, max=65535, help="Of gRPC. 0: any.")] = 8500,
    max_rows: Annotated[int, typer.Option(min=1, help="Rows of a request.")] = 256,
    max_bytes: Annotated[int, typer.Option(min=1, help="Bytes of a request.")] = 4 * 2**20,
    queue: Annotated[
        int, typer.Option(min=0, help="Requests that may wait. One more is refused at once.")
    ] = 32,
    timeout: Annotated[float, typer.Option(help="Seconds that an answer may take.")] = 30.0,
) -> None:
    """Serve exported models for development; in production use TensorFlow Serving.

    It speaks TensorFlow Serving's REST and gRPC, and has a page at / to try a model. The folder's
    name is the model's; all its versions are served, the highest by default. Ctrl-C stops it.
    """
    if not timeout > 0:
        raise ValueError(f"--timeout must be above 0. Received: {timeout}.")
    for path in folder:
        versions_in(path)
    start_tensorflow()
    from albert_keras.export import server

    limits = server.Limits(max_rows, max_bytes, queue, timeout)
    server.serve(folder, limits, host, port, grpc_port)


def serving_config(
    served: Annotated[
        list[str],
        typer.Argument(help="NAME=FOLDER, a model's name and the folder of its versions."),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the files.")],
) -> None:
    """Write the files that start one TensorFlow Serving in Docker for exports, and a test of it."""
    pairs = [one.partition("=") for one in served]
    if not all(name and equals and folder for name, equals, folder in pairs):
        raise ValueError(f"A model is given as NAME=FOLDER. Received: {' '.join(served)}.")
    folders = {name: Path(folder) for name, _, folder in pairs}
    if len(folders) < len(pairs):
        raise ValueError(f"Models must have different names. Received: {' '.join(served)}.")
    for folder in folders.values():
        versions_in(folder)
    refuse_out(out)
    start_tensorflow()
    from albert_keras.export.server_config import write_server_config

    write_server_config(folders, out)
    typer.echo(f"{out}: configuration of {len(folders)} models; bash {out}/smoke_test.sh tries it")
