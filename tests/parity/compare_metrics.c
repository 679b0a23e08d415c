/* Holds a run of `zinc train` to what PyTorch gave (tests/data/parity/NAME/expected.json, written by make_fixtures.py).
 *
 *   compare_metrics EXPECTED METRICS.jsonl [EVAL.json] prints the largest deviations; 0 within the bounds, 1 beyond
 *   compare_metrics --nearer EXPECTED METRICS.jsonl    0 if losses are clearly nearer the reference than "plain" ones
 *   compare_metrics --flags EXPECTED                   the flags of the run, one a line
 *   compare_metrics --variants EXPECTED                name and sed script of each feature config.json can turn off
 *
 * Exit code 2: files that cannot be read or are not of this shape, so that a run that broke is never taken for one
 * that deviates. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WITHIN = 0, BEYOND = 1, BROKEN = 2 };

#define LR_BOUND 1e-6
#define NEARER 0.8 /* of the distance of the plain losses: a run in plain fp32 is not nearer by chance */

/* The largest deviation of one quantity so far, relative, and as a fraction of its bound. */
struct worst {
    const char *name;
    double deviation, fraction;
    int step;
};

_Noreturn static void broken(const char *file, const char *what)
{
    fprintf(stderr, "compare_metrics: %s: %s\n", file, what);
    exit(BROKEN);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        broken(path, error.text);
    return root;
}

static double number(const json_t *object, const char *key, const char *file)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_number(value))
        broken(file, key);
    return json_number_value(value);
}

/* PyTorch's float64 is the truth and its fp32 a second witness; both must be met. Where its fp32 is itself further from
 * the truth than the bound, twice its distance is allowed. */
static void hold(struct worst *w, int step, double got, double f32, double f64, double bound)
{
    double scale = fabs(f64) > 0 ? fabs(f64) : 1;      /* a linear schedule ends at zero */
    double own = fabs(f32 - f64) / scale;
    double allowed = own > bound ? 2 * own : bound;
    double deviation = fmax(fabs(got - f64), fabs(got - f32)) / scale;
    double fraction = isfinite(deviation) ? deviation / allowed : INFINITY;
    if (fraction > w->fraction)
        *w = (struct worst){w->name, deviation, fraction, step};
}

static void hold_step(struct worst w[3], const json_t *row, const json_t *f32, const json_t *f64, const json_t *bounds,
                      const char *file, int step)
{
    static const char *const keys[] = {"loss", "grad_norm", "lr"};
    if ((int)number(row, "step", file) != step)
        broken(file, "steps are not 1, 2, 3, …");
    for (int i = 0; i < 3; i++) {
        double bound = i < 2 ? number(bounds, keys[i], "bounds") : LR_BOUND;
        hold(&w[i], step, number(row, keys[i], file), number(f32, keys[i], "reference"),
             number(f64, keys[i], "reference"), bound);
    }
}

/* The rows of the log, as many as the reference has. The caller frees. */
static json_t *load_metrics(const char *path, size_t n)
{
    FILE *f = fopen(path, "r");
    if (!f)
        broken(path, "cannot be opened");
    json_t *rows = json_array();
    json_error_t error;
    for (json_t *row; (row = json_loadf(f, JSON_DISABLE_EOF_CHECK, &error));)
        json_array_append_new(rows, row);
    if (!feof(f))
        broken(path, error.text);
    fclose(f);
    if (json_array_size(rows) != n)
        broken(path, json_array_size(rows) < n ? "fewer steps than asked for" : "more steps than asked for");
    return rows;
}

static void hold_metrics(struct worst w[3], const json_t *expected, const json_t *bounds, const char *path)
{
    const json_t *reference = json_object_get(expected, "reference");
    const json_t *f32 = json_object_get(reference, "float32"), *f64 = json_object_get(reference, "float64");
    size_t n = json_array_size(f64);
    if (!n || json_array_size(f32) != n)
        broken("expected.json", "no reference");
    json_t *rows = load_metrics(path, n);
    for (size_t i = 0; i < n; i++)
        hold_step(w, json_array_get(rows, i), json_array_get(f32, i), json_array_get(f64, i), bounds, path, (int)i + 1);
    json_decref(rows);
}

