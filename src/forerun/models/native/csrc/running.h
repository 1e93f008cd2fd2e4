/* A plan while a pass runs: what model.c sets up and operations.c works on. */

#ifndef FORERUN_RUNNING_H
#define FORERUN_RUNNING_H

#include <stdatomic.h>

#include "kernels.h"
#include "pool.h"

typedef struct { _Alignas(64) _Atomic int count; } counter;

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
    int runs, segments; /* segments: of each operation's items, one for each thread */
    float *scores;
    int64_t stride;
    _Atomic int law; /* the next wanted row whose law is to be made */
    fr_largest *largest; /* [thread][wanted]; NULL where logits are wanted */
} running;

/* How many items an operation has in this pass, and doing one of them. */
int fr_items(const running *g, const fr_op *op);
void fr_take(const running *g, const fr_op *op, int item, int thread);
/* Items that the pairs of one head of keys are cut into. */
int fr_pair_items(const running *g, int pairs, int kv_heads);

/* Records of a row: its first group's; those of the next groups are `*step` apart. */
fr_record *fr_row_records(const fr_buffer *b, int rows, int row, int *step);

static inline const uint8_t *tile_at(const fr_matrix *m, int64_t tile) {
    return m->data + tile * m->tile_bytes;
}

#endif
