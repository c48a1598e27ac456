/* Boards that model tests run on: OCHRE_TEST_DEVICES, separated by commas, else simulated ones of both wave sizes. */
#ifndef OCH_TESTS_MODEL_BOARDS_H
#define OCH_TESTS_MODEL_BOARDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/env.h"
#include "base/size.h"
#include "engine/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *boards[8] = {"sim:gfx1151", "sim:gfx942"};
static size_t n_boards = 2;

static och_err err;
static inline void ok(och_status st) {
    if (st != OCH_OK) fail_msg("%s: %s", och_status_name(st), err.message);
}

static inline och_device *open_board(const char *name) {
    och_device *d;
    och_err_clear(&err);
    ok(och_device_open(name, NULL, &d, &err));
    return d;
}

/* The folder of golden/: OCHRE_TEST_DATA, else this one. */
static inline const char *test_data(void) {
    const char *folder = och_env_get(OCH_ENV_OCHRE_TEST_DATA);
    return folder ? folder : OCHRE_TEST_DIR;
}

static inline och_status try_model(const char *name, och_device *d, och_model **out_m) {
    char path[512];
    snprintf(path, sizeof path, "%s/golden/%s", test_data(), name);
    return och_model_open(path, d, NULL, out_m, &err);
}
static inline och_model *open_model(const char *name, och_device *d) {
    och_model *m;
    ok(try_model(name, d, &m));
    return m;
}

/* Which boards. False: there are no kernels, for want of a compiler, and that was said. */
static inline bool find_boards(void) {
    static char names[256];
    const char *list = och_env_get(OCH_ENV_OCHRE_TEST_DEVICES);
    snprintf(names, sizeof names, "%s", list ? list : "");
    if (list) n_boards = 0;
    for (char *rest = names, *name; n_boards < OCH_COUNT(boards) && (name = strtok_r(rest, ",", &rest));) boards[n_boards++] = name;
    if (!n_boards) return true;
    och_device *d = open_board(boards[0]);
    och_model *m = NULL;
    och_session *s = NULL;
    och_status st = try_model("tiny-llama", d, &m);
    if (st == OCH_OK) st = och_session_create(m, &(och_session_options){.max_context = 64}, &s, &err);
    och_session_destroy(s);
    och_model_close(m);
    och_device_release(d);
    if (st == OCH_UNAVAILABLE) print_message("skip (unavailable): %s\n", err.message);
    och_err_clear(&err);
    return st != OCH_UNAVAILABLE;
}

#endif
