/* Memory for weights and pages: aligned for the widest lanes, zeroed, in huge pages if there are. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "forerun.h"

enum { HUGE_PAGE = 2 << 20 };

void *fr_alloc(int64_t bytes) {
    if (bytes < 1) bytes = 1;
    if (bytes < HUGE_PAGE) {
        void *memory = NULL;
        if (posix_memalign(&memory, FR_ALIGN, (size_t)bytes)) return NULL;
        return memset(memory, 0, (size_t)bytes);
    }
    /* Reserve one huge page more, and give back what lies before and behind the aligned part. */
    size_t size = ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *found = mmap(NULL, size + HUGE_PAGE, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANON, -1, 0);
    if (found == MAP_FAILED) return NULL;
    size_t before = (HUGE_PAGE - (uintptr_t)found % HUGE_PAGE) % HUGE_PAGE;
    if (before) munmap(found, before);
    munmap(found + before + size, HUGE_PAGE - before);
#ifdef MADV_HUGEPAGE
    madvise(found + before, size, MADV_HUGEPAGE);
#endif
    return found + before;
}

void fr_free(void *memory, int64_t bytes) {
    if (!memory) return;
    if (bytes < HUGE_PAGE) free(memory);
    else munmap(memory, ((size_t)bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}
