/* Laws: plain, and the choice of the path. */

#define LAWS laws_plain /* seen here alone */
#include "laws.inc.h"

#ifdef __x86_64__
extern const fr_laws fr_laws_avx2, fr_laws_avx512;
#endif

/* The path's table; NULL where this machine lacks it. */
static const fr_laws *find(const char *path) {
#ifdef __x86_64__
    int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    int avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                 __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                 __builtin_cpu_supports("avx512vnni");
    if (avx512 && (!path || !strcmp(path, "avx512"))) return &fr_laws_avx512;
    if (avx2 && (!path || !strcmp(path, "avx2"))) return &fr_laws_avx2;
#endif
    return !path || !strcmp(path, "plain") ? &laws_plain : NULL;
}

int fr_has_laws(const char *path) { return find(path) != NULL; }

int64_t fr_argmax(const char *path, const float *logits, int64_t size) {
    return find(path)->argmax(logits, size);
}

int fr_whole_law(const char *path, const float *logits, int64_t size, float temperature, float *p) {
    return find(path)->whole(logits, size, temperature, p);
}

int64_t fr_cut_law(const char *path, const float *logits, int64_t size, float temperature,
                   int64_t top_k, double top_p, float min_p, int32_t *ids, float *p) {
    return find(path)->cut(logits, size, temperature, top_k, top_p, min_p, ids, p);
}

void fr_make_law(fr_law *law, const float *logits, int64_t size) {
    const fr_laws *of = find(NULL);
    if (law->temperature == 0) law->found = of->argmax(logits, size);
    else if (!law->ids) law->found = of->whole(logits, size, law->temperature, law->p);
    else law->found = of->cut(logits, size, law->temperature, law->top_k, law->top_p, law->min_p,
                              law->ids, law->p);
}
