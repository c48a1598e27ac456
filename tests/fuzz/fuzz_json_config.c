/* A model's config.json from any bytes: the JSON helpers, and what every architecture reads through them. */
#include "base/alloc.h"
#include "file/json.h"
#include "model/config.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok) {
    if (!ok) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const paths[] = {"model_type", "hidden_size", "rope_scaling.factor", "text_config.rope_theta",
                                        "architectures.0", "eos_token_id.1", "", ".", "a..b"};
    static const char *const prefixes[] = {"", "text_config."};
    och_err err = {0};
    och_json doc;
    int64_t live = och_alloc_live();
    och_status st = och_json_load_memory("config.json", data, size, &doc, &err);
    check(st == err.status && (st == OCH_OK) == (doc.root != NULL));
    if (st == OCH_OK) {
        for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
            uint64_t u;
            int64_t n;
            double d;
            bool b;
            const char *str = "";
            json_t *v;
            (void)och_json_find(&doc, paths[i]);
            (void)!och_json_get_u64(&doc, paths[i], true, &u, NULL);
            (void)!och_json_get_i64(&doc, paths[i], false, &n, NULL);
            (void)!och_json_get_f64(&doc, paths[i], true, &d, NULL);
            (void)!och_json_get_bool(&doc, paths[i], false, &b, NULL);
            if (och_json_get_str(&doc, paths[i], true, &str, NULL) == OCH_OK) check(strlen(str) <= size);
            (void)!och_json_get_object(&doc, paths[i], true, &v, NULL);
            (void)!och_json_get_array(&doc, paths[i], false, &v, NULL);
        }
        for (int i = 0; i < 2; i++) {
            static och_config c; /* large */
            och_err_clear(&err);
            st = och_config_read_hf(&doc, prefixes[i], &c, &err);
            check(st == err.status);
            if (st == OCH_OK) (void)!och_config_check(&c, "config.json", NULL);
        }
    } else {
        check(strstr(err.message, "config.json: ") == err.message);
    }
    och_json_deinit(&doc);
    check(och_alloc_live() == live);
    return 0;
}
