"""Comparing hides nothing: what only a new run explains is volatile, all else is different."""

from __future__ import annotations

import base64
import itertools
import struct
import time
import uuid
import zlib
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reprise.log.model import OutputEntry
from reprise.replay.compare import compare
from reprise.replay.difference import EXCERPT, LISTED
from reprise.replay.recorder import OutputRecorder
from reprise.replay.volatile import compare_texts


def out(text: str, name: str = "stdout") -> OutputEntry:
    return OutputEntry("stream", {"name": name, "text": text})


def shown(**data: Any) -> OutputEntry:
    bundle = {key.replace("__", "/").replace("_xml", "+xml"): value for key, value in data.items()}
    return OutputEntry("display_data", {"data": bundle, "metadata": {}, "transient": {}})


def result(text: str, count: int = 1) -> OutputEntry:
    return OutputEntry(
        "execute_result",
        {"data": {"text/plain": text}, "metadata": {}, "execution_count": count},
    )


def error(evalue: str, *lines: str) -> OutputEntry:
    return OutputEntry("error", {"ename": "ValueError", "evalue": evalue, "traceback": list(lines)})


def reply(status: str = "ok", count: int = 1) -> OutputEntry:
    return OutputEntry("execute_reply", {"status": status, "execution_count": count, "payload": []})


def comm(kind: str, comm_id: str, **data: Any) -> OutputEntry:
    return OutputEntry(kind, {"comm_id": comm_id, "target_name": "jupyter.widget", "data": data})


def verdict(a: OutputEntry | list[OutputEntry], b: OutputEntry | list[OutputEntry]) -> str:
    left = a if isinstance(a, list) else [a]
    right = b if isinstance(b, list) else [b]
    forth, back = compare(left, right), compare(right, left)
    assert forth.verdict == back.verdict
    assert (forth.verdict == "same") == (not forth.differences)
    assert (forth.verdict == "different") == any(not d.volatile for d in forth.differences)
    return forth.verdict


# properties ---------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)
anything = st.one_of(
    st.builds(out, st.text(max_size=10), st.sampled_from(["stdout", "stderr"])),
    st.builds(
        OutputEntry,
        st.sampled_from(["display_data", "execute_result", "error", "comm_msg", "odd", "stream"]),
        st.dictionaries(
            st.sampled_from(["data", "name", "text", "comm_id", "traceback", "transient"]),
            json_values,
            max_size=4,
        ),
    ),
)


@given(st.lists(anything, max_size=8))
def test_anything_is_the_same_as_itself(entries: list[OutputEntry]) -> None:
    assert compare(entries, entries).verdict == "same"


@given(st.lists(anything, max_size=6), st.lists(anything, max_size=6))
def test_no_shape_of_output_breaks_it(a: list[OutputEntry], b: list[OutputEntry]) -> None:
    """A hostile kernel may send any JSON; the verdict does not depend on the direction."""
    verdict(a, b)


@given(st.text(max_size=40), st.lists(st.integers(0, 40), max_size=4))
def test_how_a_stream_was_divided_does_not_matter(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(min(cut, len(text)) for cut in cuts)})
    parts = [out(text[a:b]) for a, b in itertools.pairwise(edges)]
    assert compare([out(text)] if text else [], parts).verdict == "same"


plain = st.text(alphabet="abcdefgh ij\n.,", max_size=30)


@given(plain, plain)
def test_words_that_differ_are_different(a: str, b: str) -> None:
    assume(a != b)
    assert verdict(out("x" + a), out("x" + b)) == "different"


@given(st.lists(plain, max_size=5), st.integers(0, 4), plain)
def test_one_changed_output_among_many_is_found(texts: list[str], at: int, other: str) -> None:
    entries = [result(text) for text in texts]
    assume(at < len(texts) and texts[at] != other)
    changed = [*entries[:at], result(other), *entries[at + 1 :]]
    assert verdict(entries, changed) == "different"
    assert verdict(entries, [*entries[:at], *entries[at + 1 :]]) == "different"


# what never means anything ------------------------------------------------------------------


def test_prompt_numbers_colours_and_cell_files_are_not_compared() -> None:
    assert verdict([result("1", 4), reply(count=4)], [result("1", 7), reply(count=7)]) == "same"
    assert (
        verdict(
            error("bad", "\x1b[31mCell In[3], line 1\x1b[0m", "File /tmp/ipykernel_77/123.py:1"),
            error("bad", "Cell In[9], line 1", "File /tmp/ipykernel_8/456.py:1"),
        )
        == "same"
    )
    assert (
        verdict(
            out("/tmp/ipykernel_41/99.py:3: FutureWarning: old\n", "stderr"),
            out("/tmp/ipykernel_42/98.py:3: FutureWarning: old\n", "stderr"),
        )
        == "same"
    )


