"""CLoader: an export, run by TensorFlow's C library without TensorFlow's Python.

What TensorFlow Serving does with a SavedModel is C++ below this library: loading it, its own
restore and initialisation ops, and sessions. Python's TensorFlow registers kernels and repairs what
a server would not, so nothing here imports it: only the standard library and NumPy, and the
library's file by its path. https://www.tensorflow.org/install/lang_c
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")  # in this order

# tensorflow/core/framework/types.proto
_DTYPES = {1: np.float32, 2: np.float64, 3: np.int32, 9: np.int64, 10: np.bool_}
_STRING = 7
_STRING_SIZE = 24  # of a TF_TString, tensorflow/c/tf_tstring.h

_pointer, _text, _status = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p


class _Buffer(ctypes.Structure):
    _fields_ = [("data", _pointer), ("length", ctypes.c_size_t), ("deallocator", _pointer)]


class _Output(ctypes.Structure):
    _fields_ = [("operation", _pointer), ("index", ctypes.c_int)]


# What each function takes and gives, of tensorflow/c/c_api.h.
_FUNCTIONS = {
    "TF_NewStatus": ([], _status),
    "TF_DeleteStatus": ([_status], None),
    "TF_GetCode": ([_status], ctypes.c_int),
    "TF_Message": ([_status], _text),
    "TF_LoadLibrary": ([_text, _status], _pointer),
    "TF_GetAllOpList": ([], ctypes.POINTER(_Buffer)),
    "TF_NewBuffer": ([], ctypes.POINTER(_Buffer)),
    "TF_DeleteBuffer": ([ctypes.POINTER(_Buffer)], None),
    "TF_NewGraph": ([], _pointer),
    "TF_NewSessionOptions": ([], _pointer),
    "TF_LoadSessionFromSavedModel": (
        [
            *(_pointer, _pointer, _text, ctypes.POINTER(_text), ctypes.c_int),
            *(_pointer, ctypes.POINTER(_Buffer), _status),
        ],
        _pointer,
    ),
    "TF_GraphOperationByName": ([_pointer, _text], _pointer),
    "TF_OperationOutputType": ([_Output], ctypes.c_int),
    "TF_SessionRun": (
        [
            *(_pointer, _pointer, ctypes.POINTER(_Output), ctypes.POINTER(_pointer), ctypes.c_int),
            *(ctypes.POINTER(_Output), ctypes.POINTER(_pointer), ctypes.c_int),
            *(_pointer, ctypes.c_int, _pointer, _status),
        ],
        None,
    ),
    "TF_AllocateTensor": (
        [ctypes.c_int, ctypes.POINTER(ctypes.c_int64), ctypes.c_int, ctypes.c_size_t],
        _pointer,
    ),
    "TF_DeleteTensor": ([_pointer], None),
    "TF_TensorType": ([_pointer], ctypes.c_int),
    "TF_NumDims": ([_pointer], ctypes.c_int),
    "TF_Dim": ([_pointer, ctypes.c_int], ctypes.c_int64),
    "TF_TensorData": ([_pointer], _pointer),
    "TF_TensorByteSize": ([_pointer], ctypes.c_size_t),
    "TF_StringInit": ([_pointer], None),
    "TF_StringCopy": ([_pointer, _text, ctypes.c_size_t], None),
    "TF_StringGetDataPointer": ([_pointer], _pointer),
    "TF_StringGetSize": ([_pointer], ctypes.c_size_t),
}


class CLibrary:
    """TensorFlow's C library of one folder, and kernels added to it.

    Args:
        folder: with `LIBRARIES` in it, such as that of the installed package.
        kernels: files to load into it, such as `_sentencepiece_tokenizer.so`.

    Raises:
        OSError: a library is not there, or not for this machine.
        RuntimeError: kernels are of another TensorFlow.
    """

    def __init__(self, folder: str | Path, kernels: Sequence[str | Path] = ()):
        for name in LIBRARIES:
            # Global: the kernels look for TensorFlow's symbols in what is loaded.
            self._library = ctypes.CDLL(str(Path(folder, name)), mode=ctypes.RTLD_GLOBAL)
        for name, (takes, gives) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = takes, gives
        for path in kernels:
            self.checked("TF_LoadLibrary", str(path).encode())

    def __getattr__(self, name):
        return getattr(self._library, name)

    def checked(self, function: str, *arguments):
        """The function's result; raises RuntimeError with TensorFlow's message."""
        status = self.TF_NewStatus()
        try:
            result = getattr(self, function)(*arguments, status)
            if self.TF_GetCode(status) != 0:
                raise RuntimeError(self.TF_Message(status).decode(errors="replace"))
            return result
        finally:
            self.TF_DeleteStatus(status)

    def op_list(self) -> bytes:
        """All ops that it knows, a serialized `OpList`."""
        buffer = self.TF_GetAllOpList()
        try:
            return ctypes.string_at(buffer.contents.data, buffer.contents.length)
        finally:
            self.TF_DeleteBuffer(buffer)


class CLoader:
    """A SavedModel in a session of the C library.

    Args:
        library: with the kernels that the model needs.
        folder: of the SavedModel, with `saved_model.pb` in it.

    Raises:
        RuntimeError: it cannot be loaded, with TensorFlow's message.

    Example:

    >>> loader = CLoader(CLibrary(tensorflow, [kernels]), "served/mail/1")
    >>> loader("serving_default", {"text": np.array([b"Win a prize now!"], object)})["label"]
    array([b'spam'], dtype=object)
    """

    def __init__(self, library: CLibrary, folder: str | Path):
        self._library = library
        self._graph = library.TF_NewGraph()
        meta_graph = library.TF_NewBuffer()
        # The graph, the session and its options live as long as the process, which is short.
        self._session = library.checked(
            "TF_LoadSessionFromSavedModel",
            *(library.TF_NewSessionOptions(), None, str(folder).encode()),
            *((_text * 1)(b"serve"), 1, self._graph, meta_graph),
        )
        data = ctypes.string_at(meta_graph.contents.data, meta_graph.contents.length)
        library.TF_DeleteBuffer(meta_graph)
        self._signatures = _signatures(data)

    def __call__(self, signature: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of a signature; strings are bytes in arrays of objects.

        Raises:
            RuntimeError: the graph refuses the inputs, with TensorFlow's message.
            KeyError: no such signature or input.
        """
        taken, given = self._signatures[signature]
        outputs = (_Output * len(given))(*map(self._output, given.values()))
        results = (_pointer * len(given))()
        places = (_Output * len(inputs))(*(self._output(taken[name]) for name in inputs))
        values = (_pointer * len(inputs))(
            *(
                self._tensor(value, self._library.TF_OperationOutputType(place))
                for place, value in zip(places, inputs.values(), strict=True)
            )
        )
        try:
            self._library.checked(
                "TF_SessionRun",
                *(self._session, None, places, values, len(inputs)),
                *(outputs, results, len(given), None, 0, None),
            )
            return {name: self._array(tensor) for name, tensor in zip(given, results, strict=True)}
        finally:
            for tensor in [*values, *filter(None, results)]:
                # What is behind the strings that were copied in stays until the process ends.
                self._library.TF_DeleteTensor(tensor)

    def _output(self, tensor_name):
        operation, _, index = tensor_name.rpartition(":")
        found = self._library.TF_GraphOperationByName(self._graph, operation.encode())
        if not found:
            raise RuntimeError(f"A signature names {tensor_name}, which is not in the graph.")
        return _Output(found, int(index))

    def _tensor(self, array, dtype):
        library = self._library
        if dtype != _STRING:
            array = np.ascontiguousarray(array, _DTYPES[dtype])
        size = array.size * _STRING_SIZE if dtype == _STRING else array.nbytes
        dims = (ctypes.c_int64 * array.ndim)(*array.shape)
        tensor = library.TF_AllocateTensor(dtype, dims, array.ndim, size)
        data = library.TF_TensorData(tensor)
        if dtype == _STRING:
            for place, value in enumerate(array.ravel()):
                library.TF_StringInit(data + place * _STRING_SIZE)
                library.TF_StringCopy(data + place * _STRING_SIZE, value, len(value))
        elif size:
            ctypes.memmove(data, array.ctypes.data, size)
        return tensor

    def _array(self, tensor):
        library = self._library
        shape = [library.TF_Dim(tensor, axis) for axis in range(library.TF_NumDims(tensor))]
        data, dtype = library.TF_TensorData(tensor), library.TF_TensorType(tensor)
        if dtype != _STRING:
            # 0 bytes may lie nowhere, so the address is not looked at then.
            size = library.TF_TensorByteSize(tensor)
            copied = ctypes.string_at(data, size) if size else b""
            return np.frombuffer(copied, _DTYPES[dtype]).reshape(shape)
        array = np.empty(shape, object)
        for place in range(array.size):
            string = data + place * _STRING_SIZE
            array.flat[place] = ctypes.string_at(
                library.TF_StringGetDataPointer(string), library.TF_StringGetSize(string)
            )
        return array


