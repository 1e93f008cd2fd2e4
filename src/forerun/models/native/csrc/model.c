/* Runs a plan: for each operation the threads take items of work until all of them are done.

   Items are independent and write to places of their own, so who takes which changes nothing. What
   is waited for is work, not threads: one that the system has put aside delays the others only if
   it holds an item. Each thread has a segment of its own, so that it reads memory in order, and
   then helps the others; while it waits, it fetches what it will read next. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "pool.h"

typedef struct { _Alignas(64) _Atomic int count; } counter;

enum { MOST_SEGMENTS = 64, WAITING_FETCH = 192 << 10 /* bytes */ };

struct fr_model {
    fr_op *ops;
    int count, buffers, max_rows, layers, kv_heads, head_width;
    fr_buffer *buffer;
    int64_t *bytes; /* of each buffer's floats and records */
    counter *taken; /* [operation][segment] items taken in the pass that runs */
    counter *done;  /* [operation] */
};

/* A pass as the threads see it. */
typedef struct {
    fr_model *model;
    fr_pool *pool;
    const fr_kernels *kernels;
    const fr_pass *pass;
    int *run_start, *run_item; /* rows of one slot; attention items before each run */
    int runs;
    float *scores;
    int64_t stride;
} running;

int64_t fr_page_bytes(int layers, int kv_heads, int head_width) {
    return (int64_t)layers * kv_heads * head_width * 2 * FR_PAGE * (int64_t)sizeof(uint16_t);
}

static int64_t key_offset(const fr_model *m, int layer, int head) {
    return ((int64_t)layer * m->kv_heads + head) * m->head_width * 2 * FR_PAGE * 2;
}
static int64_t value_offset(const fr_model *m, int layer, int head) {
    return key_offset(m, layer, head) + (int64_t)m->head_width * FR_PAGE * 2;
}

fr_model *fr_model_new(const fr_op *ops, int count, const int32_t *widths, int buffers,
                       int max_rows, int layers, int kv_heads, int head_width) {
    fr_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    *m = (fr_model){.count = count, .buffers = buffers, .max_rows = max_rows, .layers = layers,
                    .kv_heads = kv_heads, .head_width = head_width};
    m->ops = malloc((size_t)count * sizeof *ops);
    m->buffer = calloc((size_t)buffers, sizeof *m->buffer);
    m->bytes = calloc(2 * (size_t)buffers, sizeof *m->bytes);
    m->taken = fr_alloc(count * (int64_t)sizeof *m->taken * MOST_SEGMENTS);
    m->done = fr_alloc(count * (int64_t)sizeof *m->done);
    int failed = !m->ops || !m->buffer || !m->bytes || !m->taken || !m->done;
    if (!failed) memcpy(m->ops, ops, (size_t)count * sizeof *ops);
    for (int i = 0; i < buffers && !failed; i++) {
        fr_buffer *b = &m->buffer[i];
        b->width = widths[i];
        b->groups = (widths[i] + FR_GROUP - 1) / FR_GROUP;
        b->stride = (int64_t)b->groups * FR_GROUP;
        m->bytes[2 * i] = b->stride * max_rows * (int64_t)sizeof(float);
        m->bytes[2 * i + 1] = (int64_t)b->groups * max_rows * (int64_t)sizeof(fr_record);
        b->floats = fr_alloc(m->bytes[2 * i]);
        b->records = fr_alloc(m->bytes[2 * i + 1]);
        failed = !b->floats || !b->records;
    }
    if (failed) {
        fr_model_free(m);
        return NULL;
    }
    return m;
}

void fr_model_free(fr_model *m) {
    if (!m) return;
    for (int i = 0; m->buffer && m->bytes && i < m->buffers; i++) {
        fr_free(m->buffer[i].floats, m->bytes[2 * i]);
        fr_free(m->buffer[i].records, m->bytes[2 * i + 1]);
    }
    free(m->ops);
    free(m->buffer);
    free(m->bytes);
    fr_free(m->taken, m->count * (int64_t)sizeof *m->taken * MOST_SEGMENTS);
    fr_free(m->done, m->count * (int64_t)sizeof *m->done);
    free(m);
}

/* The record of a row's first group; those of the next groups are `*step` apart. */
static fr_record *row_records(const fr_buffer *b, int rows, int row, int *step) {
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
        fr_record *records = row_records(out, rows_of(g, op), row, &step);
        g->kernels->quantise(to, op->width, records, step);
    }
}

static const uint8_t *tile_at(const fr_matrix *m, int64_t tile) {
    return m->data + tile * m->tile_bytes;
}