def test_widget_and_display_ids_drawn_anew_are_the_same_everywhere() -> None:
    def run() -> list[OutputEntry]:
        layout, slider, handle = uuid.uuid4().hex, uuid.uuid4().hex, uuid.uuid4().hex
        return [
            comm("comm_open", layout, state={"_model_name": "LayoutModel"}),
            comm(
                "comm_open",
                slider,
                state={"_model_name": "IntSliderModel", "layout": f"IPY_MODEL_{layout}"},
            ),
            shown(**{"application__vnd.jupyter.widget-view+json": {"model_id": slider}}),
            OutputEntry("display_data", {"data": {}, "transient": {"display_id": handle}}),
            OutputEntry(
                "update_display_data",
                {"data": {"text/plain": "1"}, "transient": {"display_id": handle}},
            ),
        ]

    assert verdict(run(), run()) == "same"


# volatile -----------------------------------------------------------------------------------

UUIDS = "b3d506a6-c49a-4e60-a89b-cbb50fb263ac", "0315cadc-315b-4d23-bbd4-221c5e846ce0"


@pytest.mark.parametrize(
    ("kind", "a", "b"),
    [
        ("address", "<Foo object at 0x7f12ab34cd56>", "<Foo object at 0x7f99ab34cd56>"),
        ("address", "array at 0x55d1c0ffee10", "array at 0x55d1c0ff0010"),
        ("address", "id = 140234567890123", "id = 139876543210987"),
        ("id", f"run {UUIDS[0]}", f"run {UUIDS[1]}"),
        ("timing", "Wall time: 1.23 s", "Wall time: 995 ms"),
        (
            "timing",
            "CPU times: user 12.3 ms, sys: 0 ns, total: 12.3 ms",
            "CPU times: user 9 ms, sys: 101 µs, total: 9.1 ms",
        ),
        (
            "timing",
            "1.23 µs ± 4 ns per loop (mean ± std. dev. of 7 runs, 1,000,000 loops each)",
            "987 ns ± 12.5 ns per loop (mean ± std. dev. of 7 runs, 100,000 loops each)",
        ),
        (
            "timing",
            (
                "The slowest run took 4.36 times longer than the fastest. This could mean that an "
                "intermediate result is being cached.\n2.95 μs ± 1.85 μs per loop (mean ± std. dev. of "
                "2 runs, 10 loops each)\n"
            ),
            "1.28 μs ± 180 ns per loop (mean ± std. dev. of 2 runs, 10 loops each)\n",
        ),
        ("timing", "Elapsed: 0.51312", "Elapsed: 0.49"),
        ("timing", "10/10 - 1s 12ms/step - loss: 0.25", "10/10 - 2s 9ms/step - loss: 0.25"),
        ("timing", "===== 3 passed in 0.12s =====", "===== 3 passed in 0.2s ====="),
        (
            "timing",
            "100%|██████████| 100/100 [00:01<00:00, 99.5it/s]",
            "100%|██████████| 100/100 [00:02<00:00, 49.1it/s]",
        ),
        (
            "progress, timing",
            "\r 10%|█| 1/10 [00:00<?, ?it/s]\r100%|██| 10/10 [00:01<00:00,  9.5it/s]\n",
            "\r100%|██| 10/10 [00:01<00:00,  8.5it/s]\n",
        ),
        ("path", "saved to /tmp/tmpab12cd_x/a.csv", "saved to /tmp/tmpzz99yy01/a.csv"),
        ("pid", "worker pid=1234 ready", "worker pid=98 ready"),
        ("port", "Serving on http://127.0.0.1:38123/", "Serving on http://127.0.0.1:40011/"),
        ("date", "started 2026-11-29 21:33:29.123456", "started 2026-11-30 01:02:03.000001"),
        ("date", "Sun Nov 29 21:33:29 UTC 2026", "Mon Nov 30 01:00:00 UTC 2026"),
        ("date", "now 1764452009.123", "now 1764459999.5"),
        ("date", "[21:33:29] epoch 3", "[01:02:03] epoch 3"),
    ],
)
def test_what_a_new_run_changes_is_volatile_and_listed(kind: str, a: str, b: str) -> None:
    for make in (out, result):
        assert verdict(make(a), make(b)) == "volatile"
        (difference,) = compare([make(a)], [make(b)]).differences
        assert difference.kind == kind
        assert difference.volatile
        assert (difference.recorded, difference.replayed) == (a, b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("mean 0.123", "mean 0.124"),
        ("hex 0xff", "hex 0xfe"),
        ("0xdeadbeef", "0xdeadbee0"),
        ("period 2.01 s", "period 2.02 s"),
        ("shape (100, 3)", "shape (100, 4)"),
        ("2024-01-01", "2024-01-02"),
        ("date 2024-01-01 10:00:00 price", "date 2024-01-02 10:00:00 price"),
        ("d41d8cd98f00b204e9800998ecf8427e", "d41d8cd98f00b204e9800998ecf8427f"),
        ("/tmp/results/a.csv", "/tmp/results/b.csv"),
        ("Wall time: 1.2 s\nloss 0.5", "Wall time: 1.3 s\nloss 0.6"),
        ("1/10\r10/10", "1/10\r9/10"),
        ("7 passed in 0.1s", "6 passed, 1 failed in 0.1s"),
    ],
)
def test_results_are_never_taken_for_volatile(a: str, b: str) -> None:
    assert verdict(out(a), out(b)) == "different"
    assert verdict(result(a), result(b)) == "different"


