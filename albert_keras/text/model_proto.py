"""The fields of a SentencePiece model file that this package reads or rewrites.

The sentencepiece package has generated classes for this file format, but those of 0.2.3 refuse to
load under a protobuf older than the one they were generated with, which TensorFlow 2.20 allows.
A schema of a dozen fields, made at run time, works under every protobuf; what it does not name
passes through unchanged.
"""

from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

# ModelProto.SentencePiece.Type
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# TrainerSpec.ModelType
UNIGRAM = 1
# How SentencePiece writes the space before a word.
MARKER = "\u2581"

DecodeError = message.DecodeError

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "albert_keras.sentencepiece"
# message: {field: (number, type, default)}; a type in quotes is a message of this table, and a
# default of None means that there is none.
_SCHEMA = {
    "SentencePiece": {
        "piece": (1, _Field.TYPE_STRING, None),
        "score": (2, _Field.TYPE_FLOAT, None),
        "type": (3, _Field.TYPE_INT32, "1"),
    },
    "TrainerSpec": {
        "model_type": (3, _Field.TYPE_INT32, "1"),
        "treat_whitespace_as_suffix": (24, _Field.TYPE_BOOL, "false"),
    },
    "NormalizerSpec": {
        "name": (1, _Field.TYPE_STRING, None),
        "precompiled_charsmap": (2, _Field.TYPE_BYTES, None),
        "add_dummy_prefix": (3, _Field.TYPE_BOOL, "true"),
        "remove_extra_whitespaces": (4, _Field.TYPE_BOOL, "true"),
        "escape_whitespaces": (5, _Field.TYPE_BOOL, "true"),
        "normalization_rule_tsv": (6, _Field.TYPE_STRING, None),
    },
    "ModelProto": {
        "pieces": (1, "SentencePiece", None),
        "trainer_spec": (2, "TrainerSpec", None),
        "normalizer_spec": (3, "NormalizerSpec", None),
        "self_test_data": (4, _Field.TYPE_BYTES, None),
    },
}


def _model_class():
    file = descriptor_pb2.FileDescriptorProto(
        name="albert_keras/sentencepiece_model.proto", package=_PACKAGE, syntax="proto2"
    )
    for name, fields in _SCHEMA.items():
        message_type = file.message_type.add(name=name)
        for field_name, (number, kind, default) in fields.items():
            field = message_type.field.add(name=field_name, number=number)
            field.label = _Field.LABEL_REPEATED if field_name == "pieces" else _Field.LABEL_OPTIONAL
            if isinstance(kind, str):
                field.type, field.type_name = _Field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field.type = kind
            if default is not None:
                field.default_value = default
    # A pool of its own: in the shared one this could clash with sentencepiece's own schema.
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.ModelProto"))


ModelProto = _model_class()
