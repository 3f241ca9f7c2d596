/* SPDX-License-Identifier: Apache-2.0 */
/* Private to compiler/onnx: how the file reader reports what is wrong. The importer turns it into a diagnostic. */
#ifndef TCCC_ONNX_ERROR_INT_H
#define TCCC_ONNX_ERROR_INT_H

#include <stdbool.h>

enum onnx_status {
    ONNX_OK = 0,
    ONNX_BAD_FILE,     /* the file (or one that it names) is wrong or missing */
    ONNX_ENVIRONMENT,  /* an unreadable device */
};

struct onnx_error {
    enum onnx_status status;
    char text[480];
};

/* Records the first error (later ones are consequences) and returns false, so that callers can `return
 * onnx_fail(...)`. */
bool onnx_fail(struct onnx_error *err, enum onnx_status status, const char *format, ...) __attribute__((format(printf,
               3, 4)));

#endif
