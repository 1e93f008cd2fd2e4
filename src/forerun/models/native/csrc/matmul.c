/* A product on its own, for tests. */

#include <string.h>

#include "running.h"

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
        fr_record *records = fr_row_records(&b, p->rows, row, &step);
        p->kernels->quantise(p->x + (int64_t)row * p->matrix->width, p->matrix->width, records,
                             step);
    }
}

int fr_matmul(fr_pool *pool, const char *path, const fr_matrix *matrix, const float *x, int rows,
              float *y) {
    fr_pool_ready(pool);
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
