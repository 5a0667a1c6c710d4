"""The container files cannot be run here, so they are read closely instead."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from project import local
from project.embedded import roles

ROOT = local.BASE_DIR
PROGRAMS = ("web", "conductor", "beat", *roles.WORKERS)
INSTRUCTIONS = {"FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "EXPOSE", "CMD"}


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text))


@pytest.fixture(scope="module")
def dockerfile() -> list[tuple[str, str]]:
    """Each instruction with its arguments, comments gone and long lines joined."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    words = (line.split(maxsplit=1) for line in joined.splitlines() if line.strip())
    return [(name, rest) for name, rest in words]


def test_every_role_of_up_is_a_service_with_the_same_pools(compose):
    services = compose["services"]

    assert set(services) == {"postgres", "redis", "migrate", *PROGRAMS}
    ours = roles.commands(0)
    for name in roles.WORKERS:
        there = services[name]["command"]
        assert (
            there[there.index("worker") :] == ours[name][ours[name].index("worker") :]
        )
        assert services[name]["environment"]["THREADWORK_ROLE"] == name


def test_nothing_works_before_migrations_and_healthy_servers(compose):
    for name in PROGRAMS:
        waits = compose["services"][name]["depends_on"]
        assert {of: how["condition"] for of, how in waits.items()} == {
            "migrate": "service_completed_successfully",
            "postgres": "service_healthy",
            "redis": "service_healthy",
        }
    assert compose["services"]["migrate"]["restart"] == "no"


def test_servers_and_the_web_role_say_whether_they_are_well(compose):
    for name in ("postgres", "redis", "web"):
        assert compose["services"][name]["healthcheck"]["test"]


def test_workspaces_are_one_volume_shared_by_all_and_data_outlives_containers(compose):
    for name in PROGRAMS:
        assert compose["services"][name]["volumes"] == [
            "workspaces:/var/lib/threadwork"
        ]
    assert set(compose["volumes"]) == {"postgres", "redis", "workspaces"}
    redis = " ".join(compose["services"]["redis"]["command"])
    assert "--appendonly yes" in redis
    assert "--maxmemory-policy noeviction" in redis


def test_secrets_come_from_outside_and_have_no_default(compose):
    for service in compose["services"].values():
        for name, value in service.get("environment", {}).items():
            secret = re.search(r"PASSWORD|SECRET|AUTH|_URL", name)
            if secret and name != "PUBLIC_URL":
                assert re.search(r"\$\{[A-Z_]+:\?", value), (name, value)
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    assert not re.search(r"\$\{[A-Z_]*(PASSWORD|SECRET)[A-Z_]*(:-|-|\})", text)


def test_only_the_web_role_is_reached_from_outside_and_only_on_this_machine(compose):
    open_doors = {
        name: service["ports"]
        for name, service in compose["services"].items()
        if "ports" in service
    }

    assert open_doors == {"web": ["127.0.0.1:8000:8000"]}


def test_the_image_is_built_from_the_lock_and_runs_without_rights(dockerfile):
    assert {name for name, _ in dockerfile} == INSTRUCTIONS
    assert dockerfile[0] == ("FROM", "python:3.13-slim")
    runs = [rest for name, rest in dockerfile if name == "RUN"]
    assert any("--require-hashes -r requirements.lock" in run for run in runs)
    assert any("bubblewrap" in run for run in runs)
    names = [name for name, _ in dockerfile]
    assert dict(dockerfile)["USER"] == "threadwork"
    assert max(i for i, name in enumerate(names) if name == "RUN") < names.index("USER")


def test_what_the_image_copies_is_there_and_carries_no_secret(dockerfile):
    for name, rest in dockerfile:
        if name == "COPY":
            *sources, _ = shlex.split(rest)
            assert all((ROOT / source).exists() for source in sources)
        assert not re.search(r"PASSWORD|SECRET|TOKEN|KEY", rest)


def test_the_lock_has_hashes_and_no_address():
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^[a-z0-9][\w.-]*(?:\[[\w,-]+\])?==", text, re.M)

    assert len(pinned) > 40
    assert text.count("--hash=sha256:") >= len(pinned)
    assert "://" not in text
    assert "--index-url" not in text


@pytest.mark.parametrize("target", ["run", "demo", "test", "lint", "bench", "soak"])
def test_each_target_makes_its_environment_first(target, tmp_path: Path):
    for name in ("Makefile", "requirements.lock"):
        (tmp_path / name).symlink_to(ROOT / name)

    planned = subprocess.run(
        ["make", "--dry-run", target],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert "-m venv --clear .venv" in planned
    assert planned.index("--require-hashes") < planned.rindex(".venv/bin/")
