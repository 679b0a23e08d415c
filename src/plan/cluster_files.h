/* The files of data/clusters/, compiled in so that the program finds them wherever it stands. The table
 * is made by the build. */
#ifndef ZN_PLAN_CLUSTER_FILES_H
#define ZN_PLAN_CLUSTER_FILES_H

struct zn_cluster_file {
    const char *name, *text;
};

extern const struct zn_cluster_file zn_cluster_files[]; /* ends with a NULL name */

#endif