def _signatures(meta_graph: bytes) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    """By signature the names of its inputs and outputs, with the tensors that they are.

    Reads the few fields of `MetaGraphDef` itself: TensorFlow's classes for it would import
    TensorFlow.
    """
    signatures = {}
    for number, entry in _fields(meta_graph):
        if number == 5:  # map<string, SignatureDef> signature_def
            pair = dict(_fields(entry))
            tensors = {1: {}, 2: {}}  # SignatureDef: inputs, outputs
            for kind, named in _fields(pair[2]):
                if kind in tensors:  # map<string, TensorInfo>
                    name, info = (dict(_fields(named))[field] for field in (1, 2))
                    # TensorInfo: name
                    tensors[kind][name.decode()] = dict(_fields(info))[1].decode()
            signatures[pair[1].decode()] = (tensors[1], tensors[2])
    return signatures


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of each field of a serialized protocol buffer.

    https://protobuf.dev/programming-guides/encoding
    """
    view, place = memoryview(message), 0

    def varint():
        nonlocal place
        value = shift = 0
        while True:
            byte = view[place]
            place += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while place < len(view):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
            continue
        size = {1: lambda: 8, 2: varint, 5: lambda: 4}[tag & 7]()
        yield tag >> 3, bytes(view[place : place + size])
        place += size
