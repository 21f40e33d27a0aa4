"""A stand-in for an engine: its start line, its HTTP surface, and its child in the same group.

Told to end, it ends its child first; killed, it leaves it behind.

It understands vLLM's start line as far as it needs to. `--mood` names a file that steers it while
it runs: `sick` answers health with 503, `silent` not at all, `mute` refuses completions, `deaf`
ignores SIGTERM, `broken` ends at the start with an error. Its metrics are what the file
`<mood>.metrics` holds; without one it has none. What it is asked is added to the file
`<mood>.calls`, its environment is in `<mood>.environment`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PAUSE = "import signal; signal.pause()"


class Handler(BaseHTTPRequestHandler):
    mood: Path
    model: str

    @property
    def is_in(self) -> str:
        return self.mood.read_text() if self.mood.exists() else ""

    def do_GET(self) -> None:
        if self.is_in == "silent":
            threading.Event().wait()
        metrics = self.mood.with_suffix(".metrics")
        if self.path != "/metrics":
            self._answer(503 if self.is_in == "sick" else 200)
        elif metrics.exists():
            self._answer(200, metrics.read_bytes())
        else:
            self._answer(404)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.mood.with_suffix(".calls").open("a") as calls:
            calls.write(f"{self.path}\n")
        if self.headers["authorization"] != f"Bearer {os.environ['VLLM_API_KEY']}":
            self._answer(401)
        elif body["model"] != self.model:
            self._answer(404)
        else:
            self._answer(500 if self.is_in == "mute" else 200)

    def _answer(self, status: int, body: bytes = b"{}") -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    parser.add_argument("--mood", type=Path, required=True)
    arguments, _ = parser.parse_known_args()
    Handler.mood, Handler.model = arguments.mood, arguments.served_model_name
    mood = arguments.mood.read_text() if arguments.mood.exists() else ""
    arguments.mood.with_suffix(".environment").write_text(json.dumps(dict(os.environ)))
    sys.stderr.write("a stand-in starts\n")
    if mood == "broken":
        raise ValueError("no memory for the cache")
    child = subprocess.Popen([sys.executable, "-c", PAUSE])

    def end(*_: object) -> None:
        child.kill()
        os._exit(0)

    signal.signal(signal.SIGTERM, signal.SIG_IGN if mood == "deaf" else end)
    ThreadingHTTPServer(("127.0.0.1", arguments.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
