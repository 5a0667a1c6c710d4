"""A kept file as an answer: to be saved, never to be shown or run by the browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import BinaryIO

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.http import content_disposition_header

from threads import artifacts
from threads.models import Artifact

PIECE = 262_144
HARMLESS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def answer(request: HttpRequest, artifact: Artifact) -> StreamingHttpResponse:
    """Return the file's bytes; raise NotFound where this machine has them not."""
    file = artifacts.opened(artifact)
    beside = isinstance(request, ASGIRequest)
    body = PiecesBeside(file) if beside else PlainPieces(file)
    name = artifact.name.rsplit("/", 1)[-1] or "file"
    response = StreamingHttpResponse(
        body, content_type="application/octet-stream", headers=HARMLESS
    )
    response.headers["Content-Length"] = str(artifact.size)
    response.headers["Content-Disposition"] = (
        content_disposition_header(as_attachment=True, filename=name) or "attachment"
    )
    return response


class Pieces:
    """The bytes in pieces; the file is closed with the answer, read or not."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def close(self) -> None:
        self.file.close()


class PlainPieces(Pieces):
    def __iter__(self) -> Iterator[bytes]:
        while piece := self.file.read(PIECE):
            yield piece


class PiecesBeside(Pieces):
    """Read beside the loop, so that one large file holds up no other page."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = sync_to_async(self.file.read, thread_sensitive=False)
        while piece := await read(PIECE):
            yield piece
