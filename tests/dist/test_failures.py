"""What the others hear when a rank is late, elsewhere, gone or cut off: once each; failures.py repeats them."""
import os
import shutil

import failures
import pytest


def test_a_rank_in_another_collective():
    failures.in_another_collective()


def test_a_late_rank():
    failures.is_late()


def test_a_killed_rank():
    failures.is_killed()


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ip"), reason="network namespaces want root and iproute2")
def test_a_link_that_is_cut():
    failures.loses_its_link()


def test_who_waited_for_too_short_may_wait_again():
    with failures.ranks() as world:
        assert world.run(failures.waited_for_too_short)[0]
