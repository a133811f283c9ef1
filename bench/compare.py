#!/usr/bin/env python3
"""warpwave beside cuBLAS, cuDNN, torch.compile, plain Triton and, where they can be imported, Liger, FlashInfer and FlashAttention-4.

All contenders of a row run in turn, window by window, on one card in one run; the order turns round every other round. Every goal is a ratio
inside such a run: absolute figures move with the card and its power limit. warpwave runs in a process of its own (`warpwave bench --serve`)
and answers one window at a time; nothing else runs on the card meanwhile. See README.md beside this file.
"""

import argparse
import datetime
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

import row_ops
from dataclasses import dataclass, field

ROTATE = 512 << 20  # bytes that the copies of a problem cover together: more than any L2
MOST = 2048  # copies, and runs of a graph, at most
GRAPH_BELOW_US = 100.0
GRAPH_US = 2000.0


# ---------------------------------------------------------------- rows


@dataclass
class Row:
    name: str
    group: str  # memory, rows, backward, matmul, attention
    kind: str
    problem: str  # as warpwave reads it
    shape: tuple
    bytes: int
    flops: int = 0
    causal: bool = False
    dtype: str = "bf16"

    def rate(self, us):
        """TFLOP/s, or TB/s for what memory limits."""
        return self.flops / us / 1e6 if self.flops else self.bytes / us / 1e6

    @property
    def unit(self):
        return "TFLOP/s" if self.flops else "TB/s"


def vector_add(n):
    return Row(f"vector_add f32 {n}", "memory", "vector_add", f"vector_add x=f32[{n}] y=f32[{n}]", (n,), 12 * n, dtype="f32")


def softmax(rows, n, dtype="bf16"):
    size = 4 if dtype == "f32" else 2
    return Row(f"softmax {dtype} {rows}x{n}", "memory", "softmax", f"softmax x={dtype}[{rows},{n}]", (rows, n), 2 * size * rows * n, dtype=dtype)


def matmul(m, n, k):
    problem = f"matmul a=bf16[{m},{k}] b=bf16[{k},{n}]"
    return Row(f"matmul bf16 {m}x{n}x{k}", "matmul", "matmul", problem, (m, n, k), 2 * (m * k + k * n + m * n), 2 * m * n * k)


def attention(b, h, n, d, causal):
    t = f"bf16[{b},{h},{n},{d}]"
    problem = f"attention q={t} k={t} v={t}" + (" causal=true" if causal else "")
    flops = 4 * b * h * n * n * d // (2 if causal else 1)
    name = f"attention bf16 {b}x{h}x{n}x{d} {'causal' if causal else 'full'}"
    return Row(name, "attention", "attention", problem, (b, h, n, d), 8 * b * h * n * d + 4 * b * h * n, flops, causal)


def row_op(name, shape):
    kind = row_ops.KINDS[name]
    text = "x".join(map(str, shape))
    return Row(f"{name} {kind.dtype} {text}", "backward" if name.endswith("_bwd") else "rows", name, kind.problem(shape), shape, kind.bytes(shape), dtype=kind.dtype)


def rows(quick):
    if quick:
        return [
            vector_add(1 << 28), softmax(8192, 8192), softmax(512, 128256),
            matmul(4096, 4096, 4096), matmul(8192, 8192, 8192), matmul(4095, 4097, 4093),
            attention(4, 16, 4096, 128, False),
        ]  # fmt: skip
    memory = [vector_add(1 << 28), softmax(1823, 781, "f32"), softmax(8192, 8192), softmax(4096, 32768), softmax(512, 128256)]
    memory += [softmax(8191, 1000), softmax(8191, 1001)]
    products = [
        (4096, 4096, 4096), (8192, 8192, 8192), (4096, 14336, 4096), (8192, 8192, 1024), (2048, 2048, 2048), (4095, 4097, 4093),
        (1000, 1000, 1000), (512, 1024, 768), (128, 28672, 8192), (16, 8192, 8192), (1, 8192, 8192),
    ]  # fmt: skip
    heads = [(4, 16, 4096, 128), (1, 16, 16384, 128), (4, 16, 4096, 64)]
    memory += [row_op(*r) for r in row_ops.FORWARD + row_ops.BACKWARD]
    return memory + [matmul(*p) for p in products] + [attention(*s, causal) for s in heads for causal in (False, True)]


