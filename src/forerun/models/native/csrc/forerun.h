/* What Python calls: packed matrices, plans, passes, and the pool of threads that runs them.

   A plan is a flat list of operations on numbered buffers, each with one vector for each row of a
   pass. A row is one new token of one slot. Whatever a row gives is computed in one order that
   depends neither on the other rows, nor on threads, nor on the instruction path. */

#ifndef FORERUN_H
#define FORERUN_H

#include <stdint.h>

#include "export.h"
#include "laws.h"

enum {
    FR_LANES = 16,  /* output channels of a tile, and lanes of every reduction */
    FR_GROUP = 32,  /* input channels that share an activation's scale */
    FR_PAGE = 64,   /* positions of a page of cached keys and values */
    FR_ROWS = 8,    /* rows of a block: they share each unpacked weight */
    FR_PAIRS = 4,   /* (row, head) pairs that share each key */
    FR_ALIGN = 64,
};

typedef enum {
    FR_F32, FR_F16, FR_BF16,
    FR_Q8_0, FR_Q4_0, FR_Q4_1, FR_Q5_0, FR_Q5_1, FR_Q4_K, FR_Q5_K, FR_Q6_K,
    FR_TYPES
} fr_type;

/* A packed matrix of `rows` output channels and `width` input channels (pack.c). */
typedef struct {
    int32_t type, rows, width, tiles;
    int64_t tile_bytes, scale_bytes; /* of a tile; its codes follow its scales */
    const uint8_t *data;
    const float *bias; /* [tiles * 16] or NULL */
} fr_matrix;

typedef enum { FR_EMBED, FR_NORM, FR_LINEAR, FR_GATED, FR_ROTATE, FR_ATTEND, FR_TAP, FR_FEED } fr_kind;

enum {
    FR_ADD = 1,         /* add to `out` instead of writing it */
    FR_QUANTISE = 2,    /* `out` is also wanted as codes */
    FR_CHOSEN = 4,      /* only the wanted rows, moved together */
    FR_INTERLEAVED = 8, /* rotate pairs (2i, 2i+1) */
    FR_GELU = 16,       /* else SiLU */
    FR_FLOATS = 32,     /* `out` is wanted as floats */
};

typedef struct {
    int32_t kind, flags;
    int32_t in;     /* buffer; ROTATE, ATTEND: of q */
    int32_t out[3]; /* LINEAR: one for each matrix; ROTATE: q, k, v; -1: the pass's logits */
    int32_t maps;   /* matrices: LINEAR 1 to 3; GATED gate and up; EMBED the table */
    int32_t width;  /* values of a row of `in` or `out` */
    int32_t layer; /* TAP: which part of a row of features */
    int32_t heads, kv_heads, head_width;
    int32_t window; /* keys a row sees, its own included; 0: all */
    int32_t turned; /* values of a head that turn */
    float epsilon, scale;
    const fr_matrix *matrix[3];
    const float *weight;   /* NORM; ROTATE: of q heads, TAP: of a norm; or NULL */
    const float *k_weight; /* ROTATE: of k heads or NULL */
    const float *table;    /* ROTATE: [position][turned]: cosines, then sines */
} fr_op;

/* Rows of one pass. Row r sees cells 0 .. shared[r]-1 of its slot, and then
   path[path_start[r]] .. path[path_start[r+1]-1]; its own cell is the last it sees. */
typedef struct {
    int32_t rows, wanted;
    const int32_t *tokens, *positions, *slot, *cells, *shared, *path_start, *path;
    const int32_t *wanted_rows;      /* [wanted] */
    void *const *const *pages;       /* [slot][page] */
    float *logits;                   /* [wanted][stride]; NULL: choices are wanted instead */
    int64_t logits_stride;
    int32_t size;       /* of a row's logits the first so many are what is said of it: */
    int64_t *choices;   /* [wanted]: what fr_argmax says */
    fr_law *laws;       /* [wanted]: to be made of the logits, or NULL */
    float *features;    /* [rows][stride]: what TAPs hand out, part after part */
    int64_t features_stride;
    const float *feed;  /* [rows][stride]: what FEEDs take */
    int64_t feed_stride;
} fr_pass;

typedef struct fr_pool fr_pool;
typedef struct fr_model fr_model;

/* pool.c: `threads` that share the work of a call, the caller being one. NULL: no memory. */
FR_API fr_pool *fr_pool_new(int threads);
FR_API void fr_pool_free(fr_pool *pool);

/* model.c. `widths[i]` values in buffer i. All that ops point to must outlive the model. */
FR_API fr_model *fr_model_new(const fr_op *ops, int count, const int32_t *widths, int buffers,
                              int max_rows, int layers, int kv_heads, int head_width);
FR_API void fr_model_free(fr_model *model);
FR_API int64_t fr_page_bytes(int layers, int kv_heads, int head_width);
/* 0, or -1 where there is no memory (then no row was computed). */
FR_API int fr_run(fr_pool *pool, fr_model *model, const char *path, const fr_pass *pass);
/* Move cell `from` of a slot to cell `to`, in all layers. */
FR_API void fr_move(void *const *pages, int layers, int kv_heads, int head_width, int from, int to);
/* Copy `count` cells of a slot from `first` on to `saved`, or back: [layer][head][keys, values]
   [room][head_width], of which the first `count` of `room` cells are taken. */
FR_API void fr_cells(void *const *pages, int layers, int kv_heads, int head_width, int first,
                     int count, uint16_t *saved, int room, int back);

/* memory.c: 64-byte aligned, zeroed, in huge pages where the system gives them. */
FR_API void *fr_alloc(int64_t bytes);
FR_API void fr_free(void *memory, int64_t bytes);

/* pack.c: bytes of a packed matrix (0: unknown type or width), and packing from a file's blocks. */
FR_API int64_t fr_layout(int type, int rows, int width, int64_t *tile_bytes, int64_t *scale_bytes);
FR_API void fr_pack(fr_pool *pool, int type, int rows, int width, const uint8_t *blocks,
                    uint8_t *packed);
/* One output channel of a packed matrix as floats: what the file means. */
FR_API void fr_channel(const fr_matrix *matrix, int row, float *out);

/* paths.c: names of the instruction paths of this build that this machine has, best first. */
FR_API const char *fr_paths(void);

/* matmul.c, for tests: y[r][tiles*16] = matrix · x[r], for any number of rows. -1: unknown path. */
FR_API int fr_matmul(fr_pool *pool, const char *path, const fr_matrix *matrix, const float *x,
                     int rows, float *y);

#endif
