/* Laws of rows of logits, for Python (laws.c); and their table by instruction path. */

#ifndef FORERUN_LAWS_H
#define FORERUN_LAWS_H

#include <stdint.h>

#include "export.h"

enum {
    FR_BAD_LOGITS = -1, /* NaN or +inf */
    FR_NO_TOKEN = -2,   /* −inf alone */
};

/* Of logits[size]. `path` is NULL for the best one, or "plain", "avx2", "avx512"; all give the same
   bits. temperature > 0. */

/* The largest, the first of equals; or FR_BAD_LOGITS, FR_NO_TOKEN. */
FR_API int64_t fr_argmax(const char *path, const float *logits, int64_t size);
/* The whole law, p[size]. 0, FR_BAD_LOGITS or FR_NO_TOKEN. */
FR_API int fr_whole_law(const char *path, const float *logits, int64_t size, float temperature,
                        float *p);
/* A law that is cut; top_k 0, top_p 1 and min_p 0 are off. Returns how many tokens are left, or
   FR_BAD_LOGITS, FR_NO_TOKEN. `ids` and `p` have room for `size`. */
FR_API int64_t fr_cut_law(const char *path, const float *logits, int64_t size, float temperature,
                          int64_t top_k, double top_p, float min_p, int32_t *ids, float *p);
/* A law to be made: the largest where the temperature is 0; the whole law where `ids` is NULL. */
typedef struct {
    float temperature, min_p;
    int64_t top_k;
    double top_p;
    int32_t *ids;
    float *p;
    int64_t found; /* what the function above says that makes it */
} fr_law;
void fr_make_law(fr_law *law, const float *logits, int64_t size);
/* Whether this machine has the path. */
FR_API int fr_has_laws(const char *path);

typedef struct {
    int64_t (*argmax)(const float *, int64_t);
    int (*whole)(const float *, int64_t, float, float *);
    int64_t (*cut)(const float *, int64_t, float, int64_t, double, float, int32_t *, float *);
} fr_laws;

#endif
