"""What is wrong with one case, as an exception on its way to the case's result."""


class CaseError(Exception):
    """A case cannot be scored; `error_type` is a word for programs, the message names the key and what is allowed."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.message = message
