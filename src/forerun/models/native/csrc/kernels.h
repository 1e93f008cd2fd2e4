/* The kernels of one instruction path, and what they are given. Not seen by Python. */

#ifndef FORERUN_KERNELS_H
#define FORERUN_KERNELS_H

#include "forerun.h"

/* 32 activations as codes: x ≈ scale · codes. Records of a block of R rows are interleaved:
   record (group, row) is at index group * R + row. */
typedef struct {
    int8_t codes[FR_GROUP];
    float scale;
    float sum_scaled; /* scale · (sum of codes) */
    int32_t sum[2];   /* of the first 16 codes, of the last 16 */
} fr_record;

/* Rows of a pass are cut into blocks of nearly equal size, at most FR_ROWS each. */
static inline int fr_blocks(int rows) { return (rows + FR_ROWS - 1) / FR_ROWS; }
static inline int fr_block_start(int rows, int block) {
    int blocks = fr_blocks(rows);
    return (int)((int64_t)rows * block / blocks);
}

typedef struct {
    float *floats; /* [rows][stride] */
    fr_record *records;
    int64_t stride;
    int width, groups;
} fr_buffer;

/* One call of `attend`: pairs of one slot and one head of keys. */
typedef struct {
    int pairs, head_width, window;
    const float *q[FR_PAIRS]; /* rotated and scaled */
    float *out[FR_PAIRS];
    int shared[FR_PAIRS], path_length[FR_PAIRS];
    const int32_t *path[FR_PAIRS];
    void *const *pages;
    int64_t key_offset, value_offset; /* bytes from a page's beginning */
    float *scores;                    /* [FR_PAIRS][stride] */
    int64_t stride;
} fr_attention;

/* The largest logit of each lane, and its tile, the first of equals. */
typedef struct {
    float value[FR_LANES];
    int32_t tile[FR_LANES];
    int32_t bad[FR_LANES]; /* not 0: one was NaN or +inf */
} fr_largest;

typedef struct {
    const char *name;
    int (*usable)(void);
    /* out[r][16] of one tile for a block of rows; `next` is the tile that will be read then */
    void (*tile)(const fr_matrix *m, int64_t tile, const uint8_t *next, const fr_record *x,
                 const float *floats, int64_t stride, int rows, float *out);
    /* codes of one row, to records[group * step] */
    void (*quantise)(const float *x, int width, fr_record *records, int step);
    float (*inverse_rms)(const float *x, int width, float epsilon);
    void (*norm)(const float *x, const float *weight, float inverse, int width, float *out,
                 int add);
    void (*gate)(const float *gate, const float *up, int width, int gelu, float *out);
    void (*rotate)(float *x, const float *table, int turned, int interleaved);
    void (*store)(const float *k, const float *v, int head_width, uint16_t *keys, uint16_t *values);
    void (*attend)(const fr_attention *a);
    /* the first `count` of a tile's logits join the others */
    void (*choose)(const float *logits, int tile, int count, fr_largest *largest);
} fr_kernels;

const fr_kernels *fr_find_path(const char *name);

/* Half and brain floats as floats, exactly; for the few places that need no speed. */
static inline float fr_from_bits(uint32_t bits) {
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}
static inline float fr_from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 1023;
    if (exponent == 31) return fr_from_bits(sign | 0x7f800000u | fraction << 13);
    if (exponent) return fr_from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}
static inline float fr_from_brain(uint16_t brain) { return fr_from_bits((uint32_t)brain << 16); }

#endif
