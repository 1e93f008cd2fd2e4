/* Which instruction paths this build has, and which of them this machine can run. */

#include <string.h>

#include "kernels.h"

extern const fr_kernels fr_path_portable;
#if defined(__x86_64__)
extern const fr_kernels fr_path_avx512, fr_path_avx2;
#elif defined(__aarch64__)
extern const fr_kernels fr_path_neon;
#endif

static const fr_kernels *const paths[] = {
#if defined(__x86_64__)
    &fr_path_avx512, &fr_path_avx2,
#elif defined(__aarch64__)
    &fr_path_neon,
#endif
    &fr_path_portable,
};
enum { PATHS = sizeof paths / sizeof *paths };

const char *fr_paths(void) {
    static char names[64]; /* the same whoever writes it */
    char found[64] = "";
    for (int i = 0; i < PATHS; i++) {
        if (!paths[i]->usable()) continue;
        if (*found) strcat(found, " ");
        strcat(found, paths[i]->name);
    }
    memcpy(names, found, sizeof names);
    return names;
}

const fr_kernels *fr_find_path(const char *name) {
    for (int i = 0; i < PATHS; i++)
        if (!strcmp(paths[i]->name, name) && paths[i]->usable()) return paths[i];
    return NULL;
}
