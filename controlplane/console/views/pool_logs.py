"""The tail of a worker's log, asked for again by the page every second while it is open."""

from hashlib import sha256

from django.http import HttpRequest, HttpResponse

from controlplane.bridge.logs import read_worker_log
from controlplane.console.pages import Page
from controlplane.selectors.pools import get_worker_id, list_pools, require_logs

SEEN = "seen"
_NO_CONTENT = 204


class PoolLog(Page):
    """The part of a pool's page that shows a log; 204 while it shows the newest already."""

    template_name = "console/pools/log.html"

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Wish for the log and show what has come of it."""
        pool = self.found(list_pools(self.scope.access), pk)
        require_logs(self.scope.access, pool)
        worker_id = get_worker_id(pool, request.GET.get("worker", ""))
        found = read_worker_log(worker_id)
        digest = sha256(f"{found.state}\n{found.size_bytes}\n{found.text}".encode()).hexdigest()
        seen = digest[:16]
        if request.GET.get(SEEN) == seen:
            return HttpResponse(status=_NO_CONTENT)
        number = worker_id.rpartition("-")[2]
        address = f"{request.path}?worker={number}&{SEEN}={seen}"
        return self.render({"pool": pool, "number": number, "log": found, "address": address})
