/* What each operation does to one item: some rows' worth of it, or some channels' of all rows. */

#include <string.h>

#include "running.h"

static int64_t key_offset(const fr_model *m, int layer, int head) {
    return ((int64_t)layer * m->kv_heads + head) * m->head_width * 2 * FR_PAGE * 2;
}
static int64_t value_offset(const fr_model *m, int layer, int head) {
    return key_offset(m, layer, head) + (int64_t)m->head_width * FR_PAGE * 2;
}

fr_record *fr_row_records(const fr_buffer *b, int rows, int row, int *step) {
    int block = (int)(((int64_t)(row + 1) * fr_blocks(rows) - 1) / rows);
    int first = fr_block_start(rows, block);
    *step = fr_block_start(rows, block + 1) - first;
    return b->records + (int64_t)first * b->groups + (row - first);
}

static int rows_of(const running *g, const fr_op *op) {
    return op->flags & FR_CHOSEN ? g->pass->wanted : g->pass->rows;
}

static void embed(const running *g, const fr_op *op, int row) {
    const fr_buffer *out = &g->model->buffer[op->out[0]];
    float *to = out->floats + row * out->stride;
    fr_channel(op->matrix[0], g->pass->tokens[row], to);
    for (int i = 0; i < op->width; i++) to[i] *= op->scale;
}

static void norm(const running *g, const fr_op *op, int row) {
    const fr_buffer *in = &g->model->buffer[op->in], *out = &g->model->buffer[op->out[0]];
    int from = op->flags & FR_CHOSEN ? g->pass->wanted_rows[row] : row, step;
    const float *x = in->floats + from * in->stride;
    float *to = out->floats + row * out->stride;
    g->kernels->norm(x, op->weight, g->kernels->inverse_rms(x, op->width, op->epsilon), op->width,
                     to, op->flags & FR_ADD);
    if (op->flags & FR_QUANTISE) {
        fr_record *records = fr_row_records(out, rows_of(g, op), row, &step);
        g->kernels->quantise(to, op->width, records, step);
    }
}

static void tap(const running *g, const fr_op *op, int row) {
    const fr_buffer *in = &g->model->buffer[op->in];
    const float *x = in->floats + row * in->stride;
    float *to = g->pass->features + row * g->pass->features_stride + (int64_t)op->layer * op->width;
    if (op->weight)
        g->kernels->norm(x, op->weight, g->kernels->inverse_rms(x, op->width, op->epsilon),
                         op->width, to, 0);
    else
        memcpy(to, x, (size_t)op->width * sizeof *to);
}

static void feed(const running *g, const fr_op *op, int row) {
    const fr_buffer *out = &g->model->buffer[op->out[0]];
    memcpy(out->floats + row * out->stride, g->pass->feed + row * g->pass->feed_stride,
           (size_t)op->width * sizeof *g->pass->feed);
}

/* out[r][16 channels of the tile] for all rows of the operation's input */
static void tile_rows(const running *g, const fr_op *op, const fr_matrix *m, int64_t tile,
                      const uint8_t *next, int first, int count, float *out) {
    const fr_buffer *in = &g->model->buffer[op->in];
    g->kernels->tile(m, tile, next, in->records + (int64_t)first * in->groups,
                     in->floats + first * in->stride, in->stride, count, out);
}

/* A tile's logits of one row: where the caller wants them, or only the largest. */
static void put_logits(const running *g, int row, int at, int left, const float *logits,
                       int thread) {
    const fr_pass *pass = g->pass;
    if (!g->largest) {
        memcpy(pass->logits + row * pass->logits_stride + at, logits, (size_t)left * sizeof *logits);
        return;
    }
    if (pass->size - at < left) left = pass->size - at;
    if (left > 0)
        g->kernels->choose(logits, at / FR_LANES, left,
                           g->largest + (int64_t)thread * pass->wanted + row);
}

