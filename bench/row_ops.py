"""The row ops of compare.py: for each, its problem as warpwave reads it, operands, a reference, and the contenders that torch and Liger offer.

A kind is a class with
    problem(shape), bytes(shape)     what warpwave is asked, and the bytes that a perfect implementation moves
    make(t, shape)                   one copy of the operands, as torch tensors
    want(t, s)                       the results in float32 from one copy
    torch(t)                         torch's own: a function of one copy, or None
    plain(t)                         what torch.compile is given
    liger(t)                         Liger's, or None
Each contender returns one tensor or a tuple in the order of `want`.
"""

KINDS = {}


def kind(name):
    def register(cls):
        cls.name = name
        KINDS[name] = cls()
        return cls

    return register


def normal(t, *shape, dtype=None):
    return t.randn(*shape, device="cuda", dtype=dtype or t.bfloat16)


class Kind:
    dtype = "bf16"

    def torch(self, t):
        return None

    def plain(self, t):
        return None

    def liger(self, t):
        return None

    def tensor(self, shape, dtype=None):
        return f"{dtype or self.dtype}[{','.join(map(str, shape))}]"


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


@kind("relu_dropout")
class ReluDropout(Kind):
    dtype = "f32"

    def problem(self, shape):
        return f"relu_dropout x={self.tensor(shape)} p=0.1 seed=7"

    def bytes(self, shape):
        return 8 * count(shape)

    def make(self, t, shape):
        return (normal(t, *shape, dtype=t.float32),)

    def want(self, t, s):
        return None  # every library draws its own mask

    def torch(self, t):
        return lambda s: t.nn.functional.dropout(t.relu(s[0]), 0.1, True)

    def plain(self, t):
        return lambda x: t.nn.functional.dropout(t.relu(x), 0.1, True)


@kind("relu_dropout_bwd")
class ReluDropoutBwd(Kind):
    dtype = "f32"

    def problem(self, shape):
        return f"relu_dropout_bwd x={self.tensor(shape)} dy={self.tensor(shape)} p=0.1 seed=7"

    def bytes(self, shape):
        return 12 * count(shape)

    def make(self, t, shape):
        x, dy = normal(t, *shape, dtype=t.float32), normal(t, *shape, dtype=t.float32)
        return x, dy, t.rand_like(x) > 0.1

    def want(self, t, s):
        return None

    def plain(self, t):
        # torch keeps its mask: a byte an element more than regenerating it
        return lambda x, dy, mask: t.where(mask & (x > 0), dy / 0.9, 0.0)


@kind("softmax_bwd")
class SoftmaxBwd(Kind):
    def problem(self, shape):
        return f"softmax_bwd y={self.tensor(shape)} dy={self.tensor(shape)}"

    def bytes(self, shape):
        return 6 * count(shape)

    def make(self, t, shape):
        return t.softmax(normal(t, *shape), -1), normal(t, *shape)

    def want(self, t, s):
        y, dy = s[0].float(), s[1].float()
        return y * (dy - (y * dy).sum(-1, keepdim=True))

    def torch(self, t):
        return lambda s: t.ops.aten._softmax_backward_data(s[1], s[0], -1, t.bfloat16)

    def plain(self, t):
        def f(y, dy):
            p = y.float() * dy.float()
            return (p - y.float() * p.sum(-1, keepdim=True)).to(y.dtype)

        return f

    def liger(self, t):
        from liger_kernel.ops.softmax import _softmax_backward, _softmax_forward

        def run(s):
            n = s[0].shape[-1]
            y, block, warps, many = _softmax_forward(s[0][:1])
            return _softmax_backward(s[1], s[0], block, warps, many) if n else y

        return run


class Norm(Kind):
    def bytes(self, shape):
        return 4 * count(shape) + 2 * shape[-1]


@kind("rms_norm")
class RmsNorm(Norm):
    def problem(self, shape):
        return f"rms_norm x={self.tensor(shape)} w={self.tensor(shape[-1:])} eps=1e-6"

    def make(self, t, shape):
        return normal(t, *shape), normal(t, shape[-1])

    def want(self, t, s):
        x = s[0].float()
        return x * t.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * s[1].float()

    def torch(self, t):
        return lambda s: t.nn.functional.rms_norm(s[0], s[1].shape, s[1], 1e-6)

    def plain(self, t):
        return lambda x, w: (x.float() * t.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)

    def liger(self, t):
        from liger_kernel.ops.rms_norm import rms_norm_forward

        return lambda s: rms_norm_forward(s[0], s[1], 1e-6, 0.0, "llama", None)[0]


