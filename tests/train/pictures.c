/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a sample of a picture file to standard output, by libtccdata:
 * pictures FILE CHANNELS HEIGHT WIDTH RESIZE LAST TYPE MEAN STD, as lines of tests/train/pictures.txt have them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tccdata.h>

int main(int argc, char **argv)
{
    struct tccdata_picture p = {0};

    if (argc < 10)
        return 2;
    p.channels = atoi(argv[2]);
    p.height = atoi(argv[3]);
    p.width = atoi(argv[4]);
    p.resize = atoi(argv[5]);
    p.last = atoi(argv[6]);
    p.dtype = strcmp(argv[7], "u8") ? TCC_F32 : TCC_U8;
    for (int c = 0; c < 3; c++) {
        p.mean[c] = (float)(atof(argv[8]) + c / 8.0);
        p.std[c] = (float)(atof(argv[9]) + c / 8.0);
    }
    size_t n = tccdata_bytes(&p);
    void *x = n ? malloc(n) : NULL;
    int status = x ? tccdata_read(&p, argv[1], x) : TCC_EUSAGE;
    if (status)
        fprintf(stderr, "%s\n", tccdata_error());
    else if (*tccdata_error() || fwrite(x, n, 1, stdout) != 1)
        status = 1;
    free(x);
    return status;
}