static void linear(const running *g, const fr_op *op, int item, int thread) {
    int map = 0;
    while (item >= op->matrix[map]->tiles) item -= op->matrix[map++]->tiles;
    const fr_matrix *m = op->matrix[map];
    int rows = rows_of(g, op), at = item * FR_LANES;
    const float *bias = m->bias ? m->bias + at : NULL;
    for (int block = 0; block < fr_blocks(rows); block++) {
        int first = fr_block_start(rows, block), count = fr_block_start(rows, block + 1) - first;
        float y[FR_ROWS * FR_LANES];
        tile_rows(g, op, m, item, tile_at(m, item + 1), first, count, y);
        for (int r = 0; r < count; r++) {
            float *sum = y + FR_LANES * r;
            if (bias)
                for (int c = 0; c < FR_LANES; c++) sum[c] += bias[c];
            if (op->out[map] < 0) {
                int left = m->rows - at < FR_LANES ? m->rows - at : FR_LANES;
                put_logits(g, first + r, at, left, sum, thread);
                continue;
            }
            const fr_buffer *out = &g->model->buffer[op->out[map]];
            float *to = out->floats + (first + r) * out->stride + at;
            if (op->flags & FR_ADD)
                for (int c = 0; c < FR_LANES; c++) to[c] += sum[c];
            else
                memcpy(to, sum, FR_LANES * sizeof *sum);
        }
    }
}

/* 32 channels: two tiles of the gate, two of what it lets through */
static void gated(const running *g, const fr_op *op, int item) {
    const fr_buffer *out = &g->model->buffer[op->out[0]];
    int rows = rows_of(g, op), step;
    for (int block = 0; block < fr_blocks(rows); block++) {
        int first = fr_block_start(rows, block), count = fr_block_start(rows, block + 1) - first;
        float y[2][2][FR_ROWS * FR_LANES] = {{{0}}};
        for (int map = 0; map < 2; map++)
            for (int half = 0; half < 2; half++) {
                const fr_matrix *m = op->matrix[map], *other = op->matrix[1 - map];
                int tile = 2 * item + half;
                const uint8_t *next = half ? tile_at(other, 2 * (item + map)) : tile_at(m, tile + 1);
                if (tile < m->tiles) tile_rows(g, op, m, tile, next, first, count, y[map][half]);
            }
        for (int r = 0; r < count; r++) {
            float value[FR_GROUP];
            for (int half = 0; half < 2; half++)
                g->kernels->gate(y[0][half] + FR_LANES * r, y[1][half] + FR_LANES * r, FR_LANES,
                                 op->flags & FR_GELU, value + FR_LANES * half);
            if (op->flags & FR_FLOATS)
                memcpy(out->floats + (first + r) * out->stride + FR_GROUP * item, value,
                       sizeof value);
            if (op->flags & FR_QUANTISE) {
                fr_record *records = fr_row_records(out, rows, first + r, &step);
                g->kernels->quantise(value, FR_GROUP, records + (int64_t)item * step, step);
            }
        }
    }
}

/* One head of one row: of q where it stands, of k and v into the cache */
static void rotate(const running *g, const fr_op *op, int item) {
    const fr_model *m = g->model;
    const fr_kernels *kernels = g->kernels;
    int both = op->heads + op->kv_heads, row = item / both, head = item % both, D = op->head_width;
    int is_key = head >= op->heads;
    if (is_key) head -= op->heads;
    const fr_buffer *b = &m->buffer[op->out[is_key]];
    float *x = b->floats + row * b->stride + (int64_t)head * D;
    const float *weight = is_key ? op->k_weight : op->weight;
    if (weight) kernels->norm(x, weight, kernels->inverse_rms(x, D, op->epsilon), D, x, 0);
    kernels->rotate(x, op->table + (int64_t)g->pass->positions[row] * op->turned, op->turned,
                    op->flags & FR_INTERLEAVED);
    if (!is_key) {
        for (int i = 0; i < D; i++) x[i] *= op->scale;
        return;
    }
    const fr_buffer *values = &m->buffer[op->out[2]];
    int cell = g->pass->cells[row], in_page = cell % FR_PAGE;
    char *page = g->pass->pages[g->pass->slot[row]][cell / FR_PAGE];
    uint16_t *keys = (uint16_t *)(page + key_offset(m, op->layer, head));
    uint16_t *to = (uint16_t *)(page + value_offset(m, op->layer, head));
    kernels->store(x, values->floats + row * values->stride + (int64_t)head * D, D,
                   keys + in_page / 16 * 16 * D + in_page % 16, to + (int64_t)in_page * D);
}

