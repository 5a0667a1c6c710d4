"""What one machine keeps beside manage.py: the data folder and its key."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    return Path(
        os.environ.get("THREADWORK_DATA") or BASE_DIR / ".threadwork"
    ).absolute()


def make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise SystemExit(
            f"{folder} cannot be the data folder: {error.strerror}. "
            "Name another with --data or THREADWORK_DATA."
        ) from None


def local_key(folder: Path) -> str:
    """Return this machine's own secret key, made on first use and kept in the folder."""
    path = folder / "key"
    try:
        return path.read_text()
    except FileNotFoundError:
        make(folder)
    except OSError as error:
        raise SystemExit(f"{path} cannot be read: {error.strerror}.") from None
    draft = folder / f"key.{os.getpid()}"
    draft.touch(mode=0o600)
    draft.write_text(secrets.token_urlsafe(48))
    try:
        os.link(draft, path)  # two starters at once: the first one's key stands
    except FileExistsError:
        pass
    finally:
        draft.unlink()
    return path.read_text()
