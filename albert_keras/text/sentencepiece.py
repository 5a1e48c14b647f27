"""SentencepieceModel: tensorflow-text's SentencePiece ops on one vocabulary, by their kernels."""

import functools
import hashlib
import importlib.util
from pathlib import Path

import tensorflow as tf


def text_package() -> Path:
    """Folder of tensorflow-text, which need not be imported for its kernels."""
    package = importlib.util.find_spec("tensorflow_text")
    if package is None:
        raise ImportError(
            "albert_keras needs tensorflow-text of TensorFlow's own version: "
            f"pip install 'tensorflow-text=={'.'.join(tf.__version__.split('.')[:2])}.*'"
        )
    return Path(package.submodule_search_locations[0])


@functools.cache
def sentencepiece_ops():
    """The kernels, without the Python package around them, which would import Keras."""
    return tf.load_op_library(
        str(text_package() / "python" / "ops" / "_sentencepiece_tokenizer.so")
    )


class SentencepieceModel(tf.saved_model.experimental.TrackableResource):
    """The ops that tokenise with one SentencePiece model; saved with the graphs that use it.

    The resource has a name, the model's hash. tensorflow-text's own SentencepieceTokenizer leaves
    it to the kernel that made it, and anything that clears TensorFlow's kernels, such as
    `tf.random.set_seed`, then breaks the tokenizer ("Resource ... does not exist", seen with
    2.21). A named one stays for as long as the process.

    Args:
        model_bytes: a SentencePiece model.

    Raises:
        tf.errors.OpError: the kernel cannot load the model.
    """

    def __init__(self, model_bytes: bytes):
        super().__init__(device="CPU")
        self._model_bytes = model_bytes
        self.resource_handle  # noqa: B018  makes the resource, so that a bad model fails here

    def _create_resource(self):
        return sentencepiece_ops().sentencepiece_op(
            model=self._model_bytes,
            shared_name=f"albert_keras_{hashlib.sha256(self._model_bytes).hexdigest()}",
        )

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """String `(B,)` to ids, int32 ragged `(B, None)`."""
        ids, splits = sentencepiece_ops().sentencepiece_tokenize_op(
            self.resource_handle, texts, **_PLAIN, out_type=tf.int32, Tsplits=tf.int64
        )
        return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)

    def tokenize_with_offsets(
        self, texts: tf.Tensor
    ) -> tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]:
        """String `(B,)` to ids, first bytes and ends, ragged `(B, None)`, int32, int64, int64."""
        ids, splits, starts, ends = sentencepiece_ops().sentencepiece_tokenize_with_offsets_op(
            self.resource_handle, texts, **_PLAIN, out_type=tf.int32, Tsplits=tf.int64
        )
        ids = tf.RaggedTensor.from_row_splits(ids, splits, validate=False)
        return ids, ids.with_values(starts), ids.with_values(ends)

    def detokenize(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Ids, int32 ragged `(B, None)`, to strings `(B,)`."""
        return sentencepiece_ops().sentencepiece_detokenize_op(
            self.resource_handle,
            ids.values,
            ids.row_splits,
            add_bos=False,
            add_eos=False,
            reverse=False,
        )


# No sampling, nothing added.
_PLAIN = {
    "nbest_size": 0,
    "alpha": 1.0,
    "add_bos": False,
    "add_eos": False,
    "reverse": False,
    "return_nbest": False,
}
