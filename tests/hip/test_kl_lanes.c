/* Reductions, shuffles, votes, clusters and atomics of the kernel language on simulated boards. */
#include "kl_run.h"

#define T 512
static float x[T];
static int32_t k[T];

static void fill(void) {
    for (uint32_t i = 0; i < T; i++) x[i] = (float)(int32_t)(noise(i) & 0xfff) / 16 - 100, k[i] = (int32_t)(noise(i + 7) % 2000) - 900;
    k[70] = 77;
}

static void groups_of(int waves) {
    int t = waves * on->wave;
    char b[32];
    snprintf(b, sizeof b, "WAVES=%d", waves);
    fill();
    static float od[12 * T];
    static int32_t pd[12 * T];
    run("lanes.ok", "groups", b, (actual[]){{.name = "x", .host = x, .dims = {t}}, {.name = "k", .host = k, .dims = {t}}, {.name = "o", .host = od, .dims = {12, t}}, {.name = "p", .host = pd, .dims = {12, t}}, {0}});
    double sum = 0, mx = -1e9, mn = 1e9;
    int isum = 0, imx = -99999, imn = 99999;
    bool any77 = false;
    for (int i = 0; i < t; i++) {
        sum += x[i], mx = fmax(mx, x[i]), mn = fmin(mn, x[i]);
        isum += k[i], imx = k[i] > imx ? k[i] : imx, imn = k[i] < imn ? k[i] : imn;
        any77 |= k[i] == 77;
    }
    for (int i = 0; i < t; i++) {
        double wo[11] = {sum, mx, mn, x[0] + 0.25, 3 * sum, och_f16_to_f32(och_f32_to_f16((float)mx)), 10 * sum, t - 1 + t, t, 0, imx};
        for (int r = 0; r < 11; r++) CLOSE(b, r * 1000 + i, od[r * t + i], wo[r], 2e-6);
        int wn = 0;
        for (int r = i / on->wave; r < 23; r += waves) wn += r * on->wave;
        int wp[12] = {isum, imx, imn, k[0], any77, 1, 0, !any77, wn, t + waves * 1000, 499500, 3};
        for (int r = 0; r < 12; r++) SAME(b, r * 1000 + i, pd[r * t + i], wp[r]);
    }
}

ON_ALL(groups) {
    groups_of(1);
    groups_of(3);
    groups_of(4);
}

static uint16_t h16(float v) { return och_f32_to_f16(v); }

ON_ALL(waves) {
    int w = on->wave, t = 2 * w;
    static float od[8 * T];
    static int32_t pd[20 * T];
    fill();
    run("lanes.ok", "waves", "WAVES=2", (actual[]){{.name = "x", .host = x, .dims = {t}}, {.name = "k", .host = k, .dims = {t}}, {.name = "o", .host = od, .dims = {8, t}}, {.name = "p", .host = pd, .dims = {20, t}}, {0}});
    for (int i = 0; i < t; i++) {
        int at = i / w * w, l = i % w, odd = 0, isum = 0, imx = -99999, imn = 99999, iscan = 0, any77 = 0, first_max = 0;
        double sum = 0, mx = -1e9, mn = 1e9, scan = 0;
        for (int j = 0; j < w; j++) {
            int n = k[at + j];
            sum += x[at + j], mx = fmax(mx, x[at + j]), mn = fmin(mn, x[at + j]);
            if (n > imx) first_max = j;
            isum += n, imx = n > imx ? n : imx, imn = n < imn ? n : imn, odd += n & 1, any77 |= n == 77;
            if (j <= l) scan += x[at + j], iscan += n;
        }
        double wo[8] = {sum, mx, mn, scan, x[at + (l + 3) % w], x[at + (l ^ 5)], x[at + 9], 2 * x[at + (l ^ 1)]};
        for (int r = 0; r < 8; r++)
            if (!(fabs(od[r * t + i] - wo[r]) <= 1e-4 * (1 + fabs(wo[r])))) CLOSE("o", r * 1000 + i, od[r * t + i], wo[r], 1e-6);
        int wp[20] = {isum, imx, imn, iscan, odd, k[i] & 1, any77, !any77, k[at], i / w * 1000 + l, l == 0, k[at + 7] > 0, 19900, 0, h16((float)w), first_max, w == 32 ? 32 : 0, w, 10, 15 * w};
        int c = 0;
        for (int j = l; j < 200; j += w) c += j;
        wp[13] = at ? w : c;
        for (int r = 0; r < 20; r++) SAME("p", r * 1000 + i, pd[r * t + i], wp[r]);
    }
}