def test_a_date_near_its_own_run_is_volatile_and_a_date_of_the_data_is_not() -> None:
    day = 86_400_000_000
    first = 1_764_452_009_000_000  # 2025-11-29 21:33 UTC
    a, b = "report of 2025-11-29", "report of 2025-12-09"
    assert compare([out(a)], [out(b)], moments=(first, first + 10 * day)).verdict == "volatile"
    assert compare([out(a)], [out(b)], moments=(first, first + 5 * day)).verdict == "different"
    assert compare([out(a)], [out(b)]).verdict == "different"
    odd = "2025-99-99", "0000-13-41 99:99:99"
    assert compare([out(odd[0])], [out(odd[1])], moments=(first, first)).verdict == "different"


def test_stdout_and_stderr_may_interleave_in_another_way() -> None:
    a = [out("1\n"), out("w\n", "stderr"), out("2\n")]
    b = [out("1\n2\n"), out("w\n", "stderr")]
    assert verdict(a, b) == "volatile"
    assert [d.kind for d in compare(a, b).differences] == ["order"]
    assert verdict(a, [out("2\n1\n"), out("w\n", "stderr")]) == "different"


def test_a_progress_widget_may_report_more_or_less_often() -> None:
    def run(values: list[int], end: int = 100) -> list[OutputEntry]:
        bar = uuid.uuid4().hex
        return [
            comm("comm_open", bar, state={"_model_name": "FloatProgressModel"}),
            out("go\n"),
            *(comm("comm_msg", bar, method="update", state={"value": v}) for v in values),
            comm("comm_msg", bar, method="update", state={"value": end}),
            reply(),
        ]

    assert verdict(run([10, 20, 30]), run([15])) == "volatile"
    assert verdict(run([10]), run([10])) == "same"
    assert verdict(run([10, 20], 100), run([10], 90)) == "different"


def test_html_ids_drawn_anew_are_volatile_and_the_cells_are_not() -> None:
    def styler(tag: str, value: str) -> OutputEntry:
        return shown(
            text__html=f'<style>#T_{tag}_row0_col0 {{color: red}}</style><table id="T_{tag}">'
            f'<td id="T_{tag}_row0_col0" class="data row0 col0">{value}</td></table>'
        )

    assert verdict(styler("ab12c", "1"), styler("99fed", "1")) == "volatile"
    (difference,) = compare([styler("ab12c", "1")], [styler("99fed", "1")]).differences
    assert difference.kind == "element id"
    assert verdict(styler("ab12c", "1"), styler("99fed", "2")) == "different"

    def estimator(number: int) -> OutputEntry:
        name = f"sk-container-id-{number}"
        return shown(
            text__html=f'<style>#{name}.a {{}}</style><div id="{name}" class="sk-top-container">'
            f'<input id="sk-estimator-id-{number}"><label for="sk-estimator-id-{number}">x</label>'
        )

    assert verdict(estimator(3), estimator(12)) == "volatile"

    def plotly(x: int) -> OutputEntry:
        div = str(uuid.uuid4())
        return shown(
            text__html=f'<div id="{div}"></div><script>if (document.getElementById("{div}"))'
            f' Plotly.newPlot("{div}", [{{"x":[{x}]}}])</script>'
        )

    assert verdict(plotly(1), plotly(1)) == "volatile"
    assert verdict(plotly(1), plotly(2)) == "different"


