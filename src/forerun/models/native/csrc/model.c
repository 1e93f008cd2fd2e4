/* Runs a plan: for each operation the threads take items of work until all of them are done.

   Items are independent and write to places of their own, so who takes which changes nothing. What
   is waited for is work, not threads: one that the system has put aside delays the others only if
   it holds an item. Each thread has a segment of its own, so that it reads memory in order, and
   then helps the others; while it waits, it fetches what it will read next. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "running.h"

enum { MOST_SEGMENTS = 64, WAITING_FETCH = 192 << 10 /* bytes */ };

int64_t fr_page_bytes(int layers, int kv_heads, int head_width) {
    return (int64_t)layers * kv_heads * head_width * 2 * FR_PAGE * (int64_t)sizeof(uint16_t);
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

/* Waits until all items are done, fetching the beginning of this thread's share of the weights
   that come next. */
static void wait_for(const running *g, int i, int items, int thread) {
    const char *next = NULL;
    for (int j = i + 1; j < g->model->count && j < i + 4 && !next; j++) {
        const fr_op *op = &g->model->ops[j];
        if (op->kind != FR_LINEAR && op->kind != FR_GATED) continue;
        const fr_matrix *m = op->matrix[0];
        next = (const char *)tile_at(m, (int64_t)m->tiles * (thread % g->segments) / g->segments);
    }
    for (int at = 0; next && at < WAITING_FETCH; at += 64) {
        if (atomic_load(&g->model->done[i].count) >= items) return;
        __builtin_prefetch(next + at, 0, 2);
    }
    fr_pool_wait(&g->model->done[i].count, items);
}

static void share(void *given, int thread) {
    running *g = given;
    int segments = g->segments;
    for (int i = 0; i < g->model->count; i++) {
        const fr_op *op = &g->model->ops[i];
        int items = fr_items(g, op);
        for (int k = 0; k < segments; k++) {
            int segment = (thread + k) % segments;
            int start = (int)((int64_t)items * segment / segments);
            int end = (int)((int64_t)items * (segment + 1) / segments);
            for (int seen = start;;) { /* fewer at a time, the fewer are left */
                int chunk = k ? 1 : (end - seen) / 4 + 1;
                int from = start + atomic_fetch_add(&g->model->taken[i * segments + segment].count,
                                                    chunk);
                if (from >= end) break;
                int to = from + chunk < end ? from + chunk : end;
                seen = to;
                for (int item = from; item < to; item++) fr_take(g, op, item, thread);
                atomic_fetch_add(&g->model->done[i].count, to - from);
            }
        }
        wait_for(g, i, items, thread);
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
        int items = kv_heads * fr_pair_items(g, rows * heads / kv_heads, kv_heads);
        g->run_item[i + 1] = g->run_item[i] + items;
    }
}

static void begin_largest(fr_largest *largest) {
    for (int c = 0; c < FR_LANES; c++) {
        largest->value[c] = -INFINITY;
        largest->tile[c] = INT32_MAX;
        largest->bad[c] = 0;
    }
}

/* Of all that the threads found for a row: the id, or why there is none. */
static int64_t choice(const running *g, int row, int threads) {
    float most = -INFINITY;
    int64_t id = FR_NO_TOKEN;
    for (int i = 0; i < threads * FR_LANES; i++) {
        const fr_largest *found = g->largest + (int64_t)(i / FR_LANES) * g->pass->wanted + row;
        int c = i % FR_LANES;
        int64_t own = (int64_t)found->tile[c] * FR_LANES + c;
        if (found->bad[c]) return FR_BAD_LOGITS;
        if (found->value[c] > most || (id >= 0 && found->value[c] == most && own < id)) {
            most = found->value[c];
            id = own;
        }
    }
    return id;
}

/* Laws of the wanted rows; each by the thread that is free. */
static void make_laws(void *given, int thread) {
    running *g = given;
    const fr_pass *pass = g->pass;
    (void)thread;
    for (int row; (row = atomic_fetch_add(&g->law, 1)) < pass->wanted;)
        fr_make_law(pass->laws + row, pass->logits + row * pass->logits_stride, pass->size);
}

int fr_run(fr_pool *pool, fr_model *model, const char *path, const fr_pass *pass) {
    const fr_kernels *kernels = fr_find_path(path);
    if (!kernels || pass->rows < 1 || pass->rows > model->max_rows) return -1;
    fr_pool_ready(pool);
    int cells = 0;
    for (int row = 0; row < pass->rows; row++)
        if (pass->cells[row] >= cells) cells = pass->cells[row] + 1;
    running g = {.model = model, .pool = pool, .kernels = kernels, .pass = pass};
    int threads = fr_pool_threads(pool);
    g.segments = threads < MOST_SEGMENTS ? threads : MOST_SEGMENTS;
    g.stride = (cells + 15) / 16 * 16 + 16;
    int64_t score_bytes = g.stride * FR_PAIRS * threads * (int64_t)sizeof(float);
    int64_t largest = pass->logits ? 0 : (int64_t)threads * pass->wanted;
    int64_t largest_bytes = largest * (int64_t)sizeof *g.largest;
    g.run_start = malloc(2 * (size_t)(pass->rows + 1) * sizeof *g.run_start);
    g.scores = fr_alloc(score_bytes);
    g.largest = largest ? fr_alloc(largest_bytes) : NULL;
    int failed = !g.run_start || !g.scores || (largest && !g.largest);
    if (!failed) {
        g.run_item = g.run_start + pass->rows + 1;
        find_runs(&g);
        for (int i = 0; i < model->count; i++) atomic_store(&model->done[i].count, 0);
        for (int i = 0; i < model->count * g.segments; i++) atomic_store(&model->taken[i].count, 0);
        for (int64_t i = 0; i < largest; i++) begin_largest(g.largest + i);
        fr_pool_run(pool, share, &g);
        if (pass->laws) fr_pool_run(pool, make_laws, &g);
        for (int row = 0; largest && row < pass->wanted; row++)
            pass->choices[row] = choice(&g, row, threads);
    }
    free(g.run_start);
    fr_free(g.scores, score_bytes);
    fr_free(g.largest, largest_bytes);
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

void fr_cells(void *const *pages, int layers, int kv_heads, int head_width, int first, int count,
              uint16_t *saved, int room, int back) {
    int D = head_width;
    int64_t half = (int64_t)D * FR_PAGE;
    for (int i = 0; i < layers * kv_heads; i++, saved += 2 * (int64_t)room * D) {
        for (int j = 0; j < count; j++) {
            int cell = (first + j) % FR_PAGE;
            uint16_t *keys = (uint16_t *)pages[(first + j) / FR_PAGE] + 2 * half * i;
            uint16_t *key = keys + (int64_t)(cell / 16) * D * 16 + cell % 16;
            uint16_t *value = keys + half + (int64_t)cell * D;
            uint16_t *k = saved + (int64_t)j * D, *v = k + (int64_t)room * D;
            if (back) {
                for (int d = 0; d < D; d++) key[16 * d] = k[d];
                memcpy(value, v, (size_t)D * 2);
            } else {
                for (int d = 0; d < D; d++) k[d] = key[16 * d];
                memcpy(v, value, (size_t)D * 2);
            }
        }
    }
}
