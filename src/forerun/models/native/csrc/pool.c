/* Threads that share one call at a time. They spin for a moment between calls, then sleep.

   After a fork the child has none of them: the pool notices by the process's number and starts its
   own. Every thread computes with round-to-nearest and with denormal numbers, whatever the process
   around it has set, and the caller gets its own mode back. */

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"

enum {
    SPINS_BEFORE_SLEEP = 20000, /* about 0.3 ms */
    SPINS_BEFORE_YIELD = 4000,  /* about 0.06 ms: a straggler may want this core */
};

struct fr_pool {
    pthread_mutex_t turn; /* held by the thread whose call runs */
    pthread_mutex_t lock;
    pthread_cond_t call;
    int wanted;  /* threads, the caller included */
    int started; /* threads that could be started, the caller included */
    _Atomic int process; /* that started the threads; 0 while one of a child's does */
    pthread_t *workers;
    fr_job job;
    void *argument;
    _Atomic int stop;
    _Alignas(64) _Atomic unsigned calls;
    _Alignas(64) _Atomic int sleeping;
    _Alignas(64) _Atomic int running;
};

typedef struct { fr_pool *pool; int thread; unsigned calls; } start;

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#if defined(__x86_64__)
typedef unsigned mode;
static mode exact_mode(void) {
    mode before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0x1f80);
    return before;
}
static void set_mode(mode m) { __builtin_ia32_ldmxcsr(m); }
#elif defined(__aarch64__)
typedef uint64_t mode;
static void set_mode(mode m) { __asm__ volatile("msr fpcr, %0" : : "r"(m)); }
static mode exact_mode(void) {
    mode before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    set_mode(0);
    return before;
}
#else
typedef int mode;
static mode exact_mode(void) { return 0; }
static void set_mode(mode m) { (void)m; }
#endif

static void *work(void *given) {
    start own = *(start *)given;
    fr_pool *pool = own.pool;
    free(given);
    exact_mode();
    for (unsigned seen = own.calls;; seen++) {
        for (int i = 0; i < SPINS_BEFORE_SLEEP && atomic_load(&pool->calls) == seen; i++) relax();
        if (atomic_load(&pool->calls) == seen) {
            pthread_mutex_lock(&pool->lock);
            atomic_fetch_add(&pool->sleeping, 1);
            while (atomic_load(&pool->calls) == seen) pthread_cond_wait(&pool->call, &pool->lock);
            atomic_fetch_sub(&pool->sleeping, 1);
            pthread_mutex_unlock(&pool->lock);
        }
        if (atomic_load(&pool->stop)) return NULL;
        pool->job(pool->argument, own.thread);
        atomic_fetch_sub(&pool->running, 1);
    }
}

static void start_threads(fr_pool *pool) {
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->call, NULL);
    pool->started = 1;
    atomic_store(&pool->sleeping, 0);
    atomic_store(&pool->running, 0);
    for (int i = 1; i < pool->wanted; i++) {
        start *given = malloc(sizeof *given);
        if (!given) return;
        *given = (start){pool, i, atomic_load(&pool->calls)};
        if (pthread_create(&pool->workers[i], NULL, work, given)) {
            free(given); /* fewer threads give the same bits */
            return;
        }
        pool->started = i + 1;
    }
}

void fr_pool_ready(fr_pool *pool) {
    int own = (int)getpid(), found = atomic_load(&pool->process);
    if (found == own) return;
    if (found && atomic_compare_exchange_strong(&pool->process, &found, 0)) {
        pthread_mutex_init(&pool->turn, NULL); /* a child: threads, and maybe a lock, stayed behind */
        start_threads(pool);
        atomic_store(&pool->process, own);
    }
    while (atomic_load(&pool->process) != own) sched_yield(); /* another thread of the child does */
}

fr_pool *fr_pool_new(int threads) {
    fr_pool *pool = NULL;
    if (posix_memalign((void **)&pool, 64, sizeof *pool)) return NULL;
    *pool = (fr_pool){.wanted = threads < 1 ? 1 : threads};
    pool->workers = calloc((size_t)pool->wanted, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    pthread_mutex_init(&pool->turn, NULL);
    start_threads(pool);
    atomic_store(&pool->process, (int)getpid());
    return pool;
}

static void call(fr_pool *pool, fr_job job, void *argument) {
    pool->job = job;
    pool->argument = argument;
    atomic_store(&pool->running, pool->started - 1);
    atomic_fetch_add(&pool->calls, 1);
    if (atomic_load(&pool->sleeping)) {
        pthread_mutex_lock(&pool->lock);
        pthread_cond_broadcast(&pool->call);
        pthread_mutex_unlock(&pool->lock);
    }
}

void fr_pool_free(fr_pool *pool) {
    if (!pool) return;
    if (atomic_load(&pool->process) == (int)getpid()) {
        atomic_store(&pool->stop, 1);
        call(pool, NULL, NULL);
        for (int i = 1; i < pool->started; i++) pthread_join(pool->workers[i], NULL);
    }
    free(pool->workers);
    free(pool);
}

int fr_pool_threads(const fr_pool *pool) { return pool->started; }

void fr_pool_run(fr_pool *pool, fr_job job, void *argument) {
    fr_pool_ready(pool);
    pthread_mutex_lock(&pool->turn);
    mode before = exact_mode();
    if (pool->started > 1) call(pool, job, argument);
    job(argument, 0);
    for (int i = 0; atomic_load(&pool->running) > 0; i++) {
        if (i < SPINS_BEFORE_YIELD) relax();
        else sched_yield();
    }
    set_mode(before);
    pthread_mutex_unlock(&pool->turn);
}

void fr_pool_wait(const _Atomic int *done, int all) {
    for (int i = 0; atomic_load(done) < all; i++) {
        if (i < SPINS_BEFORE_YIELD) relax();
        else sched_yield();
    }
}
