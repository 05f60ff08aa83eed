"""Reading /metrics: real dumps of two versions, an old spelling, and servers that misbehave."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from backend.engine.metrics import MOST_REFUSALS, MetricsProbe, MetricsSample, parse_metrics
from tests.fakes.fake_specs import eventually

DUMPS = Path(__file__).parent / "metrics"


@pytest.mark.parametrize("version", ["0.19.1", "0.32.0"])
def test_a_real_dump_is_understood(version: str) -> None:
    sample = parse_metrics((DUMPS / f"vllm-{version}.txt").read_text(), taken_at=7.0)
    assert sample == MetricsSample(7.0, running=0, waiting=0, kv_use=0.0, preemptions=0.0, offloaded_bytes=None)


def test_ranks_are_summed_and_the_fullest_cache_counts() -> None:
    text = "\n".join(
        [
            "# TYPE vllm:num_requests_waiting gauge",
            'vllm:num_requests_waiting{engine="0"} 2.0',
            'vllm:num_requests_waiting{engine="1"} 3.0',
            "# TYPE vllm:kv_cache_usage_perc gauge",
            'vllm:kv_cache_usage_perc{engine="0"} 0.25',
            'vllm:kv_cache_usage_perc{engine="1"} 0.75',
            "# TYPE vllm:num_preemptions counter",
            'vllm:num_preemptions_total{engine="0"} 4.0',
            "# TYPE vllm:kv_offload_load_bytes counter",
            'vllm:kv_offload_load_bytes_total{transfer_type="CPU_to_GPU"} 100.0',
            "# TYPE vllm:kv_offload_total_bytes counter",
            'vllm:kv_offload_total_bytes_total{transfer_type="CPU_to_GPU"} 100.0',
            'vllm:kv_offload_total_bytes_total{transfer_type="GPU_to_CPU"} 50.0',
            "",
        ]
    )
    expected = MetricsSample(0.0, waiting=5, kv_use=0.75, preemptions=4.0, offloaded_bytes=150.0)
    assert parse_metrics(text, taken_at=0.0) == expected


def test_the_old_name_of_the_cache_is_known() -> None:
    assert parse_metrics("vllm:gpu_cache_usage_perc 0.5\n", taken_at=0.0).kv_use == 0.5


def test_another_programs_metrics_tell_nothing_and_a_malformed_line_is_an_error() -> None:
    assert parse_metrics("process_cpu_seconds_total 5\n", taken_at=0.0) == MetricsSample(0.0)
    assert parse_metrics("<html>what {is this", taken_at=0.0) == MetricsSample(0.0)
    with pytest.raises(ValueError):
        parse_metrics("vllm:num_requests_running many\n", taken_at=0.0)


@asynccontextmanager
async def serving(answer: Callable[[], bytes]) -> AsyncIterator[tuple[str, list[int]]]:
    """A server that gives this answer to everything; its url, and a count of questions."""
    asked: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.append(1)
        writer.write(answer())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/metrics", asked


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


async def test_a_probe_reads_a_sample_and_drops_it_when_the_next_scrape_fails() -> None:
    answers = [http(b"vllm:num_requests_running 2\n"), b"rubbish"]
    async with serving(lambda: answers.pop(0)) as (url, asked):
        probe = MetricsProbe(url)
        assert probe.latest is None
        probe.ask(now=1.0)
        await eventually(lambda: probe.latest == MetricsSample(1.0, running=2), what="a sample")
        probe.ask(now=2.0)
        await eventually(lambda: len(asked) == 2 and probe.latest is None, what="no old sample")
        await probe.close()


async def test_a_server_without_metrics_is_asked_only_a_few_times() -> None:
    async with serving(lambda: http(b"", "404 Not Found")) as (url, asked):
        probe = MetricsProbe(url)
        for count in range(1, MOST_REFUSALS + 1):
            probe.ask(now=0.0)
            await eventually(lambda count=count: len(asked) == count and probe.is_idle, what="a refusal")  # type: ignore[misc]
        probe.ask(now=0.0)
        await asyncio.sleep(0.05)
        assert len(asked) == MOST_REFUSALS
        await probe.close()


async def test_an_answer_that_is_too_long_is_not_read() -> None:
    async with serving(lambda: http(b"vllm:num_requests_running 2\n" * 100_000)) as (url, asked):
        probe = MetricsProbe(url)
        probe.ask(now=1.0)
        await eventually(lambda: len(asked) == 1 and probe.is_idle, what="the scrape")
        assert probe.latest is None
        await probe.close()
