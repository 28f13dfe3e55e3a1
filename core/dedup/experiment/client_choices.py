"""Which client sends, on a system or in one variant: a library that we know, or a program of the user's own."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from dedup.experiment.clients import Library, choices
from dedup.parts import Part, Version
from dedup.refusals import refusal, short

OWN_SETTINGS: Final = "a program of your own has what it has, and says its version itself"


class Client(Part):
    """Which client library sends and reads, and the settings to give it, under its own names."""

    library: Library | None = Field(None, description=f"{choices()}; the system's own if left out")
    version: Version | None = Field(None, description="one that the library has; its default if left out")
    command: (
        Annotated[list[Annotated[str, Field(min_length=1, max_length=1024)]], Field(min_length=1, max_length=32)] | None
    ) = Field(
        None,
        description="instead of a library, a program of your own and its arguments; "
        "relative paths begin at this file (`dedup run` only)",
    )
    properties: Annotated[
        dict[Annotated[str, Field(max_length=128)], Annotated[str, Field(max_length=1024)]], Field(max_length=64)
    ] = Field(default_factory=dict, description='the client\'s own settings, all as text: {linger.ms: "0"}')

    @model_validator(mode="after")
    def _own_or_known(self) -> Self:
        for key, given in (("library", self.library), ("version", self.version)):
            if self.command is not None and given is not None:
                raise refusal(key, short(given), OWN_SETTINGS, f"take {key} out, or command")
        return self

    def but(self, change: "Client | None") -> "Client":
        """This client with a change: another library or program takes its place, a version and settings are its own."""
        if change is None:
            return self
        if change.library is not None or change.command is not None:
            return change
        properties = {**self.properties, **change.properties}
        return self.model_copy(update={"version": change.version or self.version, "properties": properties})