/* Products of bytes by every 32 lanes for themselves, whose elements lanes have as the PTX manual's figures for mma.m16n8k32 say. */
ON_ALL(matrices) {
    int t = 2 * on->wave;
    static uint32_t a[4 * T], b[2 * T];
    static int32_t c[4 * T], o[2 * 4 * T];
    for (int i = 0; i < 4 * t; i++) a[i] = noise((uint32_t)i), c[i] = (int32_t)noise((uint32_t)i + 5000) >> 4;
    for (int i = 0; i < 2 * t; i++) b[i] = noise((uint32_t)i + 9000);
    run("lanes.ok", "matrices", "", (actual[]){{.name = "a", .host = a, .dims = {t, 4}}, {.name = "b", .host = b, .dims = {t, 2}}, {.name = "c", .host = c, .dims = {t, 4}}, {.name = "o", .host = o, .dims = {2, 4 * t}}, {0}});
    for (int first = 0; first < t; first += 32) {
        uint8_t m[16][32], n[32][8];
        for (int l = 0; l < 32; l++)
            for (int byte = 0; byte < 4; byte++) {
                int at = l % 4 * 4 + byte;
                for (int w = 0; w < 4; w++) m[l / 4 + w % 2 * 8][at + w / 2 * 16] = (uint8_t)(a[4 * (first + l) + w] >> 8 * byte);
                for (int w = 0; w < 2; w++) n[at + 16 * w][l / 4] = (uint8_t)(b[2 * (first + l) + w] >> 8 * byte);
            }
        for (int l = 0; l < 32; l++)
            for (int j = 0; j < 4; j++) {
                int row = l / 4 + j / 2 * 8, column = l % 4 * 2 + j % 2, s = 0, u = 0;
                for (int e = 0; e < 32; e++) s += (int8_t)m[row][e] * (int8_t)n[e][column], u += m[row][e] * (int8_t)n[e][column];
                SAME("mma_ss", first + l, o[4 * (first + l) + j], s + c[4 * (first + l) + j]);
                SAME("mma_us", first + l, o[4 * t + 4 * (first + l) + j], u);
            }
    }
}

static void clusters_of(int c) {
    int w = on->wave, t = 2 * w;
    static float od[6 * T];
    static int32_t pd[8 * T];
    char b[32];
    snprintf(b, sizeof b, "C=%d", c);
    fill();
    run("lanes.ok", "clusters", b, (actual[]){{.name = "x", .host = x, .dims = {t}}, {.name = "k", .host = k, .dims = {t}}, {.name = "o", .host = od, .dims = {6, t}}, {.name = "p", .host = pd, .dims = {8, t}}, {0}});
    for (int i = 0; i < t; i++) {
        int at = i / c * c, l = i % c, isum = 0, any77 = 0, s = 0;
        double sum = 0, mx = -1e9, mn = 1e9, scan = 0;
        for (int j = 0; j < c; j++) {
            sum += x[at + j], mx = fmax(mx, x[at + j]), mn = fmin(mn, x[at + j]), isum += k[at + j], any77 |= k[at + j] == 77;
            if (j <= l) scan += x[at + j];
        }
        for (int r = i / c; r < 20; r += 3) s += c * r + c * (c - 1) / 2;
        double wo[6] = {sum, mx, mn, x[at + (l ^ 3)], x[at + 5], scan};
        for (int r = 0; r < 6; r++)
            if (!(fabs(od[r * t + i] - wo[r]) <= 1e-4 * (1 + fabs(wo[r])))) CLOSE(b, r * 1000 + i, od[r * t + i], wo[r], 1e-6);
        int wp[8] = {isum, any77, !any77, 4950, i / c, l, s, at + c - 1};
        for (int r = 0; r < 8; r++) SAME(b, r * 1000 + i, pd[r * t + i], wp[r]);
    }
}

ON_ALL(clusters) {
    clusters_of(8);
    clusters_of(16);
    clusters_of(32);
}

/* Without the check for races: where a target has no addition of floats, the compiler's loop begins with a plain load. */
ON_ALL_CHECKED(atomics, "uninit,barrier") {
    enum { N = 600 };
    static int32_t v[N], old[N], a[16], seen[N];
    static uint32_t b[8];
    static float f[4];
    static uint64_t w[4];
    memset(a, 0, sizeof a), memset(b, 0, sizeof b), memset(f, 0, sizeof f), memset(w, 0, sizeof w), memset(seen, 0, sizeof seen);
    a[1] = INT32_MIN, a[2] = INT32_MAX, a[4] = -1, a[7] = INT32_MIN, b[2] = UINT32_MAX;
    for (uint32_t i = 0; i < N; i++) v[i] = (int32_t)(noise(i) % 5000) + 1;
    run("lanes.ok", "atomics", "", (actual[]){{.name = "x", .host = v, .dims = {N}}, {.name = "a", .host = a, .dims = {16}}, {.name = "b", .host = b, .dims = {8}}, {.name = "f", .host = f, .dims = {4}}, {.name = "w", .host = w, .dims = {4}}, {.name = "o", .host = old, .dims = {N}}, {0}});
    int mx = INT32_MIN, mn = INT32_MAX, bits = 0, keep = -1, sum = 0;
    for (int i = 0; i < N; i++) {
        mx = v[i] > mx ? v[i] : mx, mn = v[i] < mn ? v[i] : mn, bits |= (int)(1u << (v[i] & 31)), keep &= ~(1 << (v[i] & 7)), sum += v[i];
        CHECK(old[i] >= 0 && old[i] < N);
        seen[old[i]]++;
    }
    for (int i = 0; i < N; i++) SAME("the old value", i, seen[i], 1);
    int wa[9] = {N, mx, mn, bits, keep, 3 * N, sum, mx, 41};
    for (int i = 0; i < 9; i++) SAME("a", i, a[i], wa[i]);
    SAME("b", 0, b[0], (uint32_t)sum);
    SAME("b", 1, b[1], (uint32_t)mx);
    SAME("b", 2, b[2], (uint32_t)mn);
    SAME("b", 3, b[3], 9);
    CLOSE("f", 0, f[0], N / 2, 0);
    CLOSE("f", 1, f[1], N, 0);
    SAME("w", 0, w[0], (uint64_t)sum);
    SAME("w", 1, w[1], (uint64_t)mx << 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(groups), cmocka_unit_test(waves), cmocka_unit_test(matrices), cmocka_unit_test(clusters), cmocka_unit_test(atomics)};
    const char *filter = getenv("KL_TEST");
    if (filter) cmocka_set_test_filter(filter);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
