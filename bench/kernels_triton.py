"""Plain Triton kernels to stand beside warpwave: one page each, in the manner of a tutorial, no statement about Triton at its best.

Each public function returns the output. `best_of` times launch configurations once for a shape and keeps the fastest.
"""

import torch
import triton
import triton.language as tl

_CHOSEN = {}


def best_of(key, configs, launch):
    """The fastest of `configs` for `key`; a configuration that does not compile or fit is left out."""
    if key in _CHOSEN:
        return _CHOSEN[key]
    best, best_ms = None, float("inf")
    for config in configs:
        try:
            launch(config)
            torch.cuda.synchronize()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(5):
                launch(config)
            end.record()
            end.synchronize()
        except Exception:  # too much shared memory, too many registers, ...
            continue
        ms = start.elapsed_time(end)
        if ms < best_ms:
            best, best_ms = config, ms
    if best is None:
        raise RuntimeError(f"no configuration runs for {key}")
    _CHOSEN[key] = best
    return best


@triton.jit
def _add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def vector_add(x, y, out):
    n, block = x.numel(), 4096
    _add[(triton.cdiv(n, block),)](x, y, out, n, BLOCK=block, num_warps=8)
    return out


@triton.jit
def _softmax_held(x, out, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * row_stride
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(out + row + at, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=at < n)


@triton.jit
def _softmax_twice(x, out, n, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * row_stride
    top = -float("inf")
    total = 0.0
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
        high = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - high) + tl.sum(tl.exp(v - high), 0)
        top = high
    for first in range(0, n, BLOCK):
        at = first + tl.arange(0, BLOCK)
        v = tl.load(x + row + at, mask=at < n, other=-float("inf")).to(tl.float32)
        tl.store(out + row + at, (tl.exp(v - top) / total).to(out.dtype.element_ty), mask=at < n)


def softmax(x, out):
    rows, n = x.shape
    if n <= 32768:
        block = triton.next_power_of_2(n)
        warps = 4 if block <= 2048 else 8 if block <= 8192 else 16
        _softmax_held[(rows,)](x, out, n, x.stride(0), BLOCK=block, num_warps=warps)
    else:
        _softmax_twice[(rows,)](x, out, n, x.stride(0), BLOCK=8192, num_warps=16)
    return out


@triton.jit
def _matmul(
    a, b, out, m, n, k, a_m, a_k, b_k, b_n, o_m, o_n,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BAND: tl.constexpr,
):
    # bands of tile rows share what they read of b in the L2
    tile = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(m, BM), tl.cdiv(n, BN)
    band = tile // (BAND * tiles_n)
    rows = min(tiles_m - band * BAND, BAND)
    inside = tile % (BAND * tiles_n)
    tm, tn = band * BAND + inside % rows, inside // rows
    rm, rn, rk = tm * BM + tl.arange(0, BM), tn * BN + tl.arange(0, BN), tl.arange(0, BK)
    pa = a + (rm % m)[:, None].to(tl.int64) * a_m + rk[None, :] * a_k
    pb = b + rk[:, None].to(tl.int64) * b_k + (rn % n)[None, :] * b_n
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for left in range(k, 0, -BK):
        va = tl.load(pa, mask=rk[None, :] < left, other=0.0)
        vb = tl.load(pb, mask=rk[:, None] < left, other=0.0)
        acc = tl.dot(va, vb, acc)
        pa += BK * a_k
        pb += BK * b_k
    po = out + rm[:, None].to(tl.int64) * o_m + rn[None, :] * o_n
    tl.store(po, acc.to(out.dtype.element_ty), mask=(rm[:, None] < m) & (rn[None, :] < n))


# (BM, BN, BK, warps, stages)
MATMUL_CONFIGS = [(128, 256, 64, 8, 3), (128, 128, 64, 4, 4), (128, 128, 64, 8, 3), (64, 128, 64, 4, 4), (64, 64, 64, 4, 4), (128, 64, 64, 4, 4)]


def matmul(a, b, out, configs=None):
    (m, k), n = a.shape, b.shape[1]

    def launch(c):
        grid = (triton.cdiv(m, c[0]) * triton.cdiv(n, c[1]),)
        _matmul[grid](
            a, b, out, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1), out.stride(0), out.stride(1),
            BM=c[0], BN=c[1], BK=c[2], BAND=8, num_warps=c[3], num_stages=c[4],
        )

    launch(best_of(("matmul", m, n, k, a.stride(), b.stride()), configs or MATMUL_CONFIGS, launch))
    return out


@triton.jit
def _attention(
    q, k, v, out, scale_log2, heads, nq, nk, plane_q, plane_k,
    D: tl.constexpr, BQ: tl.constexpr, BK: tl.constexpr, CAUSAL: tl.constexpr,
):
    # tensors are contiguous: one plane for each batch and head, equally many of q and of k
    plane = tl.program_id(1).to(tl.int64)
    iq, ik, d = tl.program_id(0) * BQ + tl.arange(0, BQ), tl.arange(0, BK), tl.arange(0, D)
    vq = tl.load(q + plane * plane_q + iq[:, None] * D + d[None, :], mask=iq[:, None] < nq, other=0.0)
    pk = k + plane * plane_k + ik[None, :] * D + d[:, None]
    pv = v + plane * plane_k + ik[:, None] * D + d[None, :]
    top = tl.full((BQ,), -1.0e30, tl.float32)
    total = tl.zeros((BQ,), tl.float32)
    acc = tl.zeros((BQ, D), tl.float32)
    last = nk
    if CAUSAL:
        last = tl.minimum(nk, tl.program_id(0) * BQ + BQ + nk - nq)
    for first in range(0, last, BK):
        keys = first + ik
        vk = tl.load(pk + first * D, mask=keys[None, :] < nk, other=0.0)
        s = tl.dot(vq, vk) * scale_log2
        seen = keys[None, :] < nk
        if CAUSAL:
            seen = seen & (keys[None, :] <= iq[:, None] + nk - nq)
        s = tl.where(seen, s, -float("inf"))
        high = tl.maximum(top, tl.max(s, 1))
        p = tl.exp2(s - high[:, None])
        shrink = tl.exp2(top - high)
        total = total * shrink + tl.sum(p, 1)
        vv = tl.load(pv + first * D, mask=keys[:, None] < nk, other=0.0)
        acc = tl.dot(p.to(vv.dtype), vv, acc * shrink[:, None])
        top = high
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + plane * plane_q + iq[:, None] * D + d[None, :], acc.to(out.dtype.element_ty), mask=iq[:, None] < nq)


# (BQ, BK, warps, stages)
ATTENTION_CONFIGS = [(128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 4, 3), (64, 64, 4, 3)]


def attention(q, k, v, out, causal, configs=None):
    b, h, nq, d = q.shape
    nk = k.shape[2]

    def launch(c):
        _attention[(triton.cdiv(nq, c[0]), b * h)](
            q, k, v, out, d**-0.5 * 1.4426950408889634, h, nq, nk, nq * d, nk * d,
            D=d, BQ=c[0], BK=c[1], CAUSAL=causal, num_warps=c[2], num_stages=c[3],
        )

    launch(best_of(("attention", b, h, nq, nk, d, causal), configs or ATTENTION_CONFIGS, launch))
    return out
