"""ALBERT (A Lite BERT) as TensorFlow 2 / Keras: pretrain, fine-tune, serve raw strings."""

__version__ = "0.1.0"
