"""Asks an exported classifier raw strings, in a process without Keras and without albert_keras.

    python examples/demo/ask.py demo/serve/classifier "Return the eigenvalues of a matrix."

Copy this file to any machine that has tensorflow and tensorflow-text; the SavedModel is all else
that it needs. Two things of those packages would bring Keras in unasked: `import tensorflow` looks
for it, and `import tensorflow_text` loads it for layers of its own. So both Kerases and this
library are made impossible to import, and of tensorflow-text only the op is loaded, as a server
does that links it.
"""

import argparse
import importlib.util
import sys
from pathlib import Path

BARRED = ("keras", "tf_keras", "albert_keras")
for name in BARRED:
    sys.modules[name] = None  # an import of it, by anyone, is an ImportError from here on

import tensorflow as tf  # noqa: E402


def load_sentencepiece_op():
    package = importlib.util.find_spec("tensorflow_text")
    if package is None:
        raise SystemExit("tensorflow-text is not installed: pip install tensorflow-text")
    folder = Path(package.submodule_search_locations[0])
    tf.load_op_library(str(folder / "python" / "ops" / "_sentencepiece_tokenizer.so"))


def newest_version(folder):
    """`folder` itself if it holds a SavedModel, else its highest numbered sub-folder that does."""
    found = [path.parent for path in Path(folder).glob("*/saved_model.pb")]
    versions = [path for path in found if path.name.isascii() and path.name.isdecimal()]
    if Path(folder, "saved_model.pb").exists() or not versions:
        return str(folder)
    return str(max(versions, key=lambda path: int(path.name)))


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("export", help="the folder of a SavedModel, or the one above its versions")
    parser.add_argument("text", nargs="+", help="the strings to classify")
    arguments = parser.parse_args(argv)

    load_sentencepiece_op()
    loaded = tf.saved_model.load(newest_version(arguments.export))  # a reference keeps it alive
    answer = loaded.signatures["serving_default"](text=tf.constant(arguments.text))
    for text, label, score in zip(
        arguments.text, answer["label"].numpy(), answer["score"].numpy(), strict=True
    ):
        print(f"{label.decode():16} {score:4.0%}  {text}")

    present = sorted(m for m, module in sys.modules.items() if m.split(".")[0] in BARRED and module)
    if present:
        raise SystemExit(f"This process was to be free of Keras, but has imported {present}.")
    print(f"(Modules of {', '.join(BARRED)} in this process: {len(present)}.)")


if __name__ == "__main__":
    main()