def test_svg_clip_paths_and_dates_are_volatile() -> None:
    def svg(clip: str, date: str, width: int) -> OutputEntry:
        return shown(
            image__svg_xml=f"<svg><dc:date>{date}</dc:date>"
            f'<clipPath id="{clip}"><rect width="{width}"/></clipPath>'
            f'<g clip-path="url(#{clip})"/></svg>'
        )

    a = svg("p0a1b2c3d4", "2026-11-29T21:33:29.123456", 5)
    assert verdict(a, svg("pffa1b2c3d9", "2026-11-30T01:00:00.500000", 5)) == "volatile"
    assert verdict(a, svg("pffa1b2c3d9", "2026-11-30T01:00:00.500000", 6)) == "different"


# images -------------------------------------------------------------------------------------


def png(pixels: bytes, *notes: tuple[bytes, bytes], split: int = 1 << 20) -> str:
    def chunk(kind: bytes, body: bytes) -> bytes:
        check = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", check)

    data = zlib.compress(pixels)
    whole = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0))
    for kind, body in notes:
        whole += chunk(kind, body)
    for start in range(0, len(data), split):
        whole += chunk(b"IDAT", data[start : start + split])
    return base64.b64encode(whole + chunk(b"IEND", b"")).decode()


def test_images_are_compared_by_their_pixels() -> None:
    plain_image = shown(image__png=png(b"abc"))
    assert verdict(plain_image, shown(image__png=png(b"abc") + "\n")) == "same"
    dated = shown(image__png=png(b"abc", (b"tEXt", b"Creation Time\0now"), (b"tIME", b"1234567")))
    assert verdict(plain_image, dated) == "volatile"
    assert verdict(plain_image, shown(image__png=png(b"abc", split=3))) == "volatile"
    assert verdict(plain_image, shown(image__png=png(b"abd"))) == "different"
    assert verdict(plain_image, shown(image__png=png(b"abc", (b"gAMA", b"0001")))) == "different"
    assert verdict(shown(image__jpeg="AAAA"), shown(image__jpeg="AAAB")) == "different"


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_broken_images_are_compared_by_their_bytes(a: bytes, b: bytes) -> None:
    head = b"\x89PNG\r\n\x1a\n"
    both = [shown(image__png=base64.b64encode(head + each).decode()) for each in (a, b)]
    expected = "same" if a == b else "different"
    assume(b"IEND" not in a + b)
    assert verdict(both[0], both[1]) == expected
    assert verdict(shown(image__png="not base64"), shown(image__png="nor this")) == "different"


# errors and ends ----------------------------------------------------------------------------


def test_an_error_is_its_name_value_and_traceback() -> None:
    base = error("at 0x7f0000000010", "line 1", "line 2")
    assert verdict(base, error("at 0x7f0000000020", "line 1", "line 2")) == "volatile"
    assert verdict(base, error("other", "line 1", "line 2")) == "different"
    assert verdict(base, error("at 0x7f0000000010", "line 1", "line 3")) == "different"
    assert verdict([base, reply("error")], [reply("ok")]) == "different"


def test_missing_and_extra_outputs_are_named() -> None:
    comparison = compare([out("a"), result("1"), reply()], [out("a"), reply()])
    assert [(d.where, d.kind) for d in comparison.differences] == [("execute_result", "missing")]
    comparison = compare([reply()], [out("Warning: new\n", "stderr"), reply()])
    assert [(d.where, d.kind) for d in comparison.differences] == [("stderr", "extra")]
    comparison = compare([shown(text__plain="x")], [shown(text__plain="x", text__html="<b>")])
    assert [(d.where, d.kind) for d in comparison.differences] == [
        ("display_data text/html", "extra")
    ]


def test_a_diff_shows_the_lines_that_changed() -> None:
    a = "".join(f"line {i}\n" for i in range(1000))
    (difference,) = compare([out(a)], [out(a.replace("line 500\n", "LINE\n"))]).differences
    assert difference.diff.splitlines() == [
        "@@ line 501 @@",
        " line 498",
        " line 499",
        "-line 500",
        "+LINE",
        " line 501",
        " line 502",
    ]


def record(limit: int, *entries: OutputEntry) -> tuple[list[OutputEntry], bool]:
    recorder = OutputRecorder(limit)
    for entry in entries:
        recorder.add(entry)
    return recorder.take(), recorder.cut


