"""The socket in a log's directory: permissions, sockets of killed nodes, paths of any length."""

from __future__ import annotations

import socket
import stat
from pathlib import Path

import pytest

from authorizer.listeners.binding import bind_local
from authorizer.listeners.unix_socket import connect_unix, remove_unix

NAME = "aclog.sock"


def long_directory(tmp_path: Path) -> Path:
    """Far beyond what the kernel takes in one address."""
    directory = tmp_path / ("d" * 200) / ("é" * 100)
    directory.mkdir(parents=True)
    return directory


@pytest.mark.parametrize("is_long", [False, True], ids=["short", "long"])
def test_a_connection_by_a_path_of_any_length(tmp_path: Path, is_long: bool) -> None:
    directory = long_directory(tmp_path) if is_long else tmp_path
    with bind_local(directory) as listener:
        listener.listen()
        with connect_unix(directory / NAME, 10) as client:
            server, _ = listener.accept()
            with server:
                client.sendall(b"x")
                assert server.recv(1) == b"x"


@pytest.mark.parametrize("bytes_of_path", range(104, 112))
def test_a_path_at_the_kernels_limit(tmp_path: Path, bytes_of_path: int) -> None:
    """Whatever is too long by one byte is named in the other way."""
    directory = tmp_path / ("d" * (bytes_of_path - len(str(tmp_path)) - len(NAME) - 2))
    directory.mkdir()
    assert len(str(directory / NAME)) == bytes_of_path
    with bind_local(directory) as listener:
        listener.listen()
        connect_unix(directory / NAME, 10).close()


def test_only_the_owner_may_connect(tmp_path: Path) -> None:
    """For any umask, and before it listens."""
    with bind_local(tmp_path) as bound:
        assert stat.S_IMODE((tmp_path / NAME).stat().st_mode) == 0o600
        with pytest.raises(ConnectionRefusedError):
            connect_unix(tmp_path / NAME, 10)
        bound.listen()
        connect_unix(tmp_path / NAME, 10).close()


def test_the_socket_of_a_killed_node_is_replaced(tmp_path: Path) -> None:
    """A socket without a listener; nobody takes it for a node either."""
    bind_local(tmp_path).close()
    assert (tmp_path / NAME).is_socket()
    with pytest.raises(ConnectionRefusedError):
        connect_unix(tmp_path / NAME, 10)
    with bind_local(tmp_path) as listener:
        listener.listen()
        connect_unix(tmp_path / NAME, 10).close()
    remove_unix(tmp_path / NAME)
    remove_unix(tmp_path / NAME)
    with pytest.raises(FileNotFoundError):
        connect_unix(tmp_path / NAME, 10)


def test_another_file_of_that_name_is_left_alone(tmp_path: Path) -> None:
    """Nothing of the user's is removed for a socket."""
    (tmp_path / NAME).write_text("mine")
    with pytest.raises(OSError, match="in use"):
        bind_local(tmp_path)
    remove_unix(tmp_path / NAME)
    assert (tmp_path / NAME).read_text() == "mine"


def test_a_link_to_a_socket_is_not_followed(tmp_path: Path) -> None:
    """Not even to remove what it names."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "other"))
        (tmp_path / NAME).symlink_to(tmp_path / "other")
        with pytest.raises(OSError, match="in use"):
            bind_local(tmp_path)
    assert (tmp_path / "other").is_socket()
