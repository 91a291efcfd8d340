import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))  # ranks import what they are sent

from world import World  # noqa: E402


_worlds = {}


def _world(n):
    if n not in _worlds or _worlds[n].broken:  # after a failure ranks may be anywhere
        if n in _worlds:
            _worlds.pop(n).close()
        _worlds[n] = World(n)
    return _worlds[n]


@pytest.fixture
def world():
    """4 ranks, the same ones for all tests."""
    return _world(4)


@pytest.fixture
def two():
    return _world(2)


@pytest.fixture(scope="session", autouse=True)
def ended():
    yield
    for world in _worlds.values():
        world.close()
