/* What Python calls is exported; everything else stays inside the library. */
#ifndef FR_EXPORT_H
#define FR_EXPORT_H

#define FR_API __attribute__((visibility("default")))

#endif
