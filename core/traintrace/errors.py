"""The errors that traintrace raises to people who read runs; nothing here is ever raised into training."""


class TraintraceError(Exception):
    """Base of every error raised by traintrace on purpose; the message says what to do."""


class RunReadError(TraintraceError):
    """A run folder, rank file or summary file cannot be read; the message names the file."""


class NewerSchemaError(RunReadError):
    """A file was written by a newer traintrace than the one that reads it."""


class UsageError(TraintraceError):
    """A public function was called with arguments that cannot be meant."""
