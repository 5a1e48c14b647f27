"""write_warm_up: the requests that a server asks itself before it says that it is ready.

The first request of each shape is the slowest one, and a server that has asked itself has those
behind it. https://www.tensorflow.org/tfx/serving/saved_model_warmup
"""

from collections.abc import Sequence
from pathlib import Path

import tensorflow as tf

from .self_check import Question

# Where TensorFlow Serving looks, and how many records it reads.
PLACE = Path("assets.extra", "tf_serving_warmup_requests")
MOST = 1000


def write_warm_up(folder: str | Path, requests: Sequence[Question]) -> Path:
    """Writes requests into an export.

    A server does not load a model whose own requests fail, so they must have been answered before,
    by `check_export`.

    Args:
        folder: of the SavedModel, with `saved_model.pb` in it. It is to be renamed when it is
            whole, so the file is written in place.
        requests: 1 to 1000; of each the signature and the inputs count.

    Returns:
        The file, a TFRecord of `tensorflow.serving.PredictionLog`.

    Raises:
        ValueError: no requests, or more than a server reads.

    Example:

    >>> write_warm_up("served/mail/1", [Question("serving_default", {"text": texts}, {})])
    PosixPath('served/mail/1/assets.extra/tf_serving_warmup_requests')
    """
    # Here, because reading an export needs no protocol buffers of a server.
    from tensorflow_serving.apis import prediction_log_pb2

    if not 0 < len(requests) <= MOST:
        raise ValueError(f"`requests` must be 1 to {MOST}. Received: {len(requests)}.")
    path = Path(folder) / PLACE
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as records:
        for request in requests:
            log = prediction_log_pb2.PredictionLog()
            # The name of the model is the server's business: it asks the one that it loads.
            predict = log.predict_log.request
            predict.model_spec.signature_name = request.signature
            for name, array in request.inputs.items():
                dtype = tf.string if array.dtype == object else array.dtype
                tensor = tf.make_tensor_proto(array.tolist(), dtype, array.shape)
                predict.inputs[name].CopyFrom(tensor)
            records.write(log.SerializeToString())
    return path
