"""A report's lines as a Parquet file.

Loaded by whoever makes one: pyarrow takes 30 MB of each process.
"""

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_TYPES = {"date": pa.date32(), "text": pa.string(), "number": pa.int64()}


class ParquetFile:
    """Columns with types, a row group a step. `columns` are names and kinds of value."""

    def __init__(self, columns: Sequence[tuple[str, str]]) -> None:
        self._schema = pa.schema([(name, _TYPES[kind]) for name, kind in columns])
        self._file = BytesIO()
        self._writer = pq.ParquetWriter(self._file, self._schema, compression="zstd")

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        schema = self._schema
        columns = list(zip(*rows, strict=True)) if rows else [[] for _ in schema]
        arrays = [
            pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)
        ]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    def end(self) -> bytes:
        self._writer.close()
        return self._file.getvalue()