static void hold_eval(struct worst *w, const json_t *expected, const char *expected_path, const char *eval_path)
{
    json_t *eval = load(eval_path);
    const json_t *evals = json_object_get(expected, "eval");
    hold(w, 0, number(eval, "loss", eval_path), number(evals, "float32", expected_path),
         number(evals, "float64", expected_path), number(json_object_get(expected, "bounds"), "eval", expected_path));
    json_decref(eval);
}

static int compare(const char *expected_path, const char *metrics, const char *eval_path)
{
    json_t *expected = load(expected_path);
    struct worst w[] = {{"loss", 0, 0, 0}, {"grad_norm", 0, 0, 0}, {"lr", 0, 0, 0}, {"eval", 0, 0, 0}};
    hold_metrics(w, expected, json_object_get(expected, "bounds"), metrics);
    if (eval_path)
        hold_eval(&w[3], expected, expected_path, eval_path);
    json_decref(expected);

    int result = WITHIN;
    for (int i = 0; i < (eval_path ? 4 : 3); i++) {
        printf("%s%s %.1e (%.2g of its bound", i ? ", " : "", w[i].name, w[i].deviation, w[i].fraction);
        if (w[i].step)
            printf(", step %d", w[i].step);
        printf(")");
        if (!(w[i].fraction <= 1))
            result = BEYOND;
    }
    printf("\n");
    return result;
}

/* Mean distances of the losses from the reference's float64, relative: of the run, and of training in plain fp32. */
static int compare_plain(const char *expected_path, const char *metrics)
{
    json_t *expected = load(expected_path);
    const json_t *truth = json_object_get(json_object_get(expected, "reference"), "float64");
    const json_t *plain = json_object_get(expected, "plain");
    size_t n = json_array_size(truth);
    if (!n || json_array_size(plain) != n)
        broken(expected_path, "no plain losses");
    json_t *rows = load_metrics(metrics, n);
    double own = 0, others = 0;
    for (size_t i = 0; i < n; i++) {
        double want = number(json_array_get(truth, i), "loss", expected_path);
        own += fabs(number(json_array_get(rows, i), "loss", metrics) - want) / want / (double)n;
        others += fabs(json_number_value(json_array_get(plain, i)) - want) / want / (double)n;
    }
    json_decref(rows);
    json_decref(expected);
    printf("mean distance %.1e, plain fp32 %.1e\n", own, others);
    return own < NEARER * others ? WITHIN : BEYOND;
}

static int print_flags(const char *path)
{
    json_t *expected = load(path);
    const json_t *flags = json_object_get(expected, "train"), *flag;
    size_t i;
    if (!json_array_size(flags))
        broken(path, "no flags");
    json_array_foreach(flags, i, flag)
        printf("%s\n", json_string_value(flag));
    json_decref(expected);
    return 0;
}

static int print_variants(const char *path)
{
    json_t *expected = load(path), *feature;
    const char *name;
    json_object_foreach(json_object_get(expected, "sharpness"), name, feature) {
        const char *sed = json_string_value(json_object_get(feature, "sed"));
        if (sed)
            printf("%s\t%s\n", name, sed);
    }
    json_decref(expected);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--flags"))
        return print_flags(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "--variants"))
        return print_variants(argv[2]);
    if (argc == 4 && !strcmp(argv[1], "--nearer"))
        return compare_plain(argv[2], argv[3]);
    if (argc == 3 || argc == 4)
        return compare(argv[1], argv[2], argv[3]);
    fprintf(stderr, "usage: compare_metrics EXPECTED METRICS.jsonl [EVAL.json] | --nearer EXPECTED METRICS.jsonl | "
                    "--flags EXPECTED | --variants EXPECTED\n");
    return BROKEN;
}
