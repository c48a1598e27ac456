/* Ops against the contract of op.h: each provider that is registered, the reference first, on the CPU at each
 * instruction set that the machine reaches. An argument keeps the tests whose name contains it:
 * conform_test_ops linear, conform_test_ops cpu/avx2, conform_test_ops attention:cpu/avx512. */
#include "conform/support/op_rig.h"
#include "conform/support/ops_attention.h"
#include "conform/support/ops_basic.h"
#include "conform/support/ops_fused.h"
#include "conform/support/ops_linear.h"

#include <sys/wait.h>
#include <unistd.h>

typedef struct group {
    const char *name;
    void (*run)(rig *r);                 /* with two threads */
    void (*run_threads)(rig *r, rig *m); /* with one thread, and with several */
    bool reference_only;
} group;

static const group groups[] = {
    {"embed", embed_cases, NULL, false},
    {"rms_norm", rms_norm_cases, NULL, false},
    {"rope", rope_cases, NULL, false},
    {"glu", glu_cases, NULL, false},
    {"add", add_cases, NULL, false},
    {"gather", gather_cases, NULL, false},
    {"basic rows", NULL, basic_rows_alone, false},
    {"linear formats", linear_formats, NULL, false},
    {"linear fused", linear_fused, NULL, false},
    {"linear rows", linear_rows, NULL, false},
    {"linear threads", NULL, linear_threads, false},
    {"kv_write", kv_write_cases, NULL, false},
    {"qkv_post", qkv_post_cases, NULL, false},
    {"attention", attention_cases, NULL, false},
    {"attention rows", attention_rows, NULL, false},
    {"attention threads", NULL, attention_threads, false},
    {"fused linear", fused_linear, NULL, true},
    {"fused qkv_post", fused_qkv_post, NULL, true},
    {"attention bad ids", attention_bad_ids, NULL, true},
};
enum { N_GROUPS = sizeof groups / sizeof groups[0] };

/* Every op has a group that begins with its name. */
static void every_op_has_cases(void **state) {
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
    if (j->group->run) {
        rig_open(&one, j->who, 2);
        j->group->run(&one);
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
static void run_job(void **state) {
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

#define MAX_SUBJECTS 24

int main(int argc, char **argv) {
    static subject subjects[MAX_SUBJECTS];
    static job jobs[MAX_SUBJECTS * N_GROUPS];
    static char names[MAX_SUBJECTS * N_GROUPS][96];
    static struct CMUnitTest tests[MAX_SUBJECTS * N_GROUPS + 1];
    int n_subjects = 0, n = 0;
    snprintf(subjects[0].label, sizeof subjects[0].label, "reference");
    subjects[n_subjects++].provider = "reference";
    static const och_cpu_isa levels[] = {OCH_CPU_GENERIC, OCH_CPU_AVX2, OCH_CPU_AVX512, OCH_CPU_AMX, OCH_CPU_NEON};
    for (int i = 0; i < och_op_provider_count(); i++) {
        const char *name = och_op_provider_at(i)->name;
        bool known = false;
        for (int s = 0; s < n_subjects; s++) known |= strcmp(subjects[s].provider, name) == 0;
        for (int l = 0; l < 5 && !known && n_subjects < MAX_SUBJECTS; l++) {
            subject *s = &subjects[n_subjects];
#if defined(__aarch64__)
            if (levels[l] != OCH_CPU_GENERIC && levels[l] != OCH_CPU_NEON) continue;
#else
            if (levels[l] == OCH_CPU_NEON) continue;
#endif
            s->provider = name;
            s->isa = och_cpu_isa_name(levels[l]);
            snprintf(s->label, sizeof s->label, "%s/%s", name, s->isa);
            n_subjects++;
        }
    }
    for (int g = 0; g < N_GROUPS; g++)
        for (int s = 0; s < n_subjects; s++) {
            if (groups[g].reference_only && !is_reference(&subjects[s])) continue;
            jobs[n] = (job){&groups[g], &subjects[s]};
            snprintf(names[n], sizeof names[n], "%s:%s", groups[g].name, subjects[s].label);
            if (argc > 1 && !strstr(names[n], argv[1])) continue;
            tests[n] = (struct CMUnitTest){.name = names[n], .test_func = run_job, .initial_state = &jobs[n]};
            n++;
        }
    if (argc <= 1) tests[n++] = (struct CMUnitTest)cmocka_unit_test(every_op_has_cases);
    if (!n) {
        fprintf(stderr, "no test's name contains \"%s\"\n", argv[1]);
        return 1;
    }
    return _cmocka_run_group_tests("ops", tests, (size_t)n, NULL, NULL);
}