/* out[r][16 channels of the tile] for all rows of the operation's input */
static void tile_rows(const running *g, const fr_op *op, const fr_matrix *m, int64_t tile,
                      const uint8_t *next, int first, int count, float *out) {
    const fr_buffer *in = &g->model->buffer[op->in];
    g->kernels->tile(m, tile, next, in->records + (int64_t)first * in->groups,
                     in->floats + first * in->stride, in->stride, count, out);
}

static void linear(const running *g, const fr_op *op, int item) {
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
                memcpy(g->pass->logits + (first + r) * g->pass->logits_stride + at, sum,
                       (size_t)left * sizeof *sum);
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
                fr_record *records = row_records(out, rows, first + r, &step);
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
static int pair_items(const running *g, int pairs, int kv_heads) {
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
    int each = pair_items(g, rows * per_key, op->kv_heads), head = item / each;
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
            fr_record *records = row_records(out, pass->rows, row, &step);
            g->kernels->quantise(a.out[p - from], D, records + (int64_t)at / FR_GROUP * step, step);
        }
}

static int items_of(const running *g, const fr_op *op) {
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

static void take(const running *g, const fr_op *op, int item, int thread) {
    switch (op->kind) {
        case FR_EMBED: embed(g, op, item); break;
        case FR_NORM: norm(g, op, item); break;
        case FR_LINEAR: linear(g, op, item); break;
        case FR_GATED: gated(g, op, item); break;
        case FR_ROTATE: rotate(g, op, item); break;
        case FR_ATTEND: attend(g, op, item, thread); break;
    }
}

/* Waits until all items are done, fetching the beginning of this thread's share of the weights
   that come next. */
static void wait_for(const running *g, int i, int items, int thread, int segments) {
    const char *next = NULL;
    for (int j = i + 1; j < g->model->count && j < i + 4 && !next; j++) {
        const fr_op *op = &g->model->ops[j];
        if (op->kind != FR_LINEAR && op->kind != FR_GATED) continue;
        const fr_matrix *m = op->matrix[0];
        next = (const char *)tile_at(m, (int64_t)m->tiles * (thread % segments) / segments);
    }
    for (int at = 0; next && at < WAITING_FETCH; at += 64) {
        if (atomic_load(&g->model->done[i].count) >= items) return;
        __builtin_prefetch(next + at, 0, 2);
    }
    fr_pool_wait(&g->model->done[i].count, items);
}

static void share(void *given, int thread) {
    running *g = given;
    int segments = fr_pool_threads(g->pool);
    if (segments > MOST_SEGMENTS) segments = MOST_SEGMENTS;
    for (int i = 0; i < g->model->count; i++) {
        const fr_op *op = &g->model->ops[i];
        int items = items_of(g, op);
        for (int k = 0; k < segments; k++) {
            int segment = (thread + k) % segments;
            int start = (int)((int64_t)items * segment / segments);
            int end = (int)((int64_t)items * (segment + 1) / segments);
            int chunk = k ? 1 : (end - start) / 8 + 1;
            for (;;) {
                int from = start + atomic_fetch_add(&g->model->taken[i * segments + segment].count,
                                                    chunk);
                if (from >= end) break;
                int to = from + chunk < end ? from + chunk : end;
                for (int item = from; item < to; item++) take(g, op, item, thread);
                atomic_fetch_add(&g->model->done[i].count, to - from);
            }
        }
        wait_for(g, i, items, thread, segments);
    }
}

/* Runs of rows of one slot, and the attention items before each. */
static void find_runs(running *g) {
    const fr_pass *pass = g->pass;
    int heads = 0, kv_heads = 1;
    for (int i = 0; i < g->model->count; i++)
        if (g->model->ops[i].kind == FR_ATTEND) {
            heads = g->model->ops[i].heads;
            kv_heads = g->model->ops[i].kv_heads;
        }
    g->runs = 0;
    g->run_item[0] = 0;
    for (int row = 0; row < pass->rows; row++)
        if (!row || pass->slot[row] != pass->slot[row - 1]) g->run_start[g->runs++] = row;
    g->run_start[g->runs] = pass->rows;
    for (int i = 0; i < g->runs; i++) {
        int rows = g->run_start[i + 1] - g->run_start[i];
        g->run_item[i + 1] = g->run_item[i] + kv_heads * pair_items(g, rows * heads / kv_heads, kv_heads);
    }
}

int fr_run(fr_pool *pool, fr_model *model, const char *path, const fr_pass *pass) {
    const fr_kernels *kernels = fr_find_path(path);
    if (!kernels || pass->rows < 1 || pass->rows > model->max_rows) return -1;
    int cells = 0;
    for (int row = 0; row < pass->rows; row++)
        if (pass->cells[row] >= cells) cells = pass->cells[row] + 1;
    running g = {.model = model, .pool = pool, .kernels = kernels, .pass = pass};
    g.stride = (cells + 15) / 16 * 16 + 16;
    int64_t score_bytes = g.stride * FR_PAIRS * fr_pool_threads(pool) * (int64_t)sizeof(float);
    g.run_start = malloc(2 * (size_t)(pass->rows + 1) * sizeof *g.run_start);
    g.scores = fr_alloc(score_bytes);
    if (g.run_start && g.scores) {
        g.run_item = g.run_start + pass->rows + 1;
        find_runs(&g);
        int segments = fr_pool_threads(pool);
        if (segments > MOST_SEGMENTS) segments = MOST_SEGMENTS;
        for (int i = 0; i < model->count; i++) atomic_store(&model->done[i].count, 0);
        for (int i = 0; i < model->count * segments; i++) atomic_store(&model->taken[i].count, 0);
        fr_pool_run(pool, share, &g);
    }
    int failed = !g.run_start || !g.scores;
    free(g.run_start);
    fr_free(g.scores, score_bytes);
    return failed ? -1 : 0;
}

void fr_move(void *const *pages, int layers, int kv_heads, int head_width, int from, int to) {
    int D = head_width;
    int64_t half = (int64_t)D * FR_PAGE;
    for (int i = 0; i < layers * kv_heads; i++) {
        uint16_t *source = (uint16_t *)pages[from / FR_PAGE] + 2 * half * i;
        uint16_t *target = (uint16_t *)pages[to / FR_PAGE] + 2 * half * i;
        int a = from % FR_PAGE, b = to % FR_PAGE;
        for (int d = 0; d < D; d++)
            target[(b / 16 * D + d) * 16 + b % 16] = source[(a / 16 * D + d) * 16 + a % 16];
        memmove(target + half + (int64_t)b * D, source + half + (int64_t)a * D, (size_t)D * 2);
    }
}

/* ---- for tests ---- */

typedef struct {
    const fr_kernels *kernels;
    const fr_matrix *matrix;
    const float *x;
    float *y;
    int rows, threads;
    int64_t stride;
    fr_record *records;
} product;

static void multiply(void *given, int thread) {
    product *p = given;
    const fr_matrix *m = p->matrix;
    int64_t groups = m->width / FR_GROUP;
    for (int tile = thread; tile < m->tiles; tile += p->threads)
        for (int block = 0; block < fr_blocks(p->rows); block++) {
            int first = fr_block_start(p->rows, block);
            int count = fr_block_start(p->rows, block + 1) - first;
            float y[FR_ROWS * FR_LANES];
            p->kernels->tile(m, tile, tile_at(m, tile + 1), p->records + first * groups, p->x + (int64_t)first * m->width,
                             m->width, count, y);
            for (int r = 0; r < count; r++)
                memcpy(p->y + (first + r) * p->stride + tile * FR_LANES, y + r * FR_LANES,
                       FR_LANES * sizeof *y);
        }
}

static void quantise_all(void *given, int thread) {
    product *p = given;
    fr_buffer b = {.records = p->records, .groups = p->matrix->width / FR_GROUP};
    int step;
    for (int row = thread; row < p->rows; row += p->threads) {
        fr_record *records = row_records(&b, p->rows, row, &step);
        p->kernels->quantise(p->x + (int64_t)row * p->matrix->width, p->matrix->width, records,
                             step);
    }
}

int fr_matmul(fr_pool *pool, const char *path, const fr_matrix *matrix, const float *x, int rows,
              float *y) {
    product p = {.kernels = fr_find_path(path), .matrix = matrix, .x = x, .y = y, .rows = rows,
                 .threads = fr_pool_threads(pool), .stride = (int64_t)matrix->tiles * FR_LANES};
    if (!p.kernels || rows < 1) return -1;
    int64_t bytes = (int64_t)rows * (matrix->width / FR_GROUP + 1) * (int64_t)sizeof(fr_record);
    p.records = fr_alloc(bytes);
    if (!p.records) return -1;
    if (matrix->width % FR_GROUP == 0) fr_pool_run(pool, quantise_all, &p);
    fr_pool_run(pool, multiply, &p);
    fr_free(p.records, bytes);
    return 0;
}
