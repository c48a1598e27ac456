/* The groups of cases, and running each for each subject in a process of its own. Included by one test executable. */
#ifndef OCH_TESTS_OP_SUITE_H
#define OCH_TESTS_OP_SUITE_H

#include "conform/support/op_emulated.h"
#include "conform/support/ops_attention.h"
#include "conform/support/ops_basic.h"
#include "conform/support/ops_codes.h"
#include "conform/support/ops_device.h"
#include "conform/support/ops_fused.h"
#include "conform/support/ops_halves.h"
#include "conform/support/ops_linear.h"
#include "conform/support/ops_odd.h"
#include "conform/support/ops_one_row.h"
#include "conform/support/ops_sample.h"

#include <assert.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct group {
    const char *name;
    void (*run)(rig *r);                 /* with two threads */
    void (*run_threads)(rig *r, rig *m); /* with one thread, and with several; on a board, twice the same */
    enum { FOR_ALL, FOR_REFERENCE, FOR_BOARDS } whom;
} group;

static const group groups[] = {
    {"embed", embed_cases, NULL, FOR_ALL},
    {"rms_norm", rms_norm_cases, NULL, FOR_ALL},
    {"rope", rope_cases, NULL, FOR_ALL},
    {"glu", glu_cases, NULL, FOR_ALL},
    {"add", add_cases, NULL, FOR_ALL},
    {"gather", gather_cases, NULL, FOR_ALL},
    {"sample", sample_cases, NULL, FOR_ALL},
    {"sample alone", sample_alone, NULL, FOR_ALL},
    {"basic rows", NULL, basic_rows_alone, FOR_ALL},
    {"linear formats", linear_formats, NULL, FOR_ALL},
    {"linear large", linear_large, NULL, FOR_ALL},
    {"linear fused", linear_fused, NULL, FOR_ALL},
    {"linear rows", linear_rows, NULL, FOR_ALL},
    {"linear threads", NULL, linear_threads, FOR_ALL},
    {"kv_write", kv_write_cases, NULL, FOR_ALL},
    {"kv_write fp8", kv_write_fp8, NULL, FOR_ALL},
    {"qkv_post", qkv_post_cases, NULL, FOR_ALL},
    {"attention", attention_cases, NULL, FOR_ALL},
    {"attention fp8", attention_fp8, NULL, FOR_ALL},
    {"attention rows", attention_rows, NULL, FOR_ALL},
    {"attention threads", NULL, attention_threads, FOR_ALL},
    {"fused linear", fused_linear, NULL, FOR_REFERENCE},
    {"fused qkv_post", fused_qkv_post, NULL, FOR_REFERENCE},
    {"attention bad ids", attention_bad_ids, NULL, FOR_REFERENCE},
    {"device capabilities", device_capabilities, NULL, FOR_BOARDS},
    {"device reference", device_reference, NULL, FOR_BOARDS},
    {"device memory", device_memory, NULL, FOR_BOARDS},
    {"odd linear", odd_linear, NULL, FOR_ALL},
    {"odd glu", odd_glu, NULL, FOR_ALL},
    {"odd attention", odd_attention, NULL, FOR_ALL},
    {"attention ends", attention_ends, NULL, FOR_ALL},
    {"attention scratch", attention_scratch, NULL, FOR_BOARDS},
    {"linear codes", codes_linear, NULL, FOR_BOARDS},
    {"linear halves", halves_linear, NULL, FOR_BOARDS},
    {"linear codes unasked", codes_default, NULL, FOR_BOARDS},
    {"linear codes through a norm", codes_through_norms, NULL, FOR_BOARDS},
    {"linear codes through a norm, odd", codes_through_norms_odd, NULL, FOR_BOARDS},
    {"linear codes through a norm, no kernel", codes_through_norms_without, NULL, FOR_BOARDS},
    {"linear one row", one_row_linear, NULL, FOR_ALL},
    {"linear one row, codes", one_row_codes, NULL, FOR_BOARDS},
    {"linear one row, no kernel", one_row_without, NULL, FOR_BOARDS},
    {"attention codes", codes_attention, NULL, FOR_BOARDS},
    {"device far", device_far, NULL, FOR_BOARDS},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

/* Every op has a group that begins with its name. */
static inline void every_op_has_cases(void **state) {
    (void)state;
    for (int op = 0; op < OCH_OP_COUNT_; op++) {
        const char *name = och_op_name((och_op_id)op);
        bool found = false;
        for (int i = 0; i < N_GROUPS; i++) found |= strncmp(groups[i].name, name, strlen(name)) == 0;
        if (!found) fail_msg("op %s has no conformance cases", name);
    }
}

typedef struct job {
    const group *group;
    const subject *who;
} job;

static bool ran_to_its_end;

static void run_here(void **state) {
    const job *j = *state;
    /* Static: a skip leaves by longjmp. */
    static rig one, more;
    if (j->group->whom != FOR_BOARDS && !rig_provider_exists(j->who)) {
        rig_skips("no provider yet: none is called %s", j->who->provider);
        skip();
    }
    if (j->group->run) {
        rig_open(&one, j->who, 2);
        j->group->run(&one);
    } else if (!is_cpu(j->who)) {
        rig_open(&one, j->who, 2);
        j->group->run_threads(&one, &one);
    } else {
        for (int n = 2; n <= 3; n++) {
            rig_open(&one, j->who, 1);
            rig_open(&more, j->who, n);
            j->group->run_threads(&one, &more);
            if (n == 3) break;
            more.n_unsupported = one.n_unsupported = 0;
            rig_close(&more);
            rig_close(&one);
        }
        more.n_unsupported = 0;
        rig_close(&more);
    }
    rig_close(&one);
    ran_to_its_end = true;
}

enum { CHILD_SKIPPED = 77 };

/* In a process of its own, so that a crash (in a pool's thread too) is the failure of this test alone. What it writes to
 * stderr is shown when it fails. */
static inline void run_job(void **state) {
    FILE *log = tmpfile();
    assert_non_null(log);
    fflush(stdout);
    fflush(stderr);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rig_notes = fdopen(dup(STDOUT_FILENO), "w");
        if (!rig_notes || !freopen("/dev/null", "w", stdout) || dup2(fileno(log), STDERR_FILENO) < 0) _exit(1);
        job *j = *state;
        char name[96];
        snprintf(name, sizeof name, "%s:%s", j->group->name, j->who->label);
        const struct CMUnitTest test = {.name = name, .test_func = run_here, .initial_state = j};
        int failed = _cmocka_run_group_tests("one", &test, 1, NULL, NULL);
        exit(failed ? 1 : ran_to_its_end ? 0 : CHILD_SKIPPED);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    bool bad = WIFSIGNALED(status) || (WEXITSTATUS(status) && WEXITSTATUS(status) != CHILD_SKIPPED);
    rewind(log);
    for (int c; bad && (c = fgetc(log)) != EOF;) fputc(c, stderr);
    fclose(log);
    if (WIFSIGNALED(status)) fail_msg("crashed: %s", strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) == CHILD_SKIPPED) skip();
    if (WEXITSTATUS(status)) fail_msg("failed, as written above");
}