def tiny_rows():
    small = {"rope": (2, 7, 3, 64), "rope_bwd": (2, 7, 3, 64), "relu_dropout": (100,), "relu_dropout_bwd": (100,)}
    ops = [row_op(name, small.get(name, (7, 96))) for name in row_ops.KINDS]
    return [vector_add(1000), softmax(7, 100), *ops, matmul(64, 48, 40), attention(1, 2, 70, 64, True)]


# ---------------------------------------------------------------- warpwave


class Server:
    """`warpwave bench --serve`."""

    def __init__(self, program, device):
        self.process = subprocess.Popen(
            [program, "bench", "--serve", "--device", device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.about = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"warpwave ended with {self.process.wait()}")
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(reply["error"])
        return reply

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        try:
            self.process.stdin.write("quit\n")
            self.process.stdin.close()
            self.process.wait(timeout=20)
        except Exception:
            self.process.kill()


class Warpwave:
    """A plan of the problem that the server holds. `plan` None: the op's first choice."""

    def __init__(self, server, info, plan=None):
        self.server, self.info = server, info
        self.plan = plan or info["plan"]

    def window(self, ms):
        if self.info.get("now") != self.plan:
            self.server.ask(f"plan {self.plan}")
            self.info["now"] = self.plan
        return self.server.ask(f"go {ms}")["us"]


class Roof:
    def __init__(self, server):
        self.server = server

    def window(self, ms):
        return self.server.ask(f"roof {min(ms, 100)}")["us"]


# ---------------------------------------------------------------- torch and everything that runs in this process


class Timed:
    """`runs[i]()` computes on copy i of the operands; measured as warpwave measures itself."""

    def __init__(self, torch, runs):
        self.torch, self.runs, self.next, self.graph, self.graph_runs = torch, runs, 0, None, 0
        self.runs[0]()
        torch.cuda.synchronize()
        count = 1
        while True:
            us = self._time_runs(count)
            self.estimate = max(us / count, 0.05)
            if us > 5000 or count >= MOST:
                break
            count = min(count * 4, MOST)
        if self.estimate < GRAPH_BELOW_US:
            self._capture()

    def _capture(self):
        torch, copies = self.torch, len(self.runs)
        total = max(int(GRAPH_US / self.estimate) // copies, 1) * copies
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for run in self.runs[:3]:
                run()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                # what a run returns stays alive for one turn, so that outputs lie in different memory too
                self.kept = []
                for i in range(total):
                    if i % copies == 0:
                        self.kept = []
                    self.kept.append(self.runs[i % copies]())
        except Exception:  # an op that allocates or waits cannot be captured: events then
            torch.cuda.synchronize()
            return
        self.graph, self.graph_runs = graph, total
        self._time_graph(1)
        self.estimate = max(self._time_graph(1) / total, 0.05)

    def _events(self, body):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        body()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def _time_runs(self, count):
        def body():
            for _ in range(count):
                self.runs[self.next]()
                self.next = (self.next + 1) % len(self.runs)

        return self._events(body)

    def _time_graph(self, launches):
        return self._events(lambda: [self.graph.replay() for _ in range(launches)])

    def window(self, ms):
        us = ms * 1e3
        if self.graph is not None:
            launches = max(int(us / (self.estimate * self.graph_runs)), 1)
            mean = self._time_graph(launches) / (launches * self.graph_runs)
        else:
            count = max(int(us / self.estimate), 1)
            mean = self._time_runs(count) / count
        self.estimate = max(mean, 0.05)
        self.torch.cuda.synchronize()
        return mean


class Torch:
    """Makes the contenders of a row that live in this process."""

    def __init__(self, args):
        import torch

        self.torch, self.args = torch, args
        torch.manual_seed(1)
        self.modules = {}
        self.versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}

    def module(self, name):
        """A module, or None; what importing it said is kept."""
        if name not in self.modules:
            try:
                __import__(name)
                self.modules[name] = sys.modules[name]
            except Exception as e:  # a wheel for another card or another torch fails in many ways
                self.modules[name] = f"{type(e).__name__}: {e}".split("\n")[0]
        found = self.modules[name]
        if isinstance(found, str):
            raise ImportError(found)
        return found

    def copies(self, row):
        torch = self.torch
        total = torch.cuda.get_device_properties(0).total_memory
        count = max(min(math.ceil(ROTATE / row.bytes), MOST, int(total / 5 / row.bytes)), 1)
        dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[row.dtype]

        def normal(*shape):
            return torch.randn(*shape, device="cuda", dtype=torch.float32).to(dtype) if math.prod(shape) < 1 << 26 else torch.randn(*shape, device="cuda", dtype=dtype)

        sets = []
        if row.kind in row_ops.KINDS:
            return [row_ops.KINDS[row.kind].make(torch, row.shape) for _ in range(count)]
        for _ in range(count):
            if row.kind == "vector_add":
                x, y = normal(*row.shape), normal(*row.shape)
                sets.append((x, y, torch.empty_like(x)))
            elif row.kind == "softmax":
                x = normal(*row.shape)
                sets.append((x, torch.empty_like(x)))
            elif row.kind == "matmul":
                m, n, k = row.shape
                sets.append((normal(m, k), normal(k, n), torch.empty(m, n, device="cuda", dtype=dtype)))
            else:
                q, k, v = (normal(*row.shape) for _ in range(3))
                sets.append((q, k, v, torch.empty_like(q)))
        return sets

    def ways(self, row):
        """(name, function of one copy) for each contender; making the function may fail."""
        return self.ways_row_op(row_ops.KINDS[row.kind]) if row.kind in row_ops.KINDS else getattr(self, "ways_" + row.kind)(row)

    def ways_row_op(self, kind):
        torch = self.torch
        inputs = len(kind.make(torch, (64,) * (4 if kind.name == "rope" else 2)))
        if kind.torch(torch):
            yield "torch", lambda: kind.torch(torch)
        if kind.plain(torch):
            yield "torch.compile", lambda: self.compiled(kind.plain(torch), "default", inputs)

        def liger():
            self.module("liger_kernel")
            return kind.liger(torch)

        try:
            import liger_kernel  # noqa: F401

            has = kind.liger(torch) is not None
        except Exception:
            has = type(kind).liger is not row_ops.Kind.liger
        if has:
            yield "Liger", liger

    def ways_vector_add(self, row):
        torch = self.torch
        yield "torch", lambda: lambda s: torch.add(s[0], s[1], out=s[2])
        yield "Triton", lambda: self.triton("vector_add")

    def ways_softmax(self, row):
        torch = self.torch
        yield "torch", lambda: lambda s: torch.softmax(s[0], -1)
        yield "torch.compile", lambda: self.compiled(lambda x: torch.softmax(x, -1), "default", 1)
        yield "Triton", lambda: self.triton("softmax")
        yield "Liger", self.liger_softmax

    def ways_matmul(self, row):
        torch = self.torch
        configs = 2 if self.args.quick else None
        yield "cuBLAS", lambda: lambda s: torch.matmul(s[0], s[1], out=s[2])
        yield "torch.compile", lambda: self.compiled(torch.matmul, "max-autotune-no-cudagraphs", 2)
        yield "Triton", lambda: self.triton("matmul", configs=configs)

    def ways_attention(self, row):
        b, h, n, d = row.shape
        configs = 2 if self.args.quick else None
        yield "cuDNN", lambda: self.sdpa("CUDNN_ATTENTION", row)
        yield "FA2 (torch)", lambda: self.sdpa("FLASH_ATTENTION", row)
        yield "Triton", lambda: self.triton("attention", causal=row.causal, configs=configs)
        yield "FlashAttention-4", lambda: self.flash4(row)
        yield "FlashInfer", lambda: self.flashinfer(row)

    def compiled(self, function, mode, inputs):
        if self.args.no_compile or time.monotonic() > self.args.deadline:
            raise RuntimeError("left out to save time" if not self.args.no_compile else "left out by --no-compile or --quick")
        self.torch._dynamo.reset()
        f = self.torch.compile(function, mode=mode, dynamic=False)
        return lambda s: f(*s[:inputs])

    def triton(self, name, configs=None, **more):
        import kernels_triton

        self.versions["triton"] = self.module("triton").__version__
        f = getattr(kernels_triton, name)
        if configs is not None:
            more["configs"] = getattr(kernels_triton, name.upper() + "_CONFIGS")[:configs]
        return lambda s: f(*s, **more)

    def liger_softmax(self):
        self.module("liger_kernel")
        from liger_kernel.ops.softmax import LigerSoftmaxFunction

        return lambda s: LigerSoftmaxFunction.apply(s[0])

    def sdpa(self, backend, row):
        from torch.nn.attention import SDPBackend, sdpa_kernel

        sdp = self.torch.nn.functional.scaled_dot_product_attention

        def run(s):
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return sdp(s[0], s[1], s[2], is_causal=row.causal)

        return run

    def flash4(self, row):
        self.module("flash_attn.cute")
        from flash_attn.cute import flash_attn_func

        def run(s):
            q, k, v = (t.transpose(1, 2) for t in s[:3])  # [B, N, H, D]
            out = flash_attn_func(q, k, v, causal=row.causal)
            return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

        return run

    def flashinfer(self, row):
        f = self.module("flashinfer")
        torch = self.torch
        b, h, n, d = row.shape
        workspace = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
        w = f.BatchPrefillWithRaggedKVCacheWrapper(workspace, "NHD")
        starts = torch.arange(b + 1, device="cuda", dtype=torch.int32) * n
        w.plan(starts, starts, h, h, d, causal=row.causal, q_data_type=torch.bfloat16)
        # its layout is [tokens, heads, D]: the same bytes, seen so
        return lambda s: w.run(*(t.view(b * n, h, d) for t in s[:3])).view(b, h, n, d)

    def want(self, row, s):
        torch = self.torch
        if row.kind in row_ops.KINDS:
            return row_ops.KINDS[row.kind].want(torch, s)
        if row.kind == "vector_add":
            return s[0] + s[1]
        if row.kind == "softmax":
            return torch.softmax(s[0].float(), -1)
        if row.kind == "matmul":
            return s[0].float() @ s[1].float()
        return torch.nn.functional.scaled_dot_product_attention(s[0], s[1], s[2], is_causal=row.causal)

    def contenders(self, row, absent):
        torch = self.torch
        sets = self.copies(row)
        want = self.want(row, sets[0])
        made = {}
        for name, make in self.ways(row):
            try:
                function = make()
                got = function(sets[0])
                torch.cuda.synchronize()
                # FlashInfer sees other rows of the same memory: its result is another one
                if name != "FlashInfer" and want is not None:
                    pairs = zip(got, want, strict=False) if isinstance(want, tuple) else [(got[0] if isinstance(got, tuple) else got, want)]
                    for g, w in pairs:
                        error, scale = difference(g, w)
                        if not error <= 0.03 * scale:
                            raise RuntimeError(f"a wrong result: off by {error:.3g} where the largest value is {scale:.3g}")
                del got
                made[name] = Timed(torch, [lambda s=s: function(s) for s in sets] if len(sets) == 1 else bind_all(function, sets))
            except Exception as e:
                absent.append((row.name, name, f"{type(e).__name__}: {e}".split("\n")[0]))
                torch.cuda.synchronize()
        return made

    def free(self):
        self.torch.cuda.synchronize()
        import gc

        gc.collect()
        self.torch.cuda.empty_cache()


def difference(got, want):
    """Largest difference and largest value, piece by piece: a difference of gigabytes needs no more memory than its pieces."""
    got, want = got.reshape(-1), want.reshape(-1)
    error = scale = 0.0
    for g, w in zip(got.split(1 << 28), want.split(1 << 28), strict=True):
        error = max(error, (g.float() - w.float()).abs().max().item())
        scale = max(scale, w.float().abs().max().item())
    return error, scale


def bind_all(function, sets):
    return [lambda s=s: function(s) for s in sets]


class Fake:
    """For --dry: a contender that is as fast as its name is long."""

    def __init__(self, name):
        self.us, self.calls = 10.0 * len(name), 0

    def window(self, _ms):
        self.calls += 1
        return self.us * (1 + 0.01 * (self.calls % 3))


# ---------------------------------------------------------------- measuring


@dataclass
class Result:
    row: Row
    us: dict = field(default_factory=dict)  # contender -> microseconds, one a round
    plan: str = ""
    clocks: list = field(default_factory=list)

    def median(self, name):
        return statistics.median(self.us[name])


def smi(query):
    try:
        out = subprocess.run(
            ["nvidia-smi", "-i", "0", f"--query-gpu={query}", "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=20
        )
        return [s.strip() for s in out.stdout.splitlines()[0].split(",")]
    except Exception:
        return None


def interleave(contenders, rounds, window_ms, warmup_ms):
    """Windows in turn; the order turns round every other round."""
    times = {name: [] for name in contenders}
    clocks = []
    for name, contender in contenders.items():
        contender.window(warmup_ms)
    for i in range(rounds):
        order = list(contenders)
        for name in order if i % 2 == 0 else reversed(order):
            times[name].append(contenders[name].window(window_ms))
        clocks.append(smi("clocks.sm,power.draw"))
    return times, [c for c in clocks if c]


def measure(row, server, local, args, absent):
    result = Result(row)
    contenders = {}
    if server:
        try:
            info = server.ask(row.problem)
            info["now"] = result.plan = info["plan"]
            contenders["warpwave"] = Warpwave(server, info)
            other = next((p for p in info["plans"][1:] if p.endswith(".multistage")), None)
            if other and not args.quick:
                contenders["warpwave sm_80"] = Warpwave(server, info, other)
            try:
                server.ask("roof 10")
                contenders["roof"] = Roof(server)
            except RuntimeError as e:
                absent.append((row.name, "roof", str(e).split("\n")[0]))
        except RuntimeError as e:
            absent.append((row.name, "warpwave", str(e).split("\n")[0]))
    if args.dry:
        contenders.update({name: Fake(name) for name in ("torch", "Triton") + (() if server else ("warpwave", "roof"))})
    else:
        contenders.update(local.contenders(row, absent))
    window = min(args.window_ms, 100) if not row.flops else args.window_ms
    # a switch of plans makes the plan ready again: it must not fall into a window of another contender, and it does not
    result.us, result.clocks = interleave(contenders, args.rounds, window, window)
    contenders.clear()
    if server:
        server.ask("free")
    if local:
        local.free()
    return result


# ---------------------------------------------------------------- reports


def best_anchor(result):
    others = {n: result.median(n) for n in result.us if n != "roof" and not n.startswith("warpwave")}
    return min(others.items(), key=lambda x: x[1]) if others else None


def markdown(results, absent, about):
    names = []
    for r in results:
        names += [n for n in r.us if n not in names and n != "roof"]
    head = ["work", "unit", *names, "roof / warpwave µs", "best anchor / warpwave"]
    lines = [f"{about['device']}, {about['versions']}, {about['date']}", ""]
    lines += ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    for r in results:
        cells = [r.row.name, r.row.unit]
        for n in names:
            if n not in r.us:
                cells.append("–")
                continue
            us = r.median(n)
            spread = (max(r.us[n]) - min(r.us[n])) / us
            digits = 0 if r.row.flops and r.row.rate(us) >= 10 else 2
            cells.append(f"{r.row.rate(us):.{digits}f} ({us:.1f} µs ±{100 * spread:.0f} %)")
        ours = r.median("warpwave") if "warpwave" in r.us else None
        cells.append(f"{r.median('roof'):.1f} / {ours:.1f} = {ours / r.median('roof'):.2f}" if ours and "roof" in r.us else "–")
        anchor = best_anchor(r)
        cells.append(f"**{anchor[1] / ours:.2f}** ({anchor[0]})" if ours and anchor else "–")
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Medians over the rounds of one run, contenders in turn. The last column is above 1 where warpwave is faster."]
    if absent:
        lines += ["", "Not run:"]
        grouped = {}
        for row, name, why in absent:
            grouped.setdefault((name, why), []).append(row)
        for (name, why), where in grouped.items():
            lines.append(f"- {name} ({len(where)} rows, first {where[0]}): {why}")
    return "\n".join(lines) + "\n"


def plots(results, out):
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except Exception as e:
        return f"no plots: {type(e).__name__}: {e}"
    for group in ("memory", "rows", "backward", "matmul", "attention"):
        chosen = [r for r in results if r.row.group == group and r.us]
        if not chosen:
            continue
        names = []
        for r in chosen:
            names += [n for n in r.us if n not in names and (n != "roof" or not r.row.flops)]
        fig, axes = plt.subplots(figsize=(max(7, 1.6 * len(chosen)), 4.5))
        width = 0.85 / len(names)
        for i, n in enumerate(names):
            at = [j + i * width for j, r in enumerate(chosen) if n in r.us]
            axes.bar(at, [r.row.rate(r.median(n)) for r in chosen if n in r.us], width, label=n)
        axes.set_xticks([j + 0.42 - width / 2 for j in range(len(chosen))])
        axes.set_xticklabels([r.row.name.split(" ", 1)[1] if r.row.flops else r.row.name for r in chosen], rotation=20, ha="right", fontsize=8)
        axes.set_ylabel(chosen[0].row.unit)
        axes.set_title(group)
        axes.legend(fontsize=8)
        fig.tight_layout()
        for kind in ("png", "svg"):
            fig.savefig(os.path.join(out, f"{group}.{kind}"), dpi=130)
        plt.close(fig)
    return None


def write(results, absent, about, out):
    os.makedirs(out, exist_ok=True)
    text = markdown(results, absent, about)
    with open(os.path.join(out, "table.md"), "w", encoding="utf-8") as f:
        f.write(text)
    records = [
        {"row": r.row.name, "problem": r.row.problem, "bytes": r.row.bytes, "flops": r.row.flops, "plan": r.plan, "rounds_us": r.us,
         "clocks_mhz_and_watts": r.clocks}
        for r in results
    ]  # fmt: skip
    with open(os.path.join(out, "results.json"), "w", encoding="utf-8") as f:
        json.dump({"about": about, "rows": records, "absent": absent}, f, indent=1)
    return text


def find_program(given):
    if given:
        return given
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "../target/release/warpwave"), os.path.join(here, "warpwave")):
        if os.path.exists(path):
            return path
    return shutil.which("warpwave")


