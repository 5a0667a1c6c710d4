#!/usr/bin/env python
"""Threadwork's commands: `up` starts everything, `wf` operates it."""

from __future__ import annotations

import os
import sys

from django.core.management import execute_from_command_line

from project.embedded import folder


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    folder.adopt_environment(sys.argv)
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
