"""Texts as vectors: paraphrase-MiniLM-L3-v2 by ONNX Runtime, on one thread of this process.

Loaded by the helper alone: the libraries take a third of a second and 100 MB.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnxruntime
from tokenizers import Tokenizer

TOKENS_MAX = 64
"""A longer text takes longer than anybody waits: 64 tokens take 12 ms, 128 take 25."""

WINDOWS_MAX = 8
"""So many of these are looked at of a text that may be longer."""

WIDTH = 384
MODEL_FILE = "model.onnx"
TOKENIZER_FILE = "tokenizer.json"
_POOLED = "461"  # the graph's own name of the mean over all tokens

Vector = npt.NDArray[np.float32]


class NoModel(OSError):
    """The folder has no embedder that can be loaded."""


class Embedder:
    """One model. Not for several threads at once."""

    def __init__(self, folder: Path) -> None:
        """Load the model of a folder; raises NoModel."""
        missing = [one for one in (MODEL_FILE, TOKENIZER_FILE) if not (folder / one).is_file()]
        if missing:
            raise NoModel(f"{folder} has no {' and no '.join(missing)}")
        options = onnxruntime.SessionOptions()
        # the host's other cores are the gateways'; for a text this short threads would cost time
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(
                str(folder / MODEL_FILE), options, providers=["CPUExecutionProvider"]
            )
            self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        except Exception as error:
            raise NoModel(f"{folder} holds no embedder: {error}") from error
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    def embed(self, text: str) -> Vector | None:
        """The unit vector of a text, or None if it is longer than TOKENS_MAX."""
        ids = self._tokenizer.encode(text).ids
        return self._run(ids) if len(ids) <= TOKENS_MAX else None

    def embed_long(self, text: str) -> Vector | None:
        """The unit vector of a longer text: the mean over its beginning, a window at a time.

        None if there is nothing in it. Takes 100 ms at most.
        """
        ids = self._tokenizer.encode(text).ids
        begin, *inner, end = ids
        if not inner:
            return None
        windows = [inner[at : at + TOKENS_MAX] for at in range(0, len(inner), TOKENS_MAX)]
        vectors = [self._run([begin, *one, end]) for one in windows[:WINDOWS_MAX]]
        mean: Vector = np.mean(vectors, axis=0)
        return mean / np.float32(np.linalg.norm(mean))

    def _run(self, ids: list[int]) -> Vector:
        tokens = np.array([ids], dtype=np.int64)
        inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens)}
        (pooled,) = self._session.run([_POOLED], inputs)
        vector: Vector = pooled[0] / np.linalg.norm(pooled[0])
        return vector
