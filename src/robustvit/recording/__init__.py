"""The tape: attention and features of any network, read from outside."""

from robustvit.recording.tape import (
    AttentionRows,
    NothingRecordedError,
    Tape,
    attention_blocks,
    has_attention,
    has_attention_rows,
    record,
)

__all__ = [
    "AttentionRows",
    "NothingRecordedError",
    "Tape",
    "attention_blocks",
    "has_attention",
    "has_attention_rows",
    "record",
]
