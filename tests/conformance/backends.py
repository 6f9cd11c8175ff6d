"""The backends that the conformance suite runs on here, as the matrix names them."""

from __future__ import annotations

import pytest

from tests.fixtures.sandbox import AS_ORDINARY_USER, usable

#: gVisor is slow where it has to trace each system call, and runc is driven by the same code as crun,
#: on which all of it runs.
SHORTENED = frozenset({"oci-runsc", "oci-runc"})
#: What runs on those without REPRISE_LONG=1.
SHORT = frozenset(
    {
        "test_a_cell_runs_and_its_outputs_come_in_order",
        "test_a_mount_is_there_and_read_only",
        "test_a_mount_replaces_what_was_there_whole",
        "test_a_mounted_tree_is_there_whole_with_its_modes",
        "test_a_sandbox_runs_on_an_image",
        "test_control_is_answered_while_a_cell_runs",
        "test_files_go_in_and_come_out",
        "test_it_says_of_each_limit_how_it_is_held",
        "test_it_says_what_it_is_and_that_it_works",
        "test_its_streams_come_in_order_and_its_exit_code",
        "test_kill_leaves_no_process",
        "test_programs_reach_what_is_allowed_and_nothing_else",
        "test_restart_gives_a_clean_interpreter_and_keeps_files",
        "test_sigkill_takes_the_whole_tree_and_then_says_so",
        "test_the_guests_death_ends_everything",
        "test_the_sandbox_dies_in_the_middle_of_a_cell",
        "test_the_sandbox_ends_with_its_stream",
        "test_too_much_memory_ends_the_cell_not_the_machine",
        "test_what_it_started_ends_with_it",
    }
)

#: Tests that look at a sandbox's processes on the host. What gVisor's kernel runs is none of them.
SEEN_FROM_OUTSIDE = frozenset(
    {
        "test_200_megabytes_of_output_take_little_memory_and_no_more_disk_than_allowed",
        "test_a_host_that_holds_makes_a_command_wait_and_nothing_is_lost",
        "test_cpu_time",
        "test_hundreds_one_after_another_leave_nothing_behind",
        "test_one_that_kills_its_keeper_is_ended_with_all_it_started",
        "test_the_sandboxs_end_ends_commands",
        "test_what_watches_over_it_has_nothing_of_the_guests_open",
    }
)

#: As an ordinary user without what shares everything with that user.
ISOLATING = ["bubblewrap", "oci-crun", "oci-runc", "oci-runsc"]
if not AS_ORDINARY_USER:
    ISOLATING.append("dagger")
BACKENDS = ISOLATING if AS_ORDINARY_USER else ["bubblewrap", "process", *ISOLATING[1:]]


def backend_of(request: pytest.FixtureRequest) -> str:
    """The name that `reprise.sandbox.backends.backend` takes for a test's parameter."""
    if request.param == "dagger":
        request.getfixturevalue("dagger")
        return "dagger"
    name = str(request.param).replace("oci-", "oci:")
    if why_not := usable(name):
        pytest.skip(why_not)
    named = request.function.__name__ if request.scope == "function" else ""
    if name == "oci:runsc" and named in SEEN_FROM_OUTSIDE:
        pytest.skip("it looks at processes of this machine, and gVisor's are none")
    return name