@kind("rms_norm_bwd")
class RmsNormBwd(Norm):
    def problem(self, shape):
        return f"rms_norm_bwd x={self.tensor(shape)} w={self.tensor(shape[-1:])} dy={self.tensor(shape)} eps=1e-6"

    def bytes(self, shape):
        return 6 * count(shape) + 4 * shape[-1]

    def make(self, t, shape):
        x = normal(t, *shape)
        r = t.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return x, normal(t, shape[-1]), normal(t, *shape), r

    @staticmethod
    def formula(x, w, dy, r):
        x, dy = x.float(), dy.float()
        g = dy * w.float()
        hat = x * r
        return r * (g - hat * (g * hat).mean(-1, keepdim=True)), (dy * hat).sum(0)

    def want(self, t, s):
        return self.formula(*s)

    def torch(self, t):
        return lambda s: t.ops.aten._fused_rms_norm_backward(s[2], s[0], [s[1].numel()], s[3], s[1], [True, True])

    def plain(self, t):
        def f(x, w, dy, r):
            dx, dw = self.formula(x, w, dy, r)
            return dx.to(x.dtype), dw.to(x.dtype)

        return f

    def liger(self, t):
        from liger_kernel.ops.rms_norm import rms_norm_backward, rms_norm_forward

        def run(s):
            _, _, rstd, block, warps, mode = rms_norm_forward(s[0][:1], s[1], 1e-6, 0.0, "llama", None)
            return rms_norm_backward(s[2], s[0], s[1], s[3].view(-1), 0.0, mode, block, warps, False, None)

        return run


@kind("add_rms_norm")
class AddRmsNorm(Norm):
    def problem(self, shape):
        return f"add_rms_norm x={self.tensor(shape)} residual={self.tensor(shape)} w={self.tensor(shape[-1:])} eps=1e-6"

    def bytes(self, shape):
        return 8 * count(shape) + 2 * shape[-1]

    def make(self, t, shape):
        return normal(t, *shape), normal(t, *shape), normal(t, shape[-1])

    def want(self, t, s):
        h = s[0].float() + s[1].float()
        return h * t.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * s[2].float(), h

    def torch(self, t):
        def run(s):
            h = s[0] + s[1]
            return t.nn.functional.rms_norm(h, s[2].shape, s[2], 1e-6), h

        return run

    def plain(self, t):
        def f(x, residual, w):
            h = x.float() + residual.float()
            return (h * t.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype), h.to(x.dtype)

        return f

    def liger(self, t):
        from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward

        def run(s):
            out = fused_add_rms_norm_forward(s[0], s[1], s[2], 1e-6, 0.0, "llama")
            return out[0], out[1]

        return run


@kind("add_rms_norm_bwd")
class AddRmsNormBwd(RmsNormBwd):
    def problem(self, shape):
        x = self.tensor(shape)
        return f"add_rms_norm_bwd x={x} dy={x} dresidual_out={x} w={self.tensor(shape[-1:])} eps=1e-6"

    def bytes(self, shape):
        return 8 * count(shape) + 4 * shape[-1]

    def make(self, t, shape):
        return *super().make(t, shape), normal(t, *shape)

    @staticmethod
    def formula(x, w, dy, r, dh):
        dx, dw = RmsNormBwd.formula(x, w, dy, r)
        return dx + dh.float(), dw

    def torch(self, t):
        def run(s):
            dx, dw = t.ops.aten._fused_rms_norm_backward(s[2], s[0], [s[1].numel()], s[3], s[1], [True, True])
            return dx + s[4], dw

        return run

    def plain(self, t):
        def f(x, w, dy, r, dh):
            dx, dw = self.formula(x, w, dy, r, dh)
            return dx.to(x.dtype), dw.to(x.dtype)

        return f

    def liger(self, t):
        return None


@kind("layer_norm")
class LayerNorm(Norm):
    def problem(self, shape):
        w = self.tensor(shape[-1:])
        return f"layer_norm x={self.tensor(shape)} gamma={w} beta={w} eps=1e-5"

    def bytes(self, shape):
        return 4 * count(shape) + 4 * shape[-1]

    def make(self, t, shape):
        return normal(t, *shape), normal(t, shape[-1]), normal(t, shape[-1])

    def want(self, t, s):
        return t.nn.functional.layer_norm(s[0].float(), s[1].shape, s[1].float(), s[2].float(), 1e-5)

    def torch(self, t):
        return lambda s: t.nn.functional.layer_norm(s[0], s[1].shape, s[1], s[2], 1e-5)

    def plain(self, t):
        return lambda x, w, b: t.nn.functional.layer_norm(x, w.shape, w, b, 1e-5)

    def liger(self, t):
        from liger_kernel.ops.layer_norm import layer_norm_forward

        return lambda s: layer_norm_forward(s[0], s[1], s[2], 1e-5)[0]