def parse():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--warpwave", help="the program; target/release/warpwave by default")
    p.add_argument("--device", default=None, help="warpwave's device (cuda:0; with --dry cpu)")
    p.add_argument("--rows", default="memory,rows,backward,matmul,attention", help="groups, or parts of row names")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--window-ms", type=int, default=None, help="500; rows that memory limits take 100 at most")
    p.add_argument("--quick", action="store_true", help="seven rows in under four minutes")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile")
    p.add_argument("--out", default="target/bench/compare", help="folder for table.md, results.json and plots")
    p.add_argument("--dry", action="store_true", help="without a GPU: invented contenders, and warpwave on the CPU where it is named")
    p.add_argument("--list", action="store_true", help="print the rows' problems and measure nothing")
    args = p.parse_args()
    if args.window_ms is None:
        args.window_ms = 10 if args.dry else 300 if args.quick else 500
    args.deadline = time.monotonic() + (90 if args.quick else 1e9)
    return args


def main():
    args = parse()
    if args.list:
        print("\n".join(r.problem for r in rows(args.quick) + tiny_rows()))
        return
    start = time.monotonic()
    # the kernels that this file brings lie beside it
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    absent = []
    local = None if args.dry else Torch(args)
    if args.quick and local and not args.no_compile:
        # autotuning three products takes longer than the rest together
        inner = local.compiled

        def compiled(function, mode, inputs):
            if mode.startswith("max-autotune"):
                raise RuntimeError("left out by --quick")
            return inner(function, mode, inputs)

        local.compiled = compiled
    program = args.warpwave if args.dry else find_program(args.warpwave)
    server = None
    if program:
        try:
            server = Server(program, args.device or ("cpu" if args.dry else "cuda:0"))
        except (RuntimeError, OSError) as e:
            absent.append(("all", "warpwave", str(e).split("\n")[0]))
    elif not args.dry:
        absent.append(("all", "warpwave", "no program found"))
    wanted = args.rows.split(",")
    chosen = [r for r in (tiny_rows() if args.dry else rows(args.quick)) if any(w == r.group or w in r.name for w in wanted)]
    about = {
        "date": datetime.date.today().isoformat(),
        "device": local.torch.cuda.get_device_name(0) if local else "no device",
        "driver": (smi("driver_version") or [None])[0],
        "warpwave": server.about if server else None,
        "rounds": args.rounds,
        "window_ms": args.window_ms,
        "quick": args.quick,
    }
    results = []
    try:
        for i, row in enumerate(chosen):
            result = measure(row, server, local, args, absent)
            results.append(result)
            about["versions"] = ", ".join(f"{k} {v}" for k, v in (local.versions if local else {}).items()) or "dry run"
            shown = ", ".join(f"{n} {row.rate(result.median(n)):.3g}" for n in result.us)
            print(f"[{time.monotonic() - start:5.0f} s] {i + 1}/{len(chosen)} {row.name} ({row.unit}): {shown}", flush=True)
            # a run that is cut off leaves what it has
            write(results, absent, about, args.out)
    finally:
        if server:
            server.close()
    about.setdefault("versions", "")
    no_plots = plots(results, args.out)
    if no_plots:
        absent.append(("all", "plots", no_plots))
        print(no_plots)
    print()
    print(write(results, absent, about, args.out))
    print(f"{time.monotonic() - start:.0f} s; written to {args.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
