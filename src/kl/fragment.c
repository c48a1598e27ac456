#include "kl/fragment.h"

#include <string.h>

bool och_kl_fragment_parse(const char *text, och_kl_fragment *out_f) {
    memset(out_f, 0, sizeof *out_f);
    bool elem = false;
    for (const char *p = text; *p;) {
        if (*p == ' ') {
            p++;
        } else if (*p == '|') {
            if (elem) return false;
            elem = true;
            p++;
        } else {
            och_kl_fragment_bit b = {0};
            if (*p == '-') {
                b.axis = '-';
                p++;
                if (elem) return false;
            } else if ((*p == 'r' || *p == 'c' || *p == 'k') && p[1] >= '0' && p[1] <= '7') {
                b.axis = *p == 'r' ? 'r' : 'c';
                b.bit = (uint8_t)(p[1] - '0');
                p += 2;
            } else return false;
            int *n = elem ? &out_f->n_elem_bits : &out_f->n_lane_bits;
            if (*n == OCH_KL_FRAGMENT_BITS) return false;
            (elem ? out_f->elem : out_f->lane)[(*n)++] = b;
        }
    }
    return elem;
}

static void place(const och_kl_fragment_bit *bits, int n, unsigned value, uint32_t *row, uint32_t *col) {
    for (int i = 0; i < n; i++)
        if (value >> i & 1) {
            if (bits[i].axis == 'r') *row |= 1u << bits[i].bit;
            else if (bits[i].axis == 'c') *col |= 1u << bits[i].bit;
        }
}

void och_kl_fragment_at(const och_kl_fragment *f, unsigned lane, unsigned elem, uint32_t *out_row, uint32_t *out_col) {
    *out_row = *out_col = 0;
    place(f->lane, f->n_lane_bits, lane, out_row, out_col);
    place(f->elem, f->n_elem_bits, elem, out_row, out_col);
}

unsigned och_kl_fragment_copies(const och_kl_fragment *f, uint32_t rows, uint32_t cols) {
    enum { MAX = 64 * 64 };

    unsigned char count[MAX];
    if (rows * cols > MAX) return 0;
    memset(count, 0, sizeof count);
    for (unsigned lane = 0; lane < 1u << f->n_lane_bits; lane++)
        for (unsigned elem = 0; elem < 1u << f->n_elem_bits; elem++) {
            uint32_t r, c;
            och_kl_fragment_at(f, lane, elem, &r, &c);
            if (r >= rows || c >= cols) return 0;
            count[r * cols + c]++;
        }
    for (uint32_t i = 1; i < rows * cols; i++)
        if (count[i] != count[0]) return 0;
    return count[0];
}

bool och_kl_fragment_pack_k(och_kl_fragment *a, och_kl_fragment *b) {
    uint8_t to[OCH_KL_FRAGMENT_BITS] = {0};
    bool seen[OCH_KL_FRAGMENT_BITS] = {false};
    uint8_t next = 0;
    for (int pass = 0; pass < 2; pass++) {
        const och_kl_fragment_bit *bits = pass ? a->lane : a->elem;
        for (int i = 0; i < (pass ? a->n_lane_bits : a->n_elem_bits); i++)
            if (bits[i].axis == 'c') {
                if (seen[bits[i].bit]) return false;
                seen[bits[i].bit] = true;
                to[bits[i].bit] = next++;
            }
    }
    och_kl_fragment *both[2] = {a, b};
    for (int f = 0; f < 2; f++) {
        for (int i = 0; i < both[f]->n_elem_bits; i++)
            if (both[f]->elem[i].axis == 'c') both[f]->elem[i].bit = to[both[f]->elem[i].bit];
        for (int i = 0; i < both[f]->n_lane_bits; i++)
            if (both[f]->lane[i].axis == 'c') both[f]->lane[i].bit = to[both[f]->lane[i].bit];
    }
    return true;
}

static void turn(och_kl_fragment_bit *bits, int n) {
    for (int i = 0; i < n; i++)
        if (bits[i].axis != '-') bits[i].axis = bits[i].axis == 'r' ? 'c' : 'r';
}

void och_kl_fragment_turn(och_kl_fragment *f) {
    turn(f->lane, f->n_lane_bits);
    turn(f->elem, f->n_elem_bits);
}
