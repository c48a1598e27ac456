#!/usr/bin/env python3
"""ochre pull against a loopback server that cuts connections, lies and changes its mind.

usage: test_pull.py OCHRE [NAME...]

Whatever happens, the final name holds nothing or the whole right file.
"""

import hashlib
import http.server
import os
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

OCHRE = os.path.abspath(sys.argv[1])
BODY = bytes((i * 131 + (i >> 8) * 7 + (i >> 16)) & 0xFF for i in range(300000))
OTHER = bytes(255 - b for b in BODY)
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    log = []      # (path, Range, If-Range)
    counts = {}   # requests by path

    def log_message(self, *args):
        pass

    def do_GET(self):
        path = self.path.split("?")[0]
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        Handler.log.append((path, self.headers.get("Range"), self.headers.get("If-Range")))
        n = Handler.counts[self.path] = Handler.counts.get(self.path, 0) + 1
        getattr(self, "on_" + path.strip("/").split("/")[0].replace("-", "_"))(query, n)

    def send(self, body, status=200, headers=(), length=None, cut=None):
        """body: what is sent; length: what is announced; cut: bytes after which the connection is reset."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for k, v in headers:
            self.send_header(k, v)
        self.end_headers()
        self.wfile.write(body if cut is None else body[:cut])
        if cut is not None or length not in (None, len(body)):
            self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

    def ranged(self, body, etag, cut=None, headers=()):
        """A right answer to Range and If-Range."""
        headers = list(headers)
        if etag:
            headers.append(("ETag", etag))
        r, condition = self.headers.get("Range"), self.headers.get("If-Range")
        if r and (condition is None or condition == etag):
            start = int(r[len("bytes="):].rstrip("-"))
            if start >= len(body):
                return self.send(b"", 416, headers + [("Content-Range", "bytes */%d" % len(body))])
            headers.append(("Content-Range", "bytes %d-%d/%d" % (start, len(body) - 1, len(body))))
            return self.send(body[start:], 206, headers, cut=cut)
        return self.send(body, 200, headers, cut=cut)

    def on_ok(self, q, n):
        self.ranged(BODY, '"v1"')

    def on_cut(self, q, n):
        self.ranged(BODY, '"v1"', cut=70000)

    def on_cut_no_etag(self, q, n):
        self.ranged(BODY, None, cut=None if n > 2 else 70000)

    def on_cut_weak_etag(self, q, n):
        self.ranged(BODY, 'W/"v1"', cut=None if n > 1 else 70000)

    def on_ignores_range(self, q, n):
        self.send(BODY, headers=[("ETag", '"v1"')], cut=None if n > 1 else 70000)

    def on_always_cut_no_range(self, q, n):
        self.send(BODY, headers=[("ETag", '"v1"')], cut=70000)

    def on_changes(self, q, n):
        if n == 1:
            return self.ranged(OTHER, '"old"', cut=70000)
        self.ranged(BODY, '"new"')

    def on_changes_silently(self, q, n):
        # no ETag, and the second answer continues another file
        if n == 1:
            return self.send(OTHER, cut=70000)
        self.ranged(BODY, None)

    def on_wrong_start(self, q, n):
        if self.headers.get("Range") and n == 2:
            return self.send(BODY[:1000], 206, [("ETag", '"v1"'), ("Content-Range", "bytes 0-999/300000")])
        self.ranged(BODY, '"v1"', cut=70000 if n == 1 else None)

    def on_wrong_total(self, q, n):
        if self.headers.get("Range") and n == 2:
            return self.send(BODY[70000:], 206, [("ETag", '"v1"'), ("Content-Range", "bytes 70000-299999/400000")])
        self.ranged(BODY, '"v1"', cut=70000 if n == 1 else None)

    def on_announces_more(self, q, n):
        self.send(BODY, length=len(BODY) + 5)

    def on_announces_less(self, q, n):
        self.send(BODY, length=len(BODY) - 5)

    def on_chunked(self, q, n):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = 200000 if q.get("cut") else len(BODY)
        for at in range(0, end, 100000):
            piece = BODY[at:at + 100000]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if q.get("cut"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def on_empty(self, q, n):
        self.send(b"")

    def on_busy(self, q, n):
        if n <= 2:
            return self.send(b"later", 503)
        self.ranged(BODY, '"v1"')

    def on_always_busy(self, q, n):
        self.send(b"later", 503)

    def on_missing(self, q, n):
        self.send(b"<html>not found</html>", 404)

    def on_forbidden(self, q, n):
        self.send(b"no", 403)

    def on_page(self, q, n):
        self.send(b"x", 301, [("Location", q["to"])])

    def on_loop(self, q, n):
        self.send(b"", 302, [("Location", "/loop")])

    def on_slow(self, q, n):
        """Sends half, then waits to be cut off; complete from a Range."""
        if self.headers.get("Range"):
            return self.ranged(BODY, '"v1"')
        self.send_response(200)
        self.send_header("Content-Length", str(len(BODY)))
        self.send_header("ETag", '"v1"')
        self.end_headers()
        self.wfile.write(BODY[:150000])
        self.wfile.flush()
        try:
            self.connection.settimeout(30)
            self.connection.recv(1)
        except OSError:
            pass
        self.close_connection = True

    # the layout of a model hub: /OWNER/REPO/resolve/main/FILE redirects to a store, and names digest and size
    def on_owner(self, q, n):
        repo = self.path.split("/")[2]
        digest = hashlib.sha256(OTHER).hexdigest() if repo == "wrong" else SHA
        size = len(BODY) + (1 if repo == "size" else 0)
        self.send(b"redirecting", 302, [("Location", "/store"), ("X-Linked-Etag", '"%s"' % digest),
                                        ("X-Linked-Size", str(size)), ("ETag", '"pointer"')])

    def on_store(self, q, n):
        self.ranged(BODY, '"blob"', cut=100000 if n == 1 else None)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that goes away is part of the tests


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
BASE = "http://127.0.0.1:%d" % server.server_address[1]
folder = None


def pull(*args, env=None, **kw):
    e = dict(os.environ, OCHRE_MODELS=folder, OCHRE_HF_ENDPOINT=BASE)
    # a proxy that nobody answers: loopback must not go through it
    e.update(http_proxy="http://127.0.0.1:9", https_proxy="http://127.0.0.1:9", **(env or {}))
    return subprocess.run([OCHRE, "pull", *args], env=e, text=True, capture_output=True, timeout=120, **kw)


def files():
    return sorted(os.listdir(folder))


def content(name):
    with open(os.path.join(folder, name), "rb") as f:
        return f.read()


def good(p, name="m"):
    assert p.returncode == 0, p
    assert p.stdout == os.path.join(folder, name) + "\n", p.stdout
    assert content(name) == BODY
    assert files() == [name], files()


def bad(p, *words, code=1, left=()):
    assert p.returncode == code, p
    assert p.stdout == "", p.stdout
    for w in words:
        assert w in p.stderr, (w, p.stderr)
    assert files() == sorted(left), files()


def ranges():
    return [(r, c) for _, r, c in Handler.log]


# ---- what works ----

def plain():
    good(pull(BASE + "/ok/m"))
    good(pull(BASE + "/ok/m"))  # already there: no request
    assert len(Handler.log) == 1
    p = pull(BASE + "/ok/m", "--sha256", SHA.upper())
    assert p.returncode == 0 and "is the right file" in p.stderr, p
    p = pull(BASE + "/ok/m", "--sha256", "0" * 64)
    assert p.returncode == 1 and "expected " + "0" * 64 + ", found " + SHA in p.stderr, p
    good(pull(BASE + "/ok/m", "--force"))
    assert len(Handler.log) == 2


def names():
    good(pull(BASE + "/ok/a%20b.gguf?x=/y"), "a b.gguf")
    os.unlink(os.path.join(folder, "a b.gguf"))
    good(pull(BASE + "/ok/whatever", "-o", "c.gguf"), "c.gguf")
    p = pull(BASE + "/ok/m", "--dir", os.path.join(folder, "x", "y"))
    assert p.returncode == 0 and content("x/y/m") == BODY
    bad(pull(BASE + "/ok/"), "names no file", code=2, left=["c.gguf", "x"])
    bad(pull(BASE), "names no file", code=2, left=["c.gguf", "x"])
    bad(pull(BASE + "/ok/%2e%2e"), "names no file", code=2, left=["c.gguf", "x"])
    bad(pull(BASE + "/ok/a%2Fb"), "slash", code=2, left=["c.gguf", "x"])
    bad(pull(BASE + "/ok/m", "-o", "a/b"), "without folders", code=2, left=["c.gguf", "x"])


def with_digest():
    p = pull(BASE + "/ok/m", "--sha256", SHA)
    good(p)
    assert "(as expected)" in p.stderr


def connection_is_cut_and_resumed():
    p = pull(BASE + "/cut/m", "--retries", "1")
    good(p)
    assert ranges() == [(None, None)] + [("bytes=%d-" % (70000 * i), '"v1"') for i in range(1, 5)], ranges()
    assert "trying again" in p.stderr and "from byte 70000" in p.stderr


def without_validator_it_starts_again():
    good(pull(BASE + "/cut-no-etag/m", "--retries", "5"))
    assert ranges() == [(None, None)] * 3, ranges()


def weak_etag_is_no_validator():
    good(pull(BASE + "/cut-weak-etag/m", "--retries", "1"))
    assert ranges() == [(None, None)] * 2, ranges()


def with_digest_alone_it_resumes():
    good(pull(BASE + "/cut-no-etag/m", "--retries", "5", "--sha256", SHA))
    assert ranges() == [(None, None), ("bytes=70000-", None), ("bytes=140000-", None)], ranges()


def server_ignores_range():
    p = pull(BASE + "/ignores-range/m", "--retries", "1")
    good(p)
    assert "from its beginning" in p.stderr
    assert ranges()[1] == ("bytes=70000-", '"v1"')


def file_changes_meanwhile():
    good(pull(BASE + "/changes/m", "--retries", "1"))
    assert ranges() == [(None, None), ("bytes=70000-", '"old"')]


def file_changes_silently():
    # resumed on the digest alone: the mix is noticed, and fetched again whole
    p = pull(BASE + "/changes-silently/m", "--retries", "1", "--sha256", SHA)
    good(p)
    assert "digest does not fit" in p.stderr


def range_with_a_wrong_start():
    good(pull(BASE + "/wrong-start/m", "--retries", "2"))
    assert ranges()[2] == (None, None)


def range_with_a_wrong_total():
    good(pull(BASE + "/wrong-total/m", "--retries", "2"))
    assert ranges()[2] == (None, None)


def busy_server_is_asked_again():
    p = pull(BASE + "/busy/m", "--retries", "2")
    good(p)
    assert p.stderr.count("HTTP status 503; trying again") == 2


def chunked():
    good(pull(BASE + "/chunked/m"))


def an_empty_file():
    p = pull(BASE + "/empty/m")
    assert p.returncode == 0 and content("m") == b"" and files() == ["m"]


def a_redirect():
    good(pull(BASE + "/page/m?to=/ok"))


def hub_names():
    p = pull("hf:owner/repo/folder/m")
    good(p)
    assert "(as expected)" in p.stderr
    assert Handler.log[0][0] == "/owner/repo/resolve/main/folder/m", Handler.log
    assert ("/store", "bytes=100000-", '"blob"') in Handler.log, Handler.log


def interrupted_and_gone_on_with():
    for sig in (signal.SIGINT, signal.SIGKILL):
        Handler.log.clear()
        e = dict(os.environ, OCHRE_MODELS=folder)
        p = subprocess.Popen([OCHRE, "pull", BASE + "/slow/m"], env=e, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        part = os.path.join(folder, "m.part")
        for _ in range(300):
            if os.path.exists(part) and os.path.getsize(part) == 150000:
                break
            time.sleep(0.05)
        second = pull(BASE + "/slow/m")
        assert second.returncode == 1 and "another download is writing" in second.stderr, second
        p.send_signal(sig)
        p.communicate(timeout=60)
        assert p.returncode == (130 if sig == signal.SIGINT else -9), p.returncode
        assert files() == ["m.part", "m.part.meta"], files()
        p = pull(BASE + "/slow/m", "--sha256", SHA)
        good(p)
        assert "(as expected)" in p.stderr and "digest does not fit" not in p.stderr, p.stderr
        assert ranges() == [(None, None), ("bytes=150000-", '"v1"')], ranges()
        os.unlink(os.path.join(folder, "m"))


def a_part_of_another_url_is_not_used():
    bad(pull(BASE + "/cut/m?a", "--retries", "0"), left=["m.part", "m.part.meta"])
    good(pull(BASE + "/ok/m"))
    assert ranges() == [(None, None)] * 2


def a_damaged_meta_is_not_used():
    bad(pull(BASE + "/cut/m", "--retries", "0"), left=["m.part", "m.part.meta"])
    with open(os.path.join(folder, "m.part.meta"), "r+b") as f:
        f.truncate(9)
    Handler.log.clear()
    good(pull(BASE + "/ok/m"))
    assert ranges() == [(None, None)]


def a_part_that_is_too_long_is_not_used():
    bad(pull(BASE + "/cut/m", "--retries", "0"), left=["m.part", "m.part.meta"])
    with open(os.path.join(folder, "m.part"), "ab") as f:
        f.write(BODY)
    Handler.log.clear()
    good(pull(BASE + "/cut/m", "--retries", "1"))
    assert ranges()[0] == (None, None)


def a_part_with_wrong_bytes_is_noticed():
    bad(pull(BASE + "/cut/m", "--retries", "0", "--sha256", SHA), left=["m.part", "m.part.meta"])
    with open(os.path.join(folder, "m.part"), "r+b") as f:
        f.write(b"damage")
    p = pull(BASE + "/cut/m", "--retries", "1", "--sha256", SHA)
    good(p)
    assert "digest does not fit" in p.stderr


def a_whole_part_needs_no_server():
    bad(pull(BASE + "/cut/m", "--retries", "0"), left=["m.part", "m.part.meta"])
    with open(os.path.join(folder, "m.part"), "wb") as f:
        f.write(BODY)
    Handler.log.clear()
    good(pull(BASE + "/cut/m", "--retries", "0"))
    assert Handler.log == []


# ---- what does not ----

def wrong_digest():
    bad(pull(BASE + "/ok/m", "--sha256", "1" * 64), "sha256: expected " + "1" * 64 + ", found " + SHA, "was removed")
    bad(pull("hf:owner/wrong/m", "--retries", "1"), "sha256: expected " + hashlib.sha256(OTHER).hexdigest(), "was removed")
    with open(os.path.join(folder, "m"), "wb") as f:
        f.write(b"what was there")
    p = pull(BASE + "/ok/m", "--force", "--sha256", "1" * 64)
    assert p.returncode == 1 and content("m") == b"what was there" and files() == ["m"]


def lies_about_the_length():
    bad(pull(BASE + "/announces-more/m", "--retries", "1"), "gave up after 2 attempts")
    bad(pull(BASE + "/announces-less/m", "--sha256", SHA), "sha256: expected " + SHA)
    bad(pull("hf:owner/size/m"), "length: expected 300001 bytes (X-Linked-Size), found 300000")
    bad(pull(BASE + "/chunked/m?cut=1", "--retries", "0"), "gave up after 1 attempts")


def cut_without_range_gives_up():
    bad(pull(BASE + "/always-cut-no-range/m", "--retries", "1"), "gave up after 2 attempts", "70000 bytes are kept",
        left=["m.part", "m.part.meta"])


def statuses():
    bad(pull(BASE + "/missing/m"), BASE + "/missing/m: expected HTTP status 200, found 404: there is no such file")
    bad(pull(BASE + "/forbidden/m"), "found 403", "account")
    bad(pull(BASE + "/always-busy/m", "--retries", "0"), "HTTP status 503")
    bad(pull(BASE + "/loop/m"), "redirects")
    assert Handler.counts["/missing/m"] == 1


def dead_server():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    t = time.time()
    p = pull("http://127.0.0.1:%d/m" % port, "--retries", "1")
    bad(p, "127.0.0.1", "gave up after 2 attempts in a row; nothing is kept")
    assert time.time() - t >= 0.5


def full_disk():
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))
    # the limit's signal is ignored by Python and so by its children, if told to leave that so
    p = pull(BASE + "/ok/m", preexec_fn=limit, restore_signals=False)
    bad(p, "m.part: writing: File too large (100000 bytes are kept", left=["m.part", "m.part.meta"])
    good(pull(BASE + "/ok/m"))
    assert ranges()[1] == ("bytes=100000-", '"v1"')


def no_place_to_write():
    with open(os.path.join(folder, "file"), "w"):
        pass
    bad(pull(BASE + "/ok/m", "--dir", os.path.join(folder, "file", "x")), "making the folder: Not a directory", left=["file"])
    os.mkdir(os.path.join(folder, "m"))
    bad(pull(BASE + "/ok/m"), "exists and is not a file", left=["file", "m"])


def refused_urls():
    for url in ("http://example.org/m", "http://127.0.0.1.example.org/m", "http://localhost.example.org/m",
                "http://127.0.0.1@example.org/m", "http://localhost:80@example.org/m", "http://127.0.0.1\\@example.org/m",
                "http://[::1]example.org/m", "http://[::1/m",
                "ftp://127.0.0.1/m", "file:///etc/passwd", "https://user:secret@example.org/m", "https:///m",
                "https://example.org/a b", "https://example.org/a\nb"):
        bad(pull(url), "expected", code=2)
    bad(pull(BASE + "/page/m?to=http://example.org/m"), "redirected to http://example.org/m: expected https://")
    bad(pull(BASE + "/page/m?to=file:///etc/passwd"), 'Protocol "file"')
    for name in ("hf:a/b", "hf:a//b", "hf:", "hf:a/b/../c", "hf:../b/c", "hf:a/b/"):
        bad(pull(name), "expected hf:OWNER/REPO/FILE", code=2)
    bad(pull("smolm2-135m"), "did you mean smollm2-135m?", code=2)
    bad(pull("nonsense-with-no-neighbour"), "expected smollm2-135m", code=2)
    bad(pull(BASE + "/ok/m", "--sha256", "12"), "64 hexadecimal digits", code=2)
    bad(pull(), "which model?", code=2)
    bad(pull("smollm2-135m", "--sha256", SHA), "leave out", code=2)


def untrusted_certificate():
    if not shutil.which("openssl"):
        return
    keys = tempfile.mkdtemp(prefix="ochre-pull-")
    try:
        key, cert = os.path.join(keys, "key"), os.path.join(keys, "cert")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert,
                        "-subj", "/CN=localhost", "-days", "2"], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        secure = Server(("127.0.0.1", 0), Handler)
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        threading.Thread(target=secure.serve_forever, daemon=True).start()
        bad(pull("https://localhost:%d/ok/m" % secure.server_address[1], "--retries", "0", env={"no_proxy": "localhost"}),
            "certificate")
        assert Handler.log == []
        secure.shutdown()
    finally:
        shutil.rmtree(keys)


def without_libcurl():
    p = pull(BASE + "/ok/m", env={"OCHRE_LIBCURL": "/nowhere/libcurl.so.4"})
    bad(p, "downloads need libcurl", "tried /nowhere/libcurl.so.4", "apt-get install libcurl4")
    bad(pull(BASE + "/ok/m", env={"OCHRE_LIBCURL": "libm.so.6"}), "libm.so.6 (it has no curl_global_init)")


TESTS = [f for n, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == "__main__"
         and n not in ("pull", "files", "content", "good", "bad", "ranges", "Handler", "Server")]
failed = 0
for test in TESTS:
    if len(sys.argv) > 2 and test.__name__ not in sys.argv[2:]:
        continue
    folder = tempfile.mkdtemp(prefix="ochre-pull-")
    Handler.log.clear()
    Handler.counts.clear()
    t0 = time.time()
    try:
        test()
        print("ok   %-42s %.1f s" % (test.__name__, time.time() - t0), flush=True)
    except AssertionError as e:
        import traceback
        failed += 1
        print("FAIL %s: %s" % (test.__name__, e))
        traceback.print_exc(limit=-1)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
print("%d failed" % failed)
sys.exit(1 if failed else 0)
