"""A proxy before Postgres that can keep an answer to itself: stored, but nobody was told."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from pathlib import Path
from types import TracebackType

from tests.fixtures.postgres import TestServer


class Swallowing:
    """Listens on 127.0.0.1 and passes all bytes on, but for the answers it is told to swallow."""

    def __init__(self, server: TestServer, dsn: str) -> None:
        self._path = str(next(Path(server.socket).glob(".s.PGSQL.*[0-9]")))
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        database = dsn.split("dbname=")[1].split(maxsplit=1)[0]
        self.dsn = f"host=127.0.0.1 port={port} dbname={database} user=postgres"
        self._armed = threading.Event()
        self._refuse_after = False
        self.refusing = False
        self.swallowed = 0
        self._over = False
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Swallowing:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._over = True
        self._wake.send(b"x")
        self._thread.join()
        for each in (self._wake, self._woken, self._listener):
            each.close()

    def swallow_next(self, *, refuse_after: bool = False) -> None:
        """Of the next request that comes, drop the answer and cut the connection.

        refuse_after: and let nobody in from then on, until `refusing` is set to False.
        """
        self._refuse_after = refuse_after
        self._armed.set()

    def _run(self) -> None:
        pairs: dict[socket.socket, tuple[socket.socket, bool]] = {}  # other end, from the client
        doomed: set[socket.socket] = set()  # server ends whose next answer is swallowed

        def close(one: socket.socket) -> None:
            other, _ = pairs.pop(one)
            pairs.pop(other)
            for each in (one, other):
                selector.unregister(each)
                each.close()

        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._over:
                for key, _ in selector.select():
                    ready = key.fileobj
                    assert isinstance(ready, socket.socket)
                    if ready is self._listener:
                        client, _ = ready.accept()
                        if self.refusing:
                            client.close()
                            continue
                        server = socket.socket(socket.AF_UNIX)
                        server.connect(self._path)
                        pairs[client], pairs[server] = (server, True), (client, False)
                        selector.register(client, selectors.EVENT_READ)
                        selector.register(server, selectors.EVENT_READ)
                    elif ready in pairs:
                        other, from_client = pairs[ready]
                        data = b""
                        with contextlib.suppress(ConnectionError):
                            data = ready.recv(1 << 16)
                        if from_client and data and self._armed.is_set():
                            self._armed.clear()
                            doomed.add(other)
                        if ready in doomed and data:
                            doomed.discard(ready)
                            self.refusing = self._refuse_after
                            self.swallowed += 1
                            data = b""
                        if not data:
                            close(ready)
                            continue
                        with contextlib.suppress(ConnectionError):
                            other.sendall(data)
            for each in [one for one, (_, from_client) in pairs.items() if from_client]:
                close(each)
