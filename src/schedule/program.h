/* The program of a step: what is moved when, as a list of instructions for each point of the trace.
 *
 * A section is a pass of the tape (the first, a middle, the last micro-batch of a step, or the only one), the end of a step, an
 * evaluation, or the reference's forward. The executor runs along the tape: at a point it runs the instructions of that point and gives the tape the
 * address that the point is bound to. Instructions on queues beside the computing have an end that others wait for. */
#ifndef ZN_SCHEDULE_PROGRAM_H
#define ZN_SCHEDULE_PROGRAM_H

#include "schedule/buffer.h"
#include "schedule/trace.h"

typedef enum zn_op {
    /* On a queue beside the computing; each has an end. */
    ZN_OP_READ,     /* from the swap */
    ZN_OP_WRITE,    /* to the swap */
    ZN_OP_COPY_OUT, /* from a discrete device to the host */
    ZN_OP_COPY_IN,  /* and back */
    ZN_OP_GATHER,   /* every rank's piece `from` becomes the whole `to` */
    ZN_OP_GATHER_SUMS, /* the same of summed gradients */
    ZN_OP_REDUCE,   /* the sum over ranks of `from` becomes the own piece `to` */
    ZN_OP_SUM_SLICES,    /* the same of activations, over the ranks that hold slices of parameters */
    ZN_OP_GATHER_SLICES, /* … every one's piece `from` becomes the whole `to` */
    ZN_OP_GATHER_PIECES, /* … of an activation checkpoint */
    ZN_OP_OFFLOAD,  /* a summed gradient leaves a discrete device; the host adds it to what it has */
    ZN_OP_UPDATE,   /* the optimizer's update of a unit, chunk by chunk */
    ZN_N_ASYNC_OPS,
    /* In the order of the computing. */
    ZN_OP_WAIT = ZN_N_ASYNC_OPS, /* the device goes on after the end of `after` */
    ZN_OP_AWAIT,          /* the engine's thread does */
    ZN_OP_AWAIT_OFFLOAD,  /* … after the host has stored the unit's gradient */
    ZN_OP_ZERO,
    ZN_OP_ADD,            /* to += from */
    ZN_OP_SQUARES,        /* sums of squares of a unit's own partition `from`, by part */
    ZN_OP_PACK,           /* an activation checkpoint into `to`, in the working precision */
    ZN_OP_UNPACK,         /* and back */
    ZN_OP_GIVE,           /* what is exchanged into `to`, in fp32 */
    ZN_OP_TAKE,           /* and what came of it back */
    /* Of the updates of the step before, where they run beside this one. */
    ZN_OP_ISSUE_UPDATES,  /* of the first `unit` units */
    ZN_OP_ADVANCE_UPDATE, /* the delayed one: the device comes to `unit` */
    ZN_OP_RETURN_UPDATED, /* … nothing of the step reads the unit's parameters any more: its new ones take their place */
    ZN_OP_WAIT_UPDATED,   /* the device goes on after the unit's update */
    ZN_OP_WAIT_UPDATES,   /* … after those of all units */
    ZN_OP_END_UPDATES,    /* of this step: all are issued */
    ZN_OP_PUBLISH,        /* ranks that keep whole units send each other their parts of this one */
    ZN_OP_PUBLISH_TO,     /* … of units up to this one, once */
    ZN_OP_AWAIT_PUBLISHED, /* they have come */
    ZN_N_OPS
} zn_op;

enum {
    ZN_AFTER_COMPUTE = 1, /* not before what the device was given so far is done */
    ZN_AFTER_UPDATED = 2, /* … the unit is updated */
    ZN_ADDS = 4,          /* to what is there of this step */
    ZN_FINAL = 8,         /* the gradient is complete with it */
    ZN_ON_HOST = 16,      /* the host's device computes it */
    ZN_OWN_PIECE = 32     /* of the activation checkpoint only the part that this rank keeps */
};

struct zn_instr {
    uint8_t op;    /* zn_op */
    uint8_t flags;
    int32_t unit;  /* or -1 */
    int32_t after; /* the instruction of the section whose end it waits for, or -1 */
    int32_t event; /* of its end, numbered through the program; -1: it has none */
    struct zn_span from, to;
};

typedef enum zn_section_id {
    ZN_SECTION_ONLY, /* the one pass of a step */
    ZN_SECTION_FIRST, /* of several micro-batches */
    ZN_SECTION_MIDDLE,
    ZN_SECTION_LAST,
    ZN_SECTION_FINISH, /* after the last pass: what is left to be summed */
    ZN_SECTION_EVALUATE,
    ZN_SECTION_REFERENCE, /* before the micro-batches of a step, or an evaluation: forward without adapters */
    ZN_N_SECTIONS
} zn_section_id;

const char *zn_section_name(zn_section_id id);
const char *zn_op_name(zn_op op);

struct zn_section {
    struct zn_instr *instrs;
    int n_instrs, capacity;
    int *first;              /* by point, and one for the end of the pass: its first instruction */
    struct zn_span *address; /* by point: where the tape reads or writes; no span: nothing is wanted */
    int n_points;            /* 0 in the finish */
};

typedef struct zn_program {
    struct zn_section sections[ZN_N_SECTIONS];
    int n_events;
} zn_program;

void zn_program_fini(zn_program *program);

/* The pass that a section goes along. */
const struct zn_pass_trace *zn_section_trace(const zn_trace *trace, zn_section_id id);

/* ---- Writing ---- */

/* A section that is being written. A failure sticks: what is emitted after it is dropped. */
struct zn_writer {
    zn_program *program;
    struct zn_section *section;
    int point;
    zn_status status;
};

/* Begins a section of so many points. */
zn_status zn_writer_start(struct zn_writer *writer, zn_program *program, zn_section_id id, int n_points);

/* The instructions that follow are those of the next point. */
void zn_writer_next_point(struct zn_writer *writer);

/* Binds the present point to an address. */
void zn_writer_bind(struct zn_writer *writer, struct zn_span span);

/* Appends an instruction; its index in the section, or -1 after a failure. */
int zn_emit(struct zn_writer *writer, struct zn_instr instr);

/* The frequent ones. A wait for -1 is none. */
void zn_emit_wait(struct zn_writer *writer, int after);
void zn_emit_unit(struct zn_writer *writer, zn_op op, int unit);

#endif
