"""A language kernel that only says what it is: starts fast, for tests that are about files.

Run as `python quiet_kernel.py CONNECTION_FILE`.
"""

from __future__ import annotations

import hmac
import json
import sys
from pathlib import Path

import zmq

INFO = {
    "status": "ok",
    "protocol_version": "5.4",
    "implementation": "quiet",
    "implementation_version": "1",
    "language_info": {"name": "quiet", "version": "1"},
    "banner": "",
}


def main(connection_file: str) -> None:
    connection = json.loads(Path(connection_file).read_text())
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()

    def bind(kind: int, name: str) -> zmq.Socket[bytes]:
        opened = context.socket(kind)
        opened.bind(f"{connection['transport']}://{connection['ip']}-{connection[name + '_port']}")
        return opened

    shell = bind(zmq.ROUTER, "shell")
    others = [bind(zmq.ROUTER, "control"), bind(zmq.ROUTER, "stdin"), bind(zmq.PUB, "iopub")]
    while not all(each.closed for each in others):
        frames = shell.recv_multipart()
        at = frames.index(b"<IDS|MSG>")
        header = json.loads(frames[at + 2])
        if header["msg_type"] != "kernel_info_request":
            continue
        reply = {**header, "msg_id": header["msg_id"] + "-r", "msg_type": "kernel_info_reply"}
        parts = [json.dumps(reply).encode(), frames[at + 2], b"{}", json.dumps(INFO).encode()]
        signed = hmac.new(connection["key"].encode(), digestmod="sha256")
        for part in parts:
            signed.update(part)
        shell.send_multipart([*frames[:at], b"<IDS|MSG>", signed.hexdigest().encode(), *parts])


if __name__ == "__main__":
    main(sys.argv[1])
