"""Logs of workers are bounded while their writer holds them open."""

from pathlib import Path

from inference.pools.worker_logs import TAIL_BYTES, log_path, rotate_if_large, tail_of


def test_a_large_log_is_moved_aside_under_its_writer(tmp_path: Path) -> None:
    log = log_path(tmp_path, "pool_a-0")
    with log.open("ab", buffering=0) as writer:
        writer.write(b"old" * 10)
        assert rotate_if_large(log, limit_bytes=30) is False
        assert rotate_if_large(log, limit_bytes=29) is True
        writer.write(b"new")
    assert log.read_bytes() == b"new"
    assert (tmp_path / "pool_a-0.log.1").read_bytes() == b"old" * 10


def test_the_log_moved_before_gives_way(tmp_path: Path) -> None:
    log = log_path(tmp_path, "pool_a-0")
    for text in (b"first", b"second"):
        log.write_bytes(text)
        rotate_if_large(log, limit_bytes=1)
    assert (tmp_path / "pool_a-0.log.1").read_bytes() == b"second"


def test_a_missing_log_is_empty_and_not_rotated(tmp_path: Path) -> None:
    log = log_path(tmp_path, "pool_a-0")
    assert rotate_if_large(log) is False
    assert tail_of(log) == ""


def test_the_tail_is_the_end_of_a_log(tmp_path: Path) -> None:
    log = log_path(tmp_path, "pool_a-0")
    log.write_bytes(b"a" * TAIL_BYTES + b"the end")
    assert tail_of(log) == "a" * (TAIL_BYTES - 7) + "the end"
