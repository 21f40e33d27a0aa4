"""Whether what was started serves: one cheap question each, asked over loopback."""

import base64
import http.client
import json
import socket
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.local.problems import LocalProblem
from inference.contract import codec, sealing
from inference.contract.kinds import WorkerState

_PROBE_S = 2.0
_ANSWER_S = 30.0


def is_serving(url: str, path: str) -> bool:
    """Whether a GET is answered with a success."""
    return _ask(url, "GET", path, timeout_s=_PROBE_S) == http.client.OK


def is_completing(url: str, key: str, model: str) -> bool:
    """Whether the route answers one token through the gateway."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "Hi"}]}
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    path = "/v1/chat/completions"
    status = _ask(url, "POST", path, json.dumps(body), headers, timeout_s=_ANSWER_S)
    return status == http.client.OK


def _ask(
    url: str,
    method: str,
    path: str,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    timeout_s: float,
) -> int | None:
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
    try:
        connection.request(method, path, body, dict(headers or {}))
        with connection.getresponse() as answer:
            answer.read()
            return answer.status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def has_ready_worker(var: Path, data_key: str, since: float) -> bool:
    """Whether the host's copy of the directory, written since then, has a ready worker of ours.

    A static pool's worker counts as ready until it is found out, so only our own are asked about.
    """
    try:
        sealed = (var / "snapshots" / "directory").read_bytes()
        directory = codec.decode_directory(
            sealing.unseal(base64.urlsafe_b64decode(data_key), sealed)
        )
    except (FileNotFoundError, ValueError):
        return False
    is_fresh = directory.written_at >= since
    return is_fresh and any(
        worker.uses_derived_key and worker.state is WorkerState.READY
        for worker in directory.workers
    )


def check_port_is_free(host: str, port: int, name: str) -> None:
    """Raise LocalProblem naming the variable if nothing can listen there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        raise LocalProblem(
            f"cannot listen on {host} port {port}: {error.strerror}; "
            f"set HEADWORKS_{name}_PORT (or HEADWORKS_{name}_HOST) to another one"
        ) from error
