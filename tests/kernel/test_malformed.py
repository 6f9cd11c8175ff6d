"""What no client should send: dropped or answered with an error; the kernel and the log live on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence

import pytest

from tests.fixtures.kernel import Client, Kernel, Kernels

DELIMITER = b"<IDS|MSG>"


def header(client: Client, msg_type: str = "execute_request", **more: object) -> bytes:
    return json.dumps({**client.session.msg_header(msg_type), **more}, default=str).encode()


def signed(client: Client, frames: Sequence[bytes], *buffers: bytes) -> list[bytes]:
    return [DELIMITER, client.session.sign(list(frames)), *frames, *buffers]


CODE = json.dumps({"code": "bad = 1", "silent": False, "store_history": True}).encode()


def wrong_signature(c: Client) -> list[bytes]:
    return [DELIMITER, b"0" * 64, header(c), b"{}", b"{}", CODE]


def no_signature(c: Client) -> list[bytes]:
    return [DELIMITER, b"", header(c), b"{}", b"{}", CODE]


def missing_frames(c: Client) -> list[bytes]:
    return [DELIMITER, c.session.sign([header(c)]), header(c)]


def no_delimiter(c: Client) -> list[bytes]:
    return [b"hello"]


def nothing(c: Client) -> list[bytes]:
    return [b""]


def many_frames(c: Client) -> list[bytes]:
    return signed(c, [header(c), b"{}", b"{}", CODE], *([b"x"] * 10_000))


def huge_identities(c: Client) -> list[bytes]:
    return [os.urandom(1 << 20)] * 20 + signed(c, [header(c), b"{}", b"{}", CODE])


def header_is_no_json(c: Client) -> list[bytes]:
    return signed(c, [b"{nope", b"{}", b"{}", CODE])


def header_is_a_list(c: Client) -> list[bytes]:
    return signed(c, [b"[1, 2]", b"{}", b"{}", CODE])


def header_without_type(c: Client) -> list[bytes]:
    return signed(c, [b'{"msg_id": "a"}', b"{}", b"{}", CODE])


def header_with_a_number_for_an_id(c: Client) -> list[bytes]:
    return signed(c, [header(c, msg_id=7), b"{}", b"{}", CODE])


def header_with_a_huge_id(c: Client) -> list[bytes]:
    return signed(c, [header(c, msg_id="i" * 100_000), b"{}", b"{}", CODE])


def header_is_binary(c: Client) -> list[bytes]:
    return signed(c, [os.urandom(1000), b"{}", b"{}", CODE])


def content_is_no_json(c: Client) -> list[bytes]:
    return signed(c, [header(c), b"{}", b"{}", b"\xff\xfe"])


def content_is_deep(c: Client) -> list[bytes]:
    return signed(
        c, [header(c), b"{}", b"{}", b'{"code": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"]
    )


def unknown_type(c: Client) -> list[bytes]:
    return signed(c, [header(c, "make_coffee_request"), b"{}", b"{}", b"{}"])


def comm_for_nobody(c: Client) -> list[bytes]:
    return signed(c, [header(c, "comm_msg"), b"{}", b"{}", b'{"comm_id": "none", "data": {}}'])


def shutdown_without_sense(c: Client) -> list[bytes]:
    return signed(c, [header(c, "shutdown_request"), b"{}", b"{}", b"[]"])


def workspace_without_sense(c: Client) -> list[bytes]:
    return signed(
        c, [header(c, "workspace_request"), b"{}", b"{}", b'{"op": {"a": []}, "path": 3}']
    )


BAD: tuple[Callable[[Client], list[bytes]], ...] = (
    wrong_signature,
    no_signature,
    missing_frames,
    no_delimiter,
    nothing,
    many_frames,
    huge_identities,
    header_is_no_json,
    header_is_a_list,
    header_without_type,
    header_with_a_number_for_an_id,
    header_with_a_huge_id,
    header_is_binary,
    content_is_no_json,
    content_is_deep,
    unknown_type,
    comm_for_nobody,
    shutdown_without_sense,
    workspace_without_sense,
)


@pytest.mark.parametrize("bad", BAD, ids=lambda each: each.__name__)
def test_the_kernel_lives_and_runs_none_of_it(
    client: Client, kernel: Kernel, bad: Callable[[Client], list[bytes]]
) -> None:
    client.run("1")
    for channel in ("shell", "control", "stdin"):
        client.sockets[channel].send_multipart(bad(client))
    assert client.run("'bad' in globals()").value == "False"
    assert client.ask("kernel_info_request", channel="control")["status"] == "ok"
    assert kernel.alive


def test_the_log_is_whole_after_all_of_it(kernel: Kernel, module_kernels: Kernels) -> None:
    kernel.client().run("1")
    recorded = module_kernels.read(kernel)
    assert recorded.report.ok
    assert set(recorded.codes()) <= {"1", "'bad' in globals()"}


def test_a_request_that_cannot_be_recorded_is_answered_with_an_error(client: Client) -> None:
    sent = header(client)
    client.sockets["shell"].send_multipart(signed(client, [sent, b"{}", b'"metadata"', CODE]))
    ran = client.finish(json.loads(sent)["msg_id"])
    assert ran.error == "Malformed"
    assert client.run("'bad' in globals()").value == "False"


def test_a_message_that_is_sent_twice_runs_once(client: Client) -> None:
    client.run("twice = 0")
    body = json.dumps(
        {"code": "twice += 1; twice", "silent": False, "store_history": True}
    ).encode()
    frames = signed(client, [header(client), b"{}", b"{}", body])
    for _ in range(3):
        client.sockets["shell"].send_multipart(frames)
    assert client.run("twice").value == "1"


def test_strange_but_valid_json_is_kept_as_it_is(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    content = (
        b'{"code": "odd = 1 # \\u0000 \\ud800", "silent": false, "store_history": true,'
        b' "user_expressions": {}, "more": [1e999, -0.0, 12345678901234567890, "\\u2028"]}'
    )
    frames = signed(
        client, [header(client), b"{}", b'{"deep": ' + b"[" * 200 + b"]" * 200 + b"}", content]
    )
    client.sockets["shell"].send_multipart(frames)
    client.run("1")
    assert client.run("1").value == "1"
    recorded = module_kernels.read(kernel)
    assert recorded.report.ok