@kind("layer_norm_bwd")
class LayerNormBwd(Norm):
    def problem(self, shape):
        return f"layer_norm_bwd x={self.tensor(shape)} gamma={self.tensor(shape[-1:])} dy={self.tensor(shape)} eps=1e-5"

    def bytes(self, shape):
        return 6 * count(shape) + 6 * shape[-1]

    def make(self, t, shape):
        x = normal(t, *shape)
        mean = x.float().mean(-1, keepdim=True)
        rstd = t.rsqrt(x.float().var(-1, unbiased=False, keepdim=True) + 1e-5)
        return x, normal(t, shape[-1]), normal(t, *shape), mean, rstd

    @staticmethod
    def formula(x, w, dy, mean, rstd):
        dy = dy.float()
        hat = (x.float() - mean) * rstd
        g = dy * w.float()
        dx = rstd * (g - g.mean(-1, keepdim=True) - hat * (g * hat).mean(-1, keepdim=True))
        return dx, (dy * hat).sum(0), dy.sum(0)

    def want(self, t, s):
        return self.formula(*s)

    def torch(self, t):
        return lambda s: t.ops.aten.native_layer_norm_backward(s[2], s[0], [s[1].numel()], s[3], s[4], s[1], s[1], [True, True, True])

    def plain(self, t):
        return lambda *s: tuple(x.to(s[0].dtype) for x in self.formula(*s))

    def liger(self, t):
        from liger_kernel.ops.layer_norm import layer_norm_backward

        return lambda s: layer_norm_backward(s[2], s[0], s[1], s[1], s[3].view(-1), s[4].view(-1))


@kind("silu_mul")
class SiluMul(Kind):
    def problem(self, shape):
        return f"silu_mul gate={self.tensor(shape)} up={self.tensor(shape)}"

    def bytes(self, shape):
        return 6 * count(shape)

    def make(self, t, shape):
        return normal(t, *shape), normal(t, *shape)

    def want(self, t, s):
        return t.nn.functional.silu(s[0].float()) * s[1].float()

    def torch(self, t):
        return lambda s: t.nn.functional.silu(s[0]) * s[1]

    def plain(self, t):
        return lambda a, b: (t.nn.functional.silu(a.float()) * b.float()).to(a.dtype)

    def liger(self, t):
        from liger_kernel.ops.swiglu import swiglu_forward

        def run(s):
            out = swiglu_forward(s[0], s[1])
            return out[-1] if isinstance(out, tuple) else out

        return run


@kind("silu_mul_bwd")
class SiluMulBwd(Kind):
    def problem(self, shape):
        return f"silu_mul_bwd gate={self.tensor(shape)} up={self.tensor(shape)} dy={self.tensor(shape)}"

    def bytes(self, shape):
        return 10 * count(shape)

    def make(self, t, shape):
        return normal(t, *shape), normal(t, *shape), normal(t, *shape)

    @staticmethod
    def formula(t, a, b, dy):
        a, b, dy = a.float(), b.float(), dy.float()
        s = t.sigmoid(a)
        return dy * b * s * (1 + a * (1 - s)), dy * a * s

    def want(self, t, s):
        return self.formula(t, *s)

    def plain(self, t):
        return lambda *s: tuple(x.to(s[0].dtype) for x in self.formula(t, *s))


@kind("rope")
class Rope(Kind):
    """[batch, tokens, heads, width], neox, positions 0.."""

    def problem(self, shape):
        return f"rope x={self.tensor(shape)}"

    def bytes(self, shape):
        return 4 * count(shape)

    def make(self, t, shape):
        b, n, h, d = shape
        inverse = 1.0 / (10000.0 ** (t.arange(0, d, 2, device="cuda", dtype=t.float64) / d))
        phase = t.arange(n, device="cuda", dtype=t.float64)[:, None] * inverse
        return normal(t, *shape), phase.cos().float()[None, :, None, :], phase.sin().float()[None, :, None, :]

    @staticmethod
    def formula(t, x, cos, sin):
        a, b = x.float().chunk(2, -1)
        return t.cat((a * cos - b * sin, b * cos + a * sin), -1)

    def want(self, t, s):
        return self.formula(t, *s)

    def torch(self, t):
        def run(s):
            a, b = s[0].chunk(2, -1)
            cos, sin = s[1].to(s[0].dtype), s[2].to(s[0].dtype)
            return t.cat((a * cos - b * sin, b * cos + a * sin), -1)

        return run

    def plain(self, t):
        return lambda x, cos, sin: self.formula(t, x, cos, sin).to(x.dtype)