#define MAX_SUBJECTS 64

typedef struct suite {
    subject subjects[MAX_SUBJECTS];
    int n_subjects;
    job jobs[MAX_SUBJECTS * N_GROUPS];
    char names[MAX_SUBJECTS * N_GROUPS][128];
    struct CMUnitTest tests[MAX_SUBJECTS * N_GROUPS + 1];
} suite;

static inline subject *suite_subject(suite *u, const char *device, const char *provider, const char *isa) {
    assert(u->n_subjects < MAX_SUBJECTS);
    subject *s = &u->subjects[u->n_subjects++];
    *s = (subject){.device = device, .provider = provider, .isa = isa};
    return s;
}

static inline bool suite_takes(const group *g, const subject *who) {
    if (g->whom == FOR_REFERENCE) return is_reference(who);
    if (g->run == device_capabilities && strcmp(who->provider, "emulated") == 0) return false; /* no row of the table's */
    return g->whom == FOR_ALL || !is_cpu(who);
}

/* Whether a name is one that a list "rope,linear" asks for, each a part of it; "-threads" leaves those out that contain it. */
static inline bool suite_wants(const char *list, const char *name) {
    bool any = false, asked = false;
    for (const char *p = list; *p;) {
        char part[64];
        size_t n = strcspn(p, ",");
        bool out = *p == '-';
        snprintf(part, sizeof part, "%.*s", (int)n - out, p + out);
        if (n && out && strstr(name, part)) return false;
        if (n && !out) asked = true, any |= strstr(name, part) != NULL;
        p += n + (p[n] == ',');
    }
    return any || !asked;
}

/* Runs the tests that `only` asks for (NULL: all, and that every op has cases). */
static inline int suite_run(suite *u, const char *only) {
    int n = 0;
    for (int g = 0; g < N_GROUPS; g++)
        for (int s = 0; s < u->n_subjects; s++) {
            if (!suite_takes(&groups[g], &u->subjects[s])) continue;
            u->jobs[n] = (job){&groups[g], &u->subjects[s]};
            char name[sizeof u->names[0]]; /* names and labels lie in one object: they are not written from one another */
            snprintf(name, sizeof name, "%s:%s", groups[g].name, u->subjects[s].label);
            if (only && !suite_wants(only, name)) continue;
            memcpy(u->names[n], name, sizeof name);
            u->tests[n] = (struct CMUnitTest){.name = u->names[n], .test_func = run_job, .initial_state = &u->jobs[n]};
            n++;
        }
    if (!only) u->tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_op_has_cases);
    if (!n) {
        fprintf(stderr, "no test is called \"%s\"\n", only);
        return 1;
    }
    return _cmocka_run_group_tests("ops", u->tests, (size_t)n, NULL, NULL);
}

#endif
