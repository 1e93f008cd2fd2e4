/* Which library this is: the version of its interface, and what it was built from. */
#include "export.h"

#define FR_ABI 5 /* raised with clib.ABI when a function's meaning or arguments change */

#ifndef FR_BUILD
#define FR_BUILD "unknown"
#endif

FR_API int fr_abi(void);
FR_API const char *fr_build(void);

int fr_abi(void) { return FR_ABI; }

/* The hash of sources and flags, then the compiler. */
const char *fr_build(void) { return FR_BUILD " " __VERSION__; }
