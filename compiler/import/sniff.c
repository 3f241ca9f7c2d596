/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises files that are not ONNX models, so that the message names what the file is and what would work instead of
 * a byte offset.
 *
 * Most formats begin with a signature. Zip files are told apart by the names in their central directory (read with all
 * offsets checked). TensorFlow's protobuf files have no signature: they are recognised by fields that no ONNX model
 * begins with.
 */
#include "compiler/import/sniff.h"

#include <string.h>

#define WORKS "; tccc reads ONNX models (.onnx) and its own text (.tcir)"
#define FROM_TORCH WORKS ". In PyTorch: torch.onnx.export(model, args, 'model.onnx', dynamo=True)"
#define FROM_TF WORKS ". tf2onnx converts TensorFlow models: python -m tf2onnx.convert --help"

static const struct {
    uint32_t at, size;
    const char *bytes;
    const char *what;
} signatures[] = {
    {4, 4, "TFL3", "this is a TensorFlow Lite model" FROM_TF},
    {4, 4, "ORTM", "this is ONNX Runtime's own format (.ort)" WORKS ": use the .onnx file that it was made from"},
    {0, 8, "\x89HDF\r\n\x1a\n", "this is an HDF5 file (a Keras model or weights)" FROM_TF},
    {0, 4, "GGUF", "this is a GGUF file (weights without a graph)" WORKS},
    {0, 6, "\x93NUMPY", "this is a NumPy array (.npy)" WORKS},
    {0, 4,
     "\x7f"
     "ELF",
     "this is an ELF file (a program or library; compiled models are run by tccc-run)" WORKS},
    {0, 2, "\x1f\x8b", "this is a gzip archive: unpack it first" WORKS},
    {0, 4, "\x28\xb5\x2f\xfd", "this is a zstd archive: unpack it first" WORKS},
    {0, 6,
     "\xfd"
     "7zXZ\0",
     "this is an xz archive: unpack it first" WORKS},
    {0, 23, "version https://git-lfs", "this is a Git LFS pointer, not the file itself: run 'git lfs pull'" WORKS},
    {0, 9, "<!DOCTYPE", "this is a web page: the download went wrong" WORKS},
    {0, 5, "<html", "this is a web page: the download went wrong" WORKS},
    {0, 5, "<?xml", "this is an XML file (OpenVINO's .xml, perhaps)" WORKS},
    {0, 4, "%PDF", "this is a PDF file" WORKS},
    {0, 8, "\x89PNG\r\n\x1a\n", "this is a PNG picture" WORKS},
    {257, 5, "ustar", "this is a tar archive: unpack it first" WORKS},
};

static uint32_t le(const uint8_t *p, int bytes)
{
    uint32_t v = 0;
    for (int k = bytes - 1; k >= 0; k--)
        v = v << 8 | p[k];
    return v;
}

static bool has_suffix(const uint8_t *name, uint32_t size, const char *suffix)
{
    size_t n = strlen(suffix);
    return size >= n && !memcmp(name + size - n, suffix, n);
}

static bool contains(const uint8_t *name, uint32_t size, const char *part)
{
    size_t n = strlen(part);
    for (uint32_t k = 0; size >= n && k <= size - n; k++) {
        if (!memcmp(name + k, part, n))
            return true;
    }
    return false;
}

/* Finds the zip's end record in the last 64 KiB; -> offset of the central directory and its number of entries. */
static bool zip_directory(const uint8_t *data, uint64_t size, uint64_t *at, uint32_t *entries)
{
    uint64_t stop = size > 65536 + 22 ? size - 65536 - 22 : 0;
    for (uint64_t p = size >= 22 ? size - 22 : 0; size >= 22; p--) {
        if (!memcmp(data + p, "PK\5\6", 4)) {
            *entries = le(data + p + 10, 2);
            *at = le(data + p + 16, 4);
            return true;
        }
        if (p == stop)
            break;
    }
    return false;
}

