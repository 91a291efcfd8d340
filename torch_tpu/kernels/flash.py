"""Attention that keeps no scores, in Pallas: softmax(q k^T scale + mask) v, block by block, after
"FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (Dao, 2023).

q: [batch, heads, rows, width], k: [batch, groups, columns, width], v: [batch, groups, columns, width of values], where
heads are a multiple of groups: a head reads the keys of its group where they are. mask: None, or what is added to the
scores, each of its four dims full or 1, which is never expanded. Lengths are any: they are padded to multiples of 128,
and what was added is left out. A row of which all is left out (-inf) is 0, as torch has it, and gets no gradient.

Functions of arrays import JAX when they are called (torch_tpu.pallas)."""

LANES = 128


def _padded(length):
    return -(-length // LANES) * LANES


def _block(length, width, size):
    """How many of a padded length's rows a step takes: as much as fits with all that a backward has in VMEM."""
    most = 256 if width * size > 512 else 512
    return next(b for b in (512, 384, 256, LANES) if b <= most and length % b == 0)


class _Plan:
    """Sizes of a call, and where its blocks are. order: what the grid's dims are, after batch and head or group."""

    def __init__(self, q, k, v, mask, causal, precision):
        import jax

        (self.batch, self.heads, self.rows, self.width), (_, self.groups, self.columns, self.values) = q.shape, v.shape
        size = 4 if q.dtype != jax.numpy.bfloat16 else 2
        widest = max(self.width, self.values)
        self.padded_rows, self.padded_columns = _padded(self.rows), _padded(self.columns)
        self.block_rows = _block(self.padded_rows, widest, size)
        self.block_columns = _block(self.padded_columns, widest, size)
        self.row_steps = self.padded_rows // self.block_rows
        self.column_steps = self.padded_columns // self.block_columns
        self.shared = self.heads // self.groups
        self.mask, self.causal = mask, causal
        self.precision = {0: jax.lax.Precision.HIGHEST, 1: jax.lax.Precision.HIGH}.get(precision)
        if size == 2:
            self.precision = None  # bfloat16 is what it is

    def rows_of(self, x):
        return _pad(x, 2, self.padded_rows)

    def columns_of(self, x):
        return _pad(x, 2, self.padded_columns)

    # ---- places of blocks; i, j: of rows and columns ----
    def last_column(self, i):
        """Of rows i, which see it."""
        return ((i + 1) * self.block_rows - 1) // self.block_columns if self.causal else self.column_steps - 1

    def last_columns(self, i, j):
        """j, or the last block of columns that rows i see: what is left out is not fetched."""
        import jax.numpy as jnp
        return jnp.minimum(j, self.last_column(i)) if self.causal else j

    def first_rows(self, i, j):
        import jax.numpy as jnp
        first = jnp.minimum(j * self.block_columns // self.block_rows, self.row_steps - 1)
        return jnp.maximum(i, first) if self.causal else i

    def seen(self, i, j):
        """Whether rows i see any of columns j."""
        return (i + 1) * self.block_rows > j * self.block_columns if self.causal else True

    def by_rows(self, place, width):
        """place: of the grid's indices, (batch, head, i, j)."""
        return _spec((1, 1, self.block_rows, width), lambda *at: (*place(*at)[:3], 0))

    def by_columns(self, place, width):
        def where(*at):
            b, h, _, j = place(*at)
            return b, h // self.shared, j, 0

        return _spec((1, 1, self.block_columns, width), where)

    def row_values(self, place):
        """Of a number for each row, [batch, heads, 1, rows]."""
        def where(*at):
            b, h, i, _ = place(*at)
            return b, h, 0, i

        return _spec((1, 1, 1, self.block_rows), where)

    def of_mask(self, place, turned):
        """turned: the mask is [..., columns, rows]."""
        b, h, rows, columns = self.mask.shape
        per_row, block = rows > 1, (self.block_rows if rows > 1 else 1, self.block_columns)

        def where(*at):
            x, y, i, j = place(*at)
            i = i if per_row else 0
            return (x if b > 1 else 0, y if h > 1 else 0, *((j, i) if turned else (i, j)))

        return _spec((1, 1, *(block[::-1] if turned else block)), where)

    def given_mask(self, turned):
        """[the mask, padded], or []."""
        if self.mask is None:
            return []
        mask = _pad(self.mask, 3, self.padded_columns)
        mask = self.rows_of(mask) if mask.shape[2] > 1 else mask
        return [mask.swapaxes(2, 3) if turned else mask]

    def scores(self, a, b, mask, i, j, turned, scale):
        """scale a b^T + mask of a block, -inf where it is left out. turned: [columns, rows], of keys and queries."""
        import jax
        import jax.numpy as jnp

        s = _dot(a, b, (1, 1), self.precision) * scale
        if mask is not None:
            s = s + mask.astype(jnp.float32)
        column = j * self.block_columns + jax.lax.broadcasted_iota(jnp.int32, s.shape, 0 if turned else 1)
        if self.causal:
            row = i * self.block_rows + jax.lax.broadcasted_iota(jnp.int32, s.shape, 1 if turned else 0)
            s = jnp.where(column <= row, s, -jnp.inf)
        if self.padded_columns != self.columns:
            s = jnp.where(column < self.columns, s, -jnp.inf)
        return s

    def cost(self, widths, moved):
        """What a kernel says of itself: products of all that is seen, over widths; moved: arrays."""
        from jax.experimental import pallas as pl
        columns = [min(self.column_steps, self.last_column(i) + 1) for i in range(self.row_steps)]
        pairs = self.batch * self.heads * sum(columns) * self.block_rows * self.block_columns
        moved = sum(x.size * x.dtype.itemsize for x in moved)
        return pl.CostEstimate(flops=2 * pairs * sum(widths), transcendentals=pairs, bytes_accessed=moved)

    def call(self, kernel, name, grid, inputs, in_specs, outs, out_specs, scratch, widths):
        """outs: (shape, dtype)s; scratch: shapes of float32; widths: of its products."""
        import jax
        import jax.numpy as jnp
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        outs = [jax.ShapeDtypeStruct(*o) for o in outs]
        return pl.pallas_call(
            kernel,
            name=name,
            grid=grid,
            in_specs=in_specs,
            out_specs=out_specs,
            out_shape=outs,
            scratch_shapes=[pltpu.VMEM(s, jnp.float32) for s in scratch],
            compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",) * (len(grid) - 1) + ("arbitrary",)),
            cost_estimate=self.cost(widths, [*inputs, *outs]),
        )(*inputs)


def _spec(block, place):
    from jax.experimental import pallas as pl
    return pl.BlockSpec(block, place)


def _pad(x, dim, to):
    import jax.numpy as jnp
    return jnp.pad(x, [(0, to - n if d == dim else 0) for d, n in enumerate(x.shape)]) if x.shape[dim] != to else x


def _dot(a, b, dims, precision):
    """Of matrices over dims of them, in float32."""
    import jax
    import jax.numpy as jnp
    dims = (((dims[0],), (dims[1],)), ((), ()))
    return jax.lax.dot_general(a, b, dims, precision=precision, preferred_element_type=jnp.float32)


def _wide(*xs):
    """float16 as float32, which TPUs have."""
    import jax.numpy as jnp
    return [x.astype(jnp.float32) if x.dtype == jnp.float16 else x for x in xs]


def _usable(mask, columns):
    """A mask as kernels add it. A row whose greatest is far below 0 would take up its scores in rounding; the same is
    softmax of the row moved to 0."""
    import jax.numpy as jnp
    if mask is None:
        return None
    mask = jnp.where(mask, 0.0, -jnp.inf) if mask.dtype == bool else _wide(mask)[0]
    mask = jnp.broadcast_to(mask, (*mask.shape[:3], columns))
    most = mask.max(3, keepdims=True)
    return jnp.where((most < -1e4) & (most > -jnp.inf), mask - most, mask)


def forward(q, k, v, mask, causal, scale, precision):
    """(what attention is, [batch, heads, rows] the logarithm of each row's sum of exponentials, in float32; inf of rows
    without any)."""
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    dtype = q.dtype
    q, k, v = _wide(q, k, v)
    p = _Plan(q, k, v, _usable(mask, v.shape[2]), causal, precision)
    least = float(jnp.finfo(jnp.float32).min)

    def kernel(*refs):
        q, k, v, *rest, out, logs, most, total, sums = refs
        i, j = pl.program_id(2), pl.program_id(3)

        @pl.when(j == 0)
        def _():
            most[...] = jnp.full_like(most, least)
            total[...] = jnp.zeros_like(total)
            sums[...] = jnp.zeros_like(sums)

        @pl.when(p.seen(i, j))
        def _():
            s = p.scores(q[0, 0], k[0, 0], rest[0][0, 0] if rest else None, i, j, False, scale)
            before = most[:, :1]
            now = jnp.maximum(before, s.max(1, keepdims=True))
            e, fade = jnp.exp(s - now), jnp.exp(before - now)
            sums[...] = sums[...] * fade + _dot(e.astype(v.dtype), v[0, 0], (1, 0), p.precision)
            total[...] = total[...] * fade + e.sum(1, keepdims=True)
            most[...] = jnp.broadcast_to(now, most.shape)

        @pl.when(j == p.column_steps - 1)
        def _():
            none = total[...] == 0
            out[0, 0] = (sums[...] / jnp.where(none, 1.0, total[...])[:, :1]).astype(out.dtype)
            found = jnp.where(none, jnp.inf, most[...] + jnp.log(jnp.where(none, 1.0, total[...])))
            logs[0, 0] = found.T[:1]

    def place(b, h, i, j):
        return b, h, i, p.last_columns(i, j)

    out, logs = p.call(
        kernel,
        "flash_attention",
        (p.batch, p.heads, p.row_steps, p.column_steps),
        [p.rows_of(q), p.columns_of(k), p.columns_of(v), *p.given_mask(False)],
        [p.by_rows(place, p.width), p.by_columns(place, p.width), p.by_columns(place, p.values)]
        + ([p.of_mask(place, False)] if p.mask is not None else []),
        [((p.batch, p.heads, p.padded_rows, p.values), q.dtype), ((p.batch, p.heads, 1, p.padded_rows), jnp.float32)],
        [p.by_rows(place, p.values), p.row_values(place)],
        [(p.block_rows, LANES), (p.block_rows, LANES), (p.block_rows, p.values)],
        [p.width, p.values],
    )
    return out[:, :, : p.rows].astype(dtype), logs[:, :, 0, : p.rows]


def backward(gradient, q, k, v, mask, out, logs, causal, scale, precision):
    """The gradients of q, k and v, from what forward returned."""
    import jax.numpy as jnp
    from jax.experimental import pallas as pl

    dtype = q.dtype
    dots = (gradient.astype(jnp.float32) * out.astype(jnp.float32)).sum(3)
    gradient, q, k, v = _wide(gradient, q, k, v)
    p = _Plan(q, k, v, _usable(mask, v.shape[2]), causal, precision)
    numbers = [_pad(x, 2, p.padded_rows)[:, :, None] for x in (logs, dots)]
    given = [p.rows_of(q), p.columns_of(k), p.columns_of(v), p.rows_of(gradient), *numbers, *p.given_mask(True)]

    def specs(place):
        return [
            p.by_rows(place, p.width),
            p.by_columns(place, p.width),
            p.by_columns(place, p.values),
            p.by_rows(place, p.values),
            p.row_values(place),
            p.row_values(place),
        ] + ([p.of_mask(place, True)] if p.mask is not None else [])

    def parts(refs, i, j):
        """Probabilities and gradients of scores of a block, [columns, rows]."""
        q, k, v, g, logs, dots, *rest = refs
        s = p.scores(k[0, 0], q[0, 0], rest[0][0, 0] if rest else None, i, j, True, scale)
        e = jnp.exp(s - logs[0, 0])
        return e, e * (_dot(v[0, 0], g[0, 0], (1, 1), p.precision) - dots[0, 0])

    def of_columns(*refs):
        *refs, dk, dv, dk_sum, dv_sum = refs
        j, t = pl.program_id(2), pl.program_id(3)
        i = t % p.row_steps

        @pl.when(t == 0)
        def _():
            dk_sum[...] = jnp.zeros_like(dk_sum)
            dv_sum[...] = jnp.zeros_like(dv_sum)

        @pl.when(p.seen(i, j))
        def _():
            e, ds = parts(refs, i, j)
            q, g = refs[0], refs[3]
            dv_sum[...] += _dot(e.astype(g.dtype), g[0, 0], (1, 0), p.precision)
            dk_sum[...] += _dot(ds.astype(q.dtype), q[0, 0], (1, 0), p.precision)

        @pl.when(t == p.shared * p.row_steps - 1)
        def _():
            dk[0, 0] = (dk_sum[...] * scale).astype(dk.dtype)
            dv[0, 0] = dv_sum[...].astype(dv.dtype)

    def of_rows(*refs):
        *refs, dq, dq_sum = refs
        i, j = pl.program_id(2), pl.program_id(3)

        @pl.when(j == 0)
        def _():
            dq_sum[...] = jnp.zeros_like(dq_sum)

        @pl.when(p.seen(i, j))
        def _():
            k = refs[1]
            dq_sum[...] += _dot(parts(refs, i, j)[1].astype(k.dtype), k[0, 0], (0, 0), p.precision)

        @pl.when(j == p.column_steps - 1)
        def _():
            dq[0, 0] = (dq_sum[...] * scale).astype(dq.dtype)

    def from_columns(b, group, j, t):
        return b, group * p.shared + t // p.row_steps, p.first_rows(t % p.row_steps, j), j

    def from_rows(b, h, i, j):
        return b, h, i, p.last_columns(i, j)

    dk, dv = p.call(
        of_columns,
        "flash_attention_backward_columns",
        (p.batch, p.groups, p.column_steps, p.shared * p.row_steps),
        given,
        specs(from_columns),
        [((p.batch, p.groups, p.padded_columns, w), q.dtype) for w in (p.width, p.values)],
        [p.by_columns(from_columns, p.width), p.by_columns(from_columns, p.values)],
        [(p.block_columns, p.width), (p.block_columns, p.values)],
        [p.width, p.width, p.values, p.values],
    )
    (dq,) = p.call(
        of_rows,
        "flash_attention_backward_rows",
        (p.batch, p.heads, p.row_steps, p.column_steps),
        given,
        specs(from_rows),
        [((p.batch, p.heads, p.padded_rows, p.width), q.dtype)],
        [p.by_rows(from_rows, p.width)],
        [(p.block_rows, p.width)],
        [p.width, p.width, p.values],
    )
    return tuple(x[:, :, :n].astype(dtype) for x, n in ((dq, p.rows), (dk, p.columns), (dv, p.columns)))
