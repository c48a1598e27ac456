// The same from C++, with handles that release themselves. usage: cpp_generate MODEL PROMPT
#include <iostream>
#include <memory>
#include <ochre/ochre.h>
#include <string>

struct Close {
    void operator()(ochre_model *m) const { ochre_model_close(m); }
    void operator()(ochre_session *s) const { ochre_session_destroy(s); }
};

static bool collect(void *user, int32_t, const char *text, size_t n) {
    static_cast<std::string *>(user)->append(text, n);
    return true;
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const std::string prompt = argv[2];
    std::string text;
    ochre_error e{};
    ochre_model *m = nullptr;
    ochre_session *s = nullptr;
    ochre_session_options options = OCHRE_SESSION_OPTIONS_INIT;
    options.max_context = 128;
    int32_t sequence = 0, n = 0;
    bool ok = ochre_model_open(argv[1], nullptr, &m, &e) == OCHRE_OK;
    std::unique_ptr<ochre_model, Close> model(m);
    ok = ok && ochre_session_create(m, &options, &s, &e) == OCHRE_OK;
    std::unique_ptr<ochre_session, Close> session(s);
    ok = ok && ochre_sequence_create(s, &sequence, &e) == OCHRE_OK &&
         ochre_generate(s, sequence, prompt.data(), prompt.size(), OCHRE_ADD_SPECIAL, 16, nullptr, collect, &text, nullptr,
                        &n, &e) == OCHRE_OK;
    if (!ok) std::cerr << ochre_status_name(e.status) << ": " << e.message << "\n";
    else std::cout << text << "\n[" << n << " tokens]\n";
    return !ok;
}
