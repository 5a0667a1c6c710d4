"""A turn's log as the messages a model is sent: every call answered, then the people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from threads import phrases
from threads.runtime.bots.protocol import Brief, Line

RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)


class History:
    """What has been said, as it grows line by line."""

    def __init__(self, brief: Brief) -> None:
        self.instructions = brief.instructions
        self.messages: list[ModelMessage] = []
        self.open: list[ToolCallPart] = []  # calls of the last reply without a result
        self.results: list[ModelRequestPart] = []
        self.words: list[ModelRequestPart] = [UserPromptPart(brief.prompt)]

    def add(self, line: Line) -> None:
        match line.kind:
            case "model":
                self.reply(line)
            case "result":
                self.result(line)
            case "person":
                said = phrases.PERSON_SAYS.format(text=line.body["text"])
                self.words.append(UserPromptPart(said))
            case "note":
                self.words.append(UserPromptPart(line.body["text"]))
            case _:
                pass  # a call stands in the reply that asked for it

    def reply(self, line: Line) -> None:
        self.ask()
        message = RESPONSE.validate_python(line.body["message"])
        self.messages.append(message)
        self.open = list(message.tool_calls)

    def result(self, line: Line) -> None:
        """Answer the oldest open call: they run in the order they were asked for."""
        if not self.open:
            return
        call = self.open.pop(0)
        text = line.body["text"] or phrases.NO_OUTPUT
        if status := line.body.get("exit_code"):
            text = f"{text}\n({phrases.EXIT_STATUS.format(status=status)})"
        outcome: Literal["success", "failed"] = (
            "success" if line.body.get("ok", True) else "failed"
        )
        self.results.append(
            ToolReturnPart(
                tool_name=call.tool_name,
                content=text,
                tool_call_id=call.tool_call_id,
                outcome=outcome,
            )
        )

    def ask(self) -> None:
        """End the message to the model: results first, as every model wants them."""
        for call in self.open:
            self.results.append(
                ToolReturnPart(
                    tool_name=call.tool_name,
                    content=phrases.NOT_RUN,
                    tool_call_id=call.tool_call_id,
                    outcome="failed",
                )
            )
        parts = [*self.results, *self.words]
        self.open, self.results, self.words = [], [], []
        if parts:
            request = ModelRequest(parts, instructions=self.instructions or None)
            self.messages.append(request)


def messages(brief: Brief, log: Sequence[Line]) -> list[ModelMessage]:
    """Return what the model is sent next, after all that the log holds."""
    history = History(brief)
    for line in log:
        history.add(line)
    history.ask()
    return history.messages
