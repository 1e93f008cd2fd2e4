/* A job is a function that every thread of the pool runs once, the caller as thread 0. */

#ifndef FORERUN_POOL_H
#define FORERUN_POOL_H

#include "forerun.h"

typedef void (*fr_job)(void *argument, int thread);

/* Runs the job on all threads and returns when all are done. Calls from several threads queue. */
void fr_pool_run(fr_pool *pool, fr_job job, void *argument);
/* Threads that a job runs on; after `fr_pool_ready` the same until the call is over. */
int fr_pool_threads(const fr_pool *pool);
/* Starts the threads anew in a child after a fork. */
void fr_pool_ready(fr_pool *pool);
/* Within a job: waits until the counter has come to `all`. */
void fr_pool_wait(const _Atomic int *done, int all);

#endif