/* Items that a head's pairs are cut into: as few as keys can be shared by, but enough for all. */
int fr_pair_items(const running *g, int pairs, int kv_heads) {
    int few = (pairs + FR_PAIRS - 1) / FR_PAIRS;
    int enough = (2 * fr_pool_threads(g->pool) + kv_heads - 1) / kv_heads;
    return few > enough ? few : enough < pairs ? enough : pairs;
}

static void attend(const running *g, const fr_op *op, int item, int thread) {
    const fr_model *m = g->model;
    const fr_pass *pass = g->pass;
    const fr_buffer *q = &m->buffer[op->in], *out = &m->buffer[op->out[0]];
    int run = 0, per_key = op->heads / op->kv_heads, D = op->head_width, step;
    while (item >= g->run_item[run + 1]) run++;
    item -= g->run_item[run];
    int first = g->run_start[run], rows = g->run_start[run + 1] - first;
    int each = fr_pair_items(g, rows * per_key, op->kv_heads), head = item / each;
    int from = rows * per_key * (item % each) / each, to = rows * per_key * (item % each + 1) / each;
    fr_attention a = {
        .pairs = to - from, .head_width = D, .window = op->window,
        .pages = pass->pages[pass->slot[first]],
        .key_offset = key_offset(m, op->layer, head),
        .value_offset = value_offset(m, op->layer, head),
        .scores = g->scores + thread * FR_PAIRS * g->stride, .stride = g->stride,
    };
    for (int p = from; p < to; p++) {
        int row = first + p / per_key, at = (head * per_key + p % per_key) * D;
        a.q[p - from] = q->floats + row * q->stride + at;
        a.out[p - from] = out->floats + row * out->stride + at;
        a.shared[p - from] = pass->shared[row];
        a.path[p - from] = pass->path + pass->path_start[row];
        a.path_length[p - from] = pass->path_start[row + 1] - pass->path_start[row];
    }
    g->kernels->attend(&a);
    if (op->flags & FR_QUANTISE)
        for (int p = from; p < to; p++) {
            int row = first + p / per_key, at = (head * per_key + p % per_key) * D;
            fr_record *records = fr_row_records(out, pass->rows, row, &step);
            g->kernels->quantise(a.out[p - from], D, records + (int64_t)at / FR_GROUP * step, step);
        }
}

int fr_items(const running *g, const fr_op *op) {
    int rows = rows_of(g, op), tiles = 0;
    if (!rows) return 0;
    switch (op->kind) {
        case FR_LINEAR:
            for (int i = 0; i < op->maps; i++) tiles += op->matrix[i]->tiles;
            return tiles;
        case FR_GATED: return (op->matrix[0]->tiles + 1) / 2;
        case FR_ROTATE: return rows * (op->heads + op->kv_heads);
        case FR_ATTEND: return g->run_item[g->runs];
        default: return rows;
    }
}

void fr_take(const running *g, const fr_op *op, int item, int thread) {
    switch (op->kind) {
        case FR_EMBED: embed(g, op, item); break;
        case FR_NORM: norm(g, op, item); break;
        case FR_LINEAR: linear(g, op, item, thread); break;
        case FR_GATED: gated(g, op, item); break;
        case FR_ROTATE: rotate(g, op, item); break;
        case FR_ATTEND: attend(g, op, item, thread); break;
        case FR_TAP: tap(g, op, item); break;
        case FR_FEED: feed(g, op, item); break;
    }
}
