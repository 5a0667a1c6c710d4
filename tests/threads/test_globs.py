"""What a step's patterns mean in its workspace."""

from __future__ import annotations

import time

import pytest

from threads.runtime.globs import Globs, fits, segments


@pytest.mark.parametrize(
    ("pattern", "path", "meant"),
    [
        ("report.html", "report.html", True),
        ("report.html", "sub/report.html", False),
        ("*.html", "report.html", True),
        ("*.html", ".hidden.html", True),
        ("dist/*.whl", "dist/a.whl", True),
        ("dist/*.whl", "dist/sub/a.whl", False),
        ("dist", "dist/sub/a.whl", True),
        ("dist/", "dist/a", True),
        ("dist/*", "dist/sub/a.whl", True),
        ("./dist/a", "dist/a", True),
        ("**/*.xml", "a.xml", True),
        ("**/*.xml", "a/b/c.xml", True),
        ("a/**/z", "a/z", True),
        ("a/**/z", "a/b/c/z", True),
        ("a/**/z", "b/z", False),
        ("**", "a/b", True),
        ("**/**/x", "x", True),
        ("test-[0-9].log", "test-7.log", True),
        ("test-[0-9].log", "test-x.log", False),
    ],
)
def test_a_pattern_means(pattern, path, meant):
    assert fits(segments(pattern), path.split("/")) is meant


@pytest.mark.parametrize(
    ("pattern", "folder", "leads"),
    [
        ("a/*/c", "a", True),
        ("a/*/c", "a/b", True),
        ("a/*/c", "b", False),
        ("**/x", "any/where", True),
        ("dist", "dist", True),
        ("dist", "dist/below", True),
        ("*.html", "node_modules", False),
    ],
)
def test_a_folder_is_entered_where_it_may_hold_something_meant(pattern, folder, leads):
    assert Globs([pattern]).leads_on(folder.split("/")) is leads


def test_a_pattern_that_met_nothing_is_told():
    globs = Globs(["*.a", "*.b"])
    assert globs.matches(["x.a"])

    assert globs.unmet == ["*.b"]


def test_no_pattern_takes_longer_than_its_length():
    pattern = segments("/".join(["**", "a"] * 200))
    began = time.monotonic()

    assert not fits(pattern, ["a"] * 64 + ["b"])
    assert time.monotonic() - began < 1