@kind("rope_bwd")
class RopeBwd(Rope):
    """The same angles, turned back"""

    def problem(self, shape):
        return f"rope_bwd dy={self.tensor(shape)}"

    def make(self, t, shape):
        x, cos, sin = super().make(t, shape)
        return x, cos, -sin


@kind("cross_entropy")
class CrossEntropy(Kind):
    def problem(self, shape):
        return f"cross_entropy logits={self.tensor(shape)} labels={self.tensor(shape[:1], 'i64')} reduction=none"

    def bytes(self, shape):
        return 2 * count(shape) + 16 * shape[0]

    def make(self, t, shape):
        return normal(t, *shape), t.randint(0, shape[1], (shape[0],), device="cuda")

    def want(self, t, s):
        return t.nn.functional.cross_entropy(s[0].float(), s[1], reduction="none")

    def torch(self, t):
        return lambda s: t.nn.functional.cross_entropy(s[0], s[1], reduction="none")

    def plain(self, t):
        return lambda x, y: t.nn.functional.cross_entropy(x.float(), y, reduction="none")


@kind("cross_entropy_bwd")
class CrossEntropyBwd(Kind):
    def problem(self, shape):
        n = shape[:1]
        return f"cross_entropy_bwd logits={self.tensor(shape)} labels={self.tensor(n, 'i64')} lse={self.tensor(n, 'f32')} dloss={self.tensor(n, 'f32')} reduction=none"

    def bytes(self, shape):
        return 4 * count(shape) + 16 * shape[0]

    def make(self, t, shape):
        x = normal(t, *shape)
        lse = t.cat([t.logsumexp(x[i : i + 256].float(), -1) for i in range(0, shape[0], 256)])
        return x, t.randint(0, shape[1], (shape[0],), device="cuda"), lse, t.randn(shape[0], device="cuda")

    def want(self, t, s):
        x, y, lse, d = s
        p = t.exp(x.float() - lse[:, None])
        p[t.arange(x.shape[0], device="cuda"), y] -= 1
        return p * d[:, None]

    def plain(self, t):
        def f(x, y, lse, d):
            p = t.exp(x.float() - lse[:, None])
            hot = t.arange(x.shape[1], device=x.device)[None, :] == y[:, None]
            return ((p - hot.float()) * d[:, None]).to(x.dtype)

        return f


@kind("transpose")
class Transpose(Kind):
    def problem(self, shape):
        return f"transpose x={self.tensor(shape)}"

    def bytes(self, shape):
        return 4 * count(shape)

    def make(self, t, shape):
        return (normal(t, *shape),)

    def want(self, t, s):
        return s[0].float().t()

    def torch(self, t):
        return lambda s: s[0].t().contiguous()

    def plain(self, t):
        return lambda x: x.t().contiguous()


# The rows of the table of speed goals, each backward at its forward's shapes.
FORWARD = [
    ("relu_dropout", (1 << 28,)),
    ("rms_norm", (8192, 8192)), ("rms_norm", (4096, 16384)), ("rms_norm", (64, 8192)), ("rms_norm", (1, 8192)),
    ("add_rms_norm", (8192, 4096)), ("add_rms_norm", (16384, 5120)),
    ("layer_norm", (8192, 8192)),
    ("silu_mul", (8192, 8192)), ("silu_mul", (16384, 5120)),
    ("rope", (4, 4096, 32, 128)),
    ("cross_entropy", (8192, 128256)),
    ("transpose", (4096, 8192)),
]  # fmt: skip
BACKWARD = [
    ("relu_dropout_bwd", (1 << 28,)),
    ("softmax_bwd", (8192, 8192)), ("softmax_bwd", (4096, 32768)), ("softmax_bwd", (512, 128256)), ("softmax_bwd", (8191, 1000)), ("softmax_bwd", (8191, 1001)),
    ("rms_norm_bwd", (8192, 8192)), ("rms_norm_bwd", (4096, 16384)),
    ("add_rms_norm_bwd", (8192, 4096)), ("add_rms_norm_bwd", (16384, 5120)),
    ("layer_norm_bwd", (8192, 8192)),
    ("silu_mul_bwd", (8192, 8192)), ("silu_mul_bwd", (16384, 5120)),
    ("rope_bwd", (4, 4096, 32, 128)),
    ("cross_entropy_bwd", (8192, 128256)),
]  # fmt: skip