@pytest.mark.parametrize("limits", [(50, 50), (50, 90), (90, 50), (50, 10_000), (10_000, 50)])
def test_a_cut_record_is_compared_up_to_the_cut_and_by_its_end(limits: tuple[int, int]) -> None:
    def both(change: str, status: str = "ok") -> str:
        lines = [out(f"{i:09}\n") for i in range(100)]
        (a, a_cut), (b, b_cut) = (
            record(limits[0], *lines, reply()),
            record(limits[1], out(change), *lines[1:], reply(status)),
        )
        return compare(a, b, recorded_cut=a_cut, replayed_cut=b_cut).verdict

    assert both("000000000\n") == "same"
    assert both("00000000x\n") == "different"
    assert both("000000000\n", "error") == "different"


# bounds -------------------------------------------------------------------------------------


def test_what_is_reported_is_bounded() -> None:
    left = [result(f"{i} " + "x" * 10_000) for i in range(1000)]
    right = [result(f"{i} " + "y" * 10_000) for i in range(1000)]
    comparison = compare(left, right)
    assert len(comparison.differences) == LISTED
    assert comparison.omitted == 1000 - LISTED
    assert comparison.verdict == "different"
    for each in comparison.differences:
        assert max(len(each.recorded), len(each.replayed)) <= EXCERPT + 1
        assert len(each.diff) < 20_000


@pytest.mark.parametrize(
    "hurtful",
    [
        "1" * 400_000,
        "1 " * 200_000,
        "a" * 400_000,
        "/" * 400_000,
        "/a" * 200_000,
        "[0:00" * 80_000,
        "took " * 80_000,
        "passed " * 60_000,
        "0x" + "f" * 400_000,
        "\r" * 400_000,
        "at 0x " * 60_000,
        "pid: " * 80_000,
        "id='" * 80_000,
        "ipykernel_" * 40_000,
        "\x1b[" * 200_000,
        "1," * 200_000,
        "2026-11-29 " * 40_000,
    ],
)
def test_no_text_makes_a_pattern_take_more_than_linear_time(hurtful: str) -> None:
    began = time.perf_counter()
    for markup in (False, True):
        compare_texts(hurtful + "\n x", hurtful + "\n y", markup=markup)
    assert verdict(error("v", hurtful + "\n x"), error("v", hurtful + "\n y")) == "different"
    assert time.perf_counter() - began < 10


# steps beside cells ---------------------------------------------------------------------------


def command(text: str, **result: Any) -> list[OutputEntry]:
    """What is recorded of a command: its streams, and its end."""
    stream = {"bytes": len(text), "lines": text.count("\n"), "cut": False, "file": None}
    whole = {"exit_code": 0, "signal": None, "timed_out": False, "stdout": stream, **result}
    reply = OutputEntry("step_reply", {"status": "ok", "result": whole})
    return [OutputEntry("stream", {"name": "stdout", "text": text}), reply]


def test_how_a_command_ended_counts_and_how_long_it_took_does_not() -> None:
    once = command("hi\n", duration_us=5, duration_s=0.5)
    assert compare(once, command("hi\n", duration_us=7, duration_s=0.7)).verdict == "same"
    for other in ({"exit_code": 1}, {"signal": 9}, {"timed_out": True}, {"command": 4}):
        found = compare(once, command("hi\n", **other))
        assert found.verdict == "different", other
        assert found.differences[0].where.startswith("step_reply")


def test_what_a_command_wrote_is_said_by_its_streams_alone() -> None:
    took = command("took 9.9 s\n"), command("took 10.1 s\n")  # a byte more
    assert compare(*took).verdict == "volatile"
    kept = {"bytes": 9, "lines": 1, "cut": True, "file": ".reprise/commands/3/stdout"}
    elsewhere = {**kept, "file": ".reprise/commands/4/stdout"}
    assert compare(command("x", stdout=kept), command("x", stdout=elsewhere)).verdict == "same"
    longer = {**kept, "bytes": 10}
    assert compare(command("x", stdout=kept), command("x", stdout=longer)).verdict == "different"
    whole = {**kept, "cut": False}
    assert compare(command("x", stdout=kept), command("x", stdout=whole)).verdict == "different"


def test_a_command_whose_record_was_cut_still_tells_its_end() -> None:
    left, right = command("a" * 50), command("a" * 20, exit_code=2)
    found = compare(left, right, recorded_cut=True)
    assert [each.where for each in found.differences] == ["step_reply exit_code"]
