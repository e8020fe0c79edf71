"""The tape: attention and features of any network, read from outside."""

from robustvit.recording.tape import NothingRecordedError, Tape, record

__all__ = ["NothingRecordedError", "Tape", "record"]
