/* A safetensors file of any bytes: it is refused, or every byte of every tensor can be read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What the header check has promised must hold: reads inside a tensor succeed. */
static void read_tensor(const zn_st_file *file, const struct zn_st_tensor *t)
{
    enum { N = 64 };
    float values[N];
    unsigned char bytes[N];
    zn_dtype type;
    int64_t n = t->n_elements < N ? t->n_elements : N;
    size_t n_bytes = t->n_bytes < N ? (size_t)t->n_bytes : N;
    if (zn_st_find(file, t->name) != t)
        abort();
    if (zn_st_read_raw(file, t, t->n_bytes - n_bytes, n_bytes, bytes) != ZN_OK)
        abort();
    zn_status status = zn_st_read_f32(file, t, t->n_elements - n, n, values);
    if ((status == ZN_OK) != zn_st_dtype_is_float(t->dtype, &type))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fuzz", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    zn_st_file *file;
    if (zn_st_open(path, &file) == ZN_OK) {
        for (size_t i = 0; i < zn_st_n_tensors(file); i++)
            read_tensor(file, zn_st_tensor_at(file, i));
        zn_st_close(file);
    }
    close(fd);
    return 0;
}
