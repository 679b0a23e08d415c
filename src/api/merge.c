/* Merging for programs. */
#include "zinc/merge.h"

#include "checkpoint/merge.h"

static void tell_nobody(void *self, const char *text)
{
    (void)self;
    (void)text;
}

zn_status zn_merge(const char *model, const char *adapter, const char *output, const char *type, void (*note)(void *self, const char *text),
                   void *self)
{
    return zn_merge_folders(&(struct zn_merge_options){
        .model = model, .adapter = adapter, .output = output, .dtype = type, .note = note ? note : tell_nobody, .self = self});
}
