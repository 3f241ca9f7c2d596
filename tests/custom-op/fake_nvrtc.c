/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NVRTC's interface for tests where it is not installed: it looks at what it is given, and the PTX is the file
 * $FAKE_NVRTC_PTX (made by NVRTC 12.9 of the same source), or it refuses the source with $FAKE_NVRTC_LOG.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct program {
    char *source, *ptx;
};

static char *read_file(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = path ? fopen(path, "r") : NULL;
    if (f && getdelim(&text, &size, 0, f) < 0)
        text = NULL;
    if (f)
        fclose(f);
    return text;
}

static const char *log_text(void)
{
    const char *text = getenv("FAKE_NVRTC_LOG");
    return text ? text : "";
}

int nvrtcCreateProgram(struct program **p, const char *source, const char *name, int n, const char *const *headers,
                       const char *const *names)
{
    (void)name;
    if (n != 1 || strcmp(names[0], "tccc_custom.h") != 0 || !strstr(headers[0], "TCCC_CUDA_OP"))
        return 3;
    *p = calloc(1, sizeof **p);
    (*p)->source = strdup(source);
    return 0;
}

int nvrtcCompileProgram(struct program *p, int n, const char *const *options)
{
    int known = 0;
    for (int i = 0; i < n; i++)
        known += !strcmp(options[i], "--gpu-architecture=compute_80");
    if (*log_text() || !known || !strstr(p->source, "TCCC_CUDA_OP(ScaledTanh)\n") ||
        !strstr(p->source, "tccc_cuda_op_ScaledTanh(c);"))
        return 6;
    p->ptx = read_file(getenv("FAKE_NVRTC_PTX"));
    return p->ptx ? 0 : 6;
}

int nvrtcGetProgramLogSize(struct program *p, size_t *size)
{
    (void)p;
    *size = strlen(log_text()) + 1;
    return 0;
}

int nvrtcGetProgramLog(struct program *p, char *text)
{
    (void)p;
    strcpy(text, log_text());
    return 0;
}

int nvrtcGetPTXSize(struct program *p, size_t *size)
{
    *size = strlen(p->ptx) + 1;
    return 0;
}

int nvrtcGetPTX(struct program *p, char *text)
{
    strcpy(text, p->ptx);
    return 0;
}

int nvrtcDestroyProgram(struct program **p)
{
    free((*p)->source);
    free((*p)->ptx);
    free(*p);
    return 0;
}

const char *nvrtcGetErrorString(int result)
{
    return result ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}
