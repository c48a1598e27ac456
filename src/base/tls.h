/* A thread's own variable in a library that may be opened while the program runs.
 *
 * Such a library's thread-local memory is otherwise allocated at a thread's first touch of it; LeakSanitizer (gcc 12) takes some
 * of those blocks for an older C library's, reads a length where there is none, and falls over at exit. These are at a fixed
 * place in every thread instead, which is faster and needs no allocation. The room for them is small (about 1 KiB for all
 * libraries that a process opens): a word or two each. */
#ifndef OCH_BASE_TLS_H
#define OCH_BASE_TLS_H

#define OCH_THREAD_LOCAL _Thread_local __attribute__((tls_model("initial-exec")))

#endif
