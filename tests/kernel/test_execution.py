"""What runs, in which order, and what of it becomes a step."""

from __future__ import annotations

import threading
import uuid

from tests.fixtures.kernel import Client, Kernel, Kernels, is_state


def test_a_cell_is_answered_as_by_its_language_kernel(client: Client) -> None:
    ran = client.run("print('out'); import sys; print('err', file=sys.stderr); 6 * 7")
    assert ran.status == "ok"
    assert ran.text() == "out\n"
    assert ran.text("stderr") == "err\n"
    assert ran.value == "42"
    states = [h.content["execution_state"] for h in ran.heard if h.type == "status"]
    assert states == ["busy", "idle"]
    inputs = [h.content for h in ran.heard if h.type == "execute_input"]
    assert inputs[0]["execution_count"] == ran.reply["execution_count"]


def test_the_outcome_is_stored_before_reply_and_idle(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    for number in range(20):
        msg_id = client.execute(f"stored = {number}")
        client.wait(
            lambda h, m=msg_id: h.parent == m and (h.channel == "shell" or is_state(h, "idle"))
        )
        recorded = module_kernels.read(kernel)
        assert recorded.codes()[-1] == f"stored = {number}"
        assert recorded.statuses()[-1] == "ok"
        client.finish(msg_id)


def test_user_expressions_are_evaluated_and_are_part_of_the_record(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    ran = client.run("x = 41", user_expressions={"y": "x + 1", "z": "nothing_of_that_name"})
    assert ran.reply["user_expressions"]["y"]["data"]["text/plain"] == "42"
    assert ran.reply["user_expressions"]["z"]["status"] == "error"
    reply = module_kernels.read(kernel).cells[-1].outputs[-1]
    assert reply.type == "execute_reply"
    assert reply.content["user_expressions"]["y"]["data"]["text/plain"] == "42"


def test_a_silent_cell_shows_nothing_and_still_is_a_step(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    before = client.run("1").reply["execution_count"]
    ran = client.run("silent_value = 7", silent=True, store_history=False)
    assert ran.status == "ok"
    assert [h for h in ran.heard if h.type == "execute_input"] == []
    assert client.run("silent_value").value == "7"
    assert client.run("1").reply["execution_count"] == before + 2
    recorded = module_kernels.read(kernel)
    assert "silent_value = 7" in recorded.codes()


def test_a_cell_outside_the_history_takes_no_prompt_number(client: Client) -> None:
    first = client.run("1").reply["execution_count"]
    assert client.run("kept = 5; kept", store_history=False).value == "5"
    second = client.run("kept")
    assert second.value == "5"
    assert second.reply["execution_count"] == first + 1


def test_cells_behind_an_error_are_aborted_and_are_no_steps(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    mark = uuid.uuid4().hex
    bad = client.execute(f"# {mark}\nimport time; time.sleep(0.3); 1/0")
    behind = [
        client.execute(f"# {mark}\naborted = True"),
        client.execute(f"# {mark}\naborted = True", stop_on_error=False),
        client.execute(f"# {mark}\naborted = True", silent=True),
    ]
    assert client.finish(bad).error == "ZeroDivisionError"
    for msg_id in behind:
        assert client.finish(msg_id).status == "aborted"
    assert client.run("'aborted' in globals()").value == "False"
    recorded = module_kernels.read(kernel)
    assert len([code for code in recorded.codes() if mark in code]) == 1


def test_a_failing_cell_that_asks_for_it_aborts_nothing(client: Client) -> None:
    bad = client.execute("import time; time.sleep(0.2); 1/0", stop_on_error=False)
    behind = client.execute("went_on = True; went_on")
    assert client.finish(bad).error == "ZeroDivisionError"
    assert client.finish(behind).value == "True"


def test_what_is_sent_after_the_error_was_seen_is_never_aborted(client: Client) -> None:
    for number in range(30):
        assert client.run("1/0").status == "error"
        assert client.run(f"{number}").value == f"{number}"


def test_cells_of_several_clients_run_one_after_the_other_in_one_order(
    kernel: Kernel, module_kernels: Kernels
) -> None:
    clients = [kernel.client() for _ in range(4)]
    clients[0].run("order = []")

    def work(number: int) -> None:
        mine = [
            clients[number].execute(f"order.append(({number}, {i})); len(order)") for i in range(10)
        ]
        for msg_id in mine:
            assert clients[number].finish(msg_id).status == "ok"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen = clients[0].run("order").value
    recorded = module_kernels.read(kernel)
    by_log = [code[13:-13] for code in recorded.codes() if code.startswith("order.append")]
    assert seen.replace("\n ", " ") == "[" + ", ".join(by_log) + "]"
    # Every client hears what all of them did.
    for client in clients:
        while len({h.parent for h in client.heard if h.type == "execute_input"}) < 40:
            assert client.pump(10), "a client did not hear what the others did"


def test_a_display_is_updated_where_it_stands(client: Client) -> None:
    ran = client.run("from IPython.display import display; h = display('first', display_id=True)")
    shown = next(c for kind, c in ran.outputs if kind == "display_data")
    ran = client.run("h.update('second')")
    updated = next(c for kind, c in ran.outputs if kind == "update_display_data")
    assert updated["transient"] == shown["transient"]
    assert updated["data"]["text/plain"] == "'second'"


def test_requests_that_change_nothing_are_answered_and_not_logged(
    client: Client, kernel: Kernel, module_kernels: Kernels
) -> None:
    client.run("some_long_name = 1")
    before = len(module_kernels.read(kernel).steps)
    found = client.ask("complete_request", {"code": "some_lo", "cursor_pos": 7})
    assert "some_long_name" in found["matches"]
    found = client.ask(
        "inspect_request", {"code": "some_long_name", "cursor_pos": 5, "detail_level": 0}
    )
    assert found["found"]
    assert client.ask("is_complete_request", {"code": "for x in y:"})["status"] == "incomplete"
    history = client.ask(
        "history_request",
        {"hist_access_type": "tail", "n": 1, "raw": True, "output": False},
    )
    assert history["history"][-1][2] == "some_long_name = 1"
    assert client.ask("comm_info_request", {})["status"] == "ok"
    assert client.ask("kernel_info_request")["language_info"]["name"] == "python"
    assert client.ask("kernel_info_request", channel="control")["status"] == "ok"
    assert len(module_kernels.read(kernel).steps) == before


def test_they_are_answered_while_a_cell_runs(client: Client) -> None:
    running = client.execute("import time\nfor i in range(400): time.sleep(0.05)")
    client.wait(lambda h: h.parent == running and h.type == "execute_input")
    assert client.ask("kernel_info_request", channel="control")["status"] == "ok"
    assert client.ask("interrupt_request", channel="control")["status"] == "ok"
    assert client.finish(running).error == "KeyboardInterrupt"


def test_the_banner_says_that_nothing_is_isolated(client: Client) -> None:
    assert "WARNING" in client.ask("kernel_info_request")["banner"]
    assert "Not isolated" in client.ask("kernel_info_request")["banner"]
