"""Tokens are counted by the API where a key is there, and estimated, said so and too many elsewhere."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprise.errors import UnavailableError
from reprise.skills.counting import Counter, has_key
from reprise.skills.tokens import MAX_LOOKED_AT, Tokens, estimate
from tests.fixtures.model import HANG_UP, KEY, ModelServer, error, overloaded, rate_limited
from tests.fixtures.model import tokens as model_tokens

#: What each text takes by the most of three tokenizers: Claude 2's as published, and ctok 1.3's
#: reconstructions of Claude 3 to 4.6 and of 4.7 to 5 (docs/skill-disclosure.md).
MEASURED = {
    "数据分析是指用适当的统计分析方法对收集来的大量数据进行分析，将它们加以汇总和理解并消化。": 45,  # noqa: RUF001
    "データ分析とは、収集したデータを目的に応じて整理し、有用な情報を引き出すことである。": 38,
    "데이터 분석은 유용한 정보를 발굴하고 결론 내용을 알리며 의사 결정을 지원하는 것을 목표로 한다.": 55,
    "Анализ данных — область математики и информатики, занимающаяся построением и исследованием алгоритмов.": 53,
    "تحليل البيانات هو عملية فحص البيانات وتنقيتها وتحويلها ونمذجتها بهدف اكتشاف معلومات مفيدة": 78,
    "डेटा विश्लेषण डेटा का निरीक्षण, सफाई, रूपांतरण और मॉडलिंग की प्रक्रिया है।": 88,
    "การวิเคราะห์ข้อมูลคือกระบวนการตรวจสอบ ทำความสะอาด แปลง และสร้างแบบจำลองข้อมูล": 129,
    "Η ανάλυση δεδομένων είναι η διαδικασία επιθεώρησης, καθαρισμού και μετασχηματισμού": 95,  # noqa: RUF001
    "Die Datenanalyse ist ein Prozess der Prüfung, Bereinigung, Umwandlung und Modellierung von Daten "
    "für Entscheidungsunterstützung": 60,
    "Phân tích dữ liệu là quá trình kiểm tra, làm sạch, chuyển đổi và mô hình hóa dữ liệu": 57,
    "∀x∈ℝ: ∑ᵢ xᵢ² ≥ 0 ⇒ ∥x∥ ≠ ∞": 50,  # noqa: RUF001
    "9f3ac41b7e2d4f60a8b1c2d3e4f5061728394a5b6c7d8e9f": 40,
    "qzxwvkjpqrtyhgfdsbnm" * 3: 60,
    "!@#$%^&*()_+{}|:<>?~`-=[]\\;',./": 28,
    "PDF and DOCX": 9,
    "https://example.org/a/b": 10,
}


@pytest.mark.parametrize("text", MEASURED, ids=range(len(MEASURED)))
def test_an_estimate_is_not_below_what_was_counted(text: str) -> None:
    assert estimate(text) >= MEASURED[text]


@given(st.text(), st.text())
def test_parts_never_take_less_than_the_whole(first: str, second: str) -> None:
    assert estimate(first + "\n" + second) <= estimate(first + "\n") + estimate(second)


@given(st.text(min_size=1))
def test_an_estimate_is_bounded_by_what_a_text_holds(text: str) -> None:
    """What is said of odd texts is no invention: some tokens, and few more than bytes."""
    size = len(text.encode("utf-8", "surrogatepass"))
    assert 1 <= estimate(text) <= 3 * size + 3


def test_nothing_takes_nothing() -> None:
    assert estimate("") == 0


def test_a_text_of_megabytes_is_estimated_by_its_beginning() -> None:
    text = "word " * (MAX_LOOKED_AT // 5)
    assert estimate(text * 3) == pytest.approx(3 * estimate(text), rel=0.01)


def test_an_estimate_is_labelled() -> None:
    assert (str(Tokens(1234)), str(Tokens(1234, counted=True))) == ("~1,234", "1,234")


async def test_the_api_counts_a_text_without_the_message_around_it(model: ModelServer) -> None:
    async with Counter() as counter:
        counted = await counter.count(["four words of text", "x" * 9])
    assert counted == [
        Tokens(model_tokens("four words of text"), counted=True),
        Tokens(3, counted=True),
    ]
    assert model.requests[0].body["messages"][0]["content"] == "."
    assert {request.path for request in model.requests} == {"/v1/messages/count_tokens"}


async def test_what_the_api_takes_for_no_text_is_estimated(model: ModelServer) -> None:
    async with Counter() as counter:
        assert await counter.count(["", " \n", "a"]) == [
            Tokens(0),
            Tokens(estimate(" \n")),
            Tokens(1, counted=True),
        ]


async def test_overload_and_limits_are_waited_for(model: ModelServer) -> None:
    model.next(overloaded(), rate_limited())
    async with Counter() as counter:
        assert await counter.count(["abcd"]) == [Tokens(1, counted=True)]
    assert len(model.requests) == 4


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (error(401, "authentication_error", f"invalid x-api-key {KEY}"), "does not take this key"),
        (error(400, "invalid_request_error", f"bad {KEY}"), "does not take this request"),
        (error(404, "not_found_error", KEY), "knows no such model"),
        (error(403, "permission_error", KEY), "may not do that"),
        (error(500, "api_error", KEY), "failed (status 500)"),
        (overloaded(), "overloaded"),
        (rate_limited(), "too many requests"),
        (HANG_UP, "cannot be reached"),
    ],
)
async def test_no_error_holds_the_key_and_each_says_why(
    model: ModelServer, answer: object, said: str
) -> None:
    model.next(*[answer] * 3)  # type: ignore[list-item]
    async with Counter() as counter:
        with pytest.raises(UnavailableError) as raised:
            await counter.count(["text"])
    assert said in str(raised.value)
    shown = [str(raised.value), repr(raised.value), repr(raised.value.__cause__)]
    assert not any(KEY in text or KEY[-8:] in text for text in shown)
    assert raised.value.__suppress_context__


async def test_one_failure_among_many_is_told_once_and_leaves_nothing_running(
    model: ModelServer,
) -> None:
    async with Counter() as counter:
        await counter.count(["warm"])
        model.next(*[error(400, "invalid_request_error", "no")] * 8)
        with pytest.raises(UnavailableError):
            await counter.count([f"text {number}" for number in range(20)])
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_model_that_the_api_does_not_know_is_told(model: ModelServer) -> None:
    async with Counter("claude-none-0") as counter:
        with pytest.raises(UnavailableError, match="claude-none-0: it knows no such model"):
            await counter.count(["text"])


async def test_nobody_listens(model: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with Counter() as counter:
        with pytest.raises(UnavailableError, match=r"127\.0\.0\.1 did not count"):
            await counter.count(["text"])


def test_a_key_is_there_or_not() -> None:
    assert has_key({"ANTHROPIC_API_KEY": "x"})
    assert has_key({"ANTHROPIC_AUTH_TOKEN": "x"})
    assert not has_key({"ANTHROPIC_API_KEY": ""})
    assert not has_key({})