static const char *sniff_zip(const uint8_t *data, uint64_t size)
{
    uint64_t at;
    uint32_t entries;
    bool pickle = false, code = false, archive_format = false, models = false, npy = false, keras = false, onnx = false;
    if (!zip_directory(data, size, &at, &entries))
        return "this is a zip archive, cut off or damaged" WORKS;
    for (uint32_t k = 0; k < entries && at <= size && size - at >= 46 && !memcmp(data + at, "PK\1\2", 4); k++) {
        uint32_t n = le(data + at + 28, 2);
        const uint8_t *name = data + at + 46;
        if (n > size - at - 46)
            break;
        pickle |= has_suffix(name, n, "data.pkl");
        code |= contains(name, n, "/code/");
        archive_format |=
            has_suffix(name, n, "archive_format") || has_suffix(name, n, "serialized_exported_program.json");
        models |= contains(name, n, "models/") && has_suffix(name, n, ".json");
        npy |= has_suffix(name, n, ".npy");
        keras |= has_suffix(name, n, "model.weights.h5");
        onnx |= has_suffix(name, n, ".onnx");
        at += 46 + (uint64_t)n + le(data + at + 30, 2) + le(data + at + 32, 2);
    }
    return archive_format || models ? "this is an archive of torch.export: its name must end in .pt2"
           : code                   ? "this is a TorchScript archive" FROM_TORCH
           : pickle
               ? "this is a PyTorch checkpoint (torch.save): weights, or a pickled module, without a graph" FROM_TORCH
           : keras ? "this is a Keras model (.keras)" FROM_TF
           : npy   ? "this is a NumPy archive (.npz)" WORKS
           : onnx  ? "this is a zip archive that holds an .onnx file: unpack it first" WORKS
                   : "this is a zip archive" WORKS;
}

/* The first field is length-delimited number `field` and its content begins with byte `first`. */
static bool delimited(const uint8_t *data, uint64_t size, uint64_t at, uint8_t tag, uint8_t first)
{
    if (at >= size || data[at++] != tag)
        return false;
    while (at < size && data[at] & 0x80)
        at++;
    return ++at < size && data[at] == first;
}

static const char *sniff_protobuf(const uint8_t *data, uint64_t size)
{
    /* SavedModel: schema version 1, then a MetaGraphDef that begins with its MetaInfoDef. In ONNX field 2 is the
     * producer's name. */
    if (size > 4 && data[0] == 0x08 && data[1] == 1 && delimited(data, size, 2, 0x12, 0x0a))
        return "this is a TensorFlow SavedModel" FROM_TF;
    /* GraphDef: nodes, each beginning with its name. In ONNX field 1 is a number. */
    if (delimited(data, size, 0, 0x0a, 0x0a))
        return "this looks like a TensorFlow graph (GraphDef)" FROM_TF;
    return NULL;
}

const char *imp_sniff(const uint8_t *data, uint64_t size)
{
    if (!size)
        return "the file is empty; an ONNX model is expected";
    for (size_t k = 0; k < sizeof signatures / sizeof *signatures; k++) {
        if (size >= signatures[k].at + (uint64_t)signatures[k].size &&
            !memcmp(data + signatures[k].at, signatures[k].bytes, signatures[k].size))
            return signatures[k].what;
    }
    if (size >= 4 && !memcmp(data, "PK\3\4", 4))
        return sniff_zip(data, size);
    if (size >= 2 && data[0] == 0x80 && data[1] >= 2 && data[1] <= 5)
        return "this is a Python pickle (torch.save, scikit-learn, ...)" FROM_TORCH;
    if (size >= 10 && data[8] == '{' && !le(data + 4, 4) && (data[9] == '"' || data[9] == '}'))
        return "this is a safetensors file (weights without a graph)" WORKS;
    if (data[0] == '{' || data[0] == '[')
        return "this is JSON text" WORKS;
    return sniff_protobuf(data, size);
}
