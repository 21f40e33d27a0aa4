// A mock of vLLM on several ports in one thread: mock first-port ports chunks pace-us
// It answers each POST with the same completion or, to one that streams, with so many chunks, one
// each pace-us (0 is as fast as they go), with usage in each if that was asked for. A request's
// "seed" is its own pace in us, so that one mock serves loads of several paces.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
typedef struct C {
  int fd;
  char *rb;
  size_t rl, rc;
  int streaming;
  int left;
  long pace;
  uint64_t next;
  char *ob;
  size_t ol, oc, oo;
  int blocked;
  int sidx;
  int islisten;
  int usage;
} C;
static int ep;
static long nchunks, pace;
static C **st;
static int nst, cst;
static char unary[4096];
static size_t ulen;
static uint64_t now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void st_add(C *c) {
  if (nst == cst) {
    cst = cst ? cst * 2 : 64;
    st = realloc(st, cst * sizeof *st);
  }
  c->sidx = nst;
  st[nst++] = c;
  c->streaming = 1;
}
static void st_del(C *c) {
  if (!c->streaming)
    return;
  C *l = st[--nst];
  st[c->sidx] = l;
  l->sidx = c->sidx;
  c->streaming = 0;
}
static void cclose(C *c) {
  st_del(c);
  close(c->fd);
  free(c->rb);
  free(c->ob);
  free(c);
}
static void upd(C *c) {
  struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (c->blocked ? EPOLLOUT : 0),
                          .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}
static int out(C *c, const char *b, size_t n) { // 0 ok -1 dead
  if (c->ol == c->oo) {
    ssize_t r = send(c->fd, b, n, MSG_NOSIGNAL);
    if (r < 0) {
      if (errno != EAGAIN)
        return -1;
      r = 0;
    }
    if ((size_t)r == n)
      return 0;
    b += r;
    n -= r;
    c->ol = c->oo = 0;
  }
  if (c->ol + n > c->oc) {
    c->oc = (c->ol + n) * 2;
    c->ob = realloc(c->ob, c->oc);
  }
  memcpy(c->ob + c->ol, b, n);
  c->ol += n;
  if (!c->blocked) {
    c->blocked = 1;
    upd(c);
  }
  return 0;
}
static size_t chunk(char *o, const char *d, size_t n) {
  int k = sprintf(o, "%zx\r\n", n);
  memcpy(o + k, d, n);
  memcpy(o + k + n, "\r\n", 2);
  return k + n + 2;
}
static int emit(C *c, uint64_t t) {
  char d[1024], o[2048], u[128] = "";
  size_t n;
  if (c->left > 0) {
    if (c->usage)
      sprintf(u,
              ",\"usage\":{\"prompt_tokens\":512,\"total_tokens\":%ld,"
              "\"completion_tokens\":%ld}",
              512 + nchunks - c->left + 1, nchunks - c->left + 1);
    int k = sprintf(
        d,
        "data: "
        "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion."
        "chunk\",\"created\":1764500000,\"model\":\"real-model\",\"choices\":[{\"index\":0,"
        "\"delta\":{\"content\":\"T%019lu\"},\"logprobs\":null,\"finish_reason\":null}]%s}\n\n",
        now(), u);
    n = chunk(o, d, k);
    c->left--;
    c->next += c->pace * 1000ull;
    return out(c, o, n);
  }
  int k = sprintf(
      d, "data: "
         "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion."
         "chunk\",\"created\":1764500000,\"model\":\"real-model\",\"choices\":[{\"index\":0,"
         "\"delta\":{\"content\":\"\"},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n");
  n = chunk(o, d, k);
  k = sprintf(d,
              "data: "
              "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion."
              "chunk\",\"created\":1764500000,\"model\":\"real-model\",\"choices\":[],\"usage\":{"
              "\"prompt_tokens\":512,\"total_tokens\":612,\"completion_tokens\":100}}\n\n");
  n += chunk(o + n, d, k);
  n += chunk(o + n, "data: [DONE]\n\n", 14);
  memcpy(o + n, "0\r\n\r\n", 5);
  n += 5;
  st_del(c);
  return out(c, o, n);
}
static int serve(C *c) {
  for (;;) {
    if (c->streaming)
      return 0;
    if (!c->rl)
      return 0;
    char *e = memmem(c->rb, c->rl, "\r\n\r\n", 4);
    if (!e)
      return 0;
    size_t hl = e + 4 - c->rb;
    size_t cl = 0, tot;
    *e = 0;
    char *p = strcasestr(c->rb, "content-length:");
    char *te = strcasestr(c->rb, "transfer-encoding: chunked");
    if (p)
      cl = strtoul(p + 15, 0, 10);
    *e = '\r';
    if (te) {
      char *z = memmem(c->rb + hl, c->rl - hl, "0\r\n\r\n", 5);
      if (!z)
        return 0;
      tot = z + 5 - c->rb;
    } else
      tot = hl + cl;
    if (c->rl < tot)
      return 0;
    char *b = c->rb + hl;
    size_t bl = tot - hl;
    int r = 0;
    if (c->rb[0] == 'G') {
      const char *js =
          !strncmp(c->rb, "GET /v1/models", 14)
              ? "{\"object\":\"list\",\"data\":[{\"id\":\"my-alias\",\"object\":\"model\","
                "\"created\":1,\"owned_by\":\"vllm\",\"max_model_len\":32768}]}"
              : "{\"model_path\":\"my-alias\",\"served_model_name\":\"my-alias\"}";
      char o[512];
      int k = sprintf(
          o, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n%s",
          strlen(js), js);
      r = out(c, o, k);
    } else if (memmem(b, bl, "\"stream\":true", 13) || memmem(b, bl, "\"stream\": true", 14)) {
      const char *h = "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 13:00:00 GMT\r\nserver: "
                      "uvicorn\r\ncontent-type: text/event-stream; "
                      "charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
      r = out(c, h, strlen(h));
      c->left = nchunks;
      c->usage = !!memmem(b, bl, "\"continuous_usage_stats\":true", 29);
      char *sd = memmem(b, bl, "\"seed\":", 7);
      c->pace = pace && sd ? atol(sd + 7) : pace;
      c->next = now() + (pace ? (uint64_t)(rand() % (c->pace + 1)) * 1000ull : 0);
      st_add(c);
    } else
      r = out(c, unary, ulen);
    if (r < 0)
      return -1;
    memmove(c->rb, c->rb + tot, c->rl - tot);
    c->rl -= tot;
  }
}
int main(int ac, char **av) {
  signal(SIGPIPE, SIG_IGN);
  int base = atoi(av[1]), np = atoi(av[2]);
  nchunks = atol(av[3]);
  pace = atol(av[4]);
  ep = epoll_create1(0);
  const char *j =
      "{\"id\":\"chatcmpl-0123456789abcdef0123456789abcdef\",\"object\":\"chat.completion\","
      "\"created\":1764500000,\"model\":\"real-model\",\"choices\":[{\"index\":0,\"message\":{"
      "\"role\":\"assistant\",\"content\":\"The quick brown fox jumps over the lazy dog. The quick "
      "brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy "
      "dog.\",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"tool_"
      "calls\":[],\"reasoning_content\":null},\"logprobs\":null,\"finish_reason\":\"stop\",\"stop_"
      "reason\":null}],\"service_tier\":null,\"system_fingerprint\":null,\"usage\":{\"prompt_"
      "tokens\":512,\"total_tokens\":542,\"completion_tokens\":30,\"prompt_tokens_details\":null},"
      "\"prompt_logprobs\":null}";
  ulen = sprintf(unary,
                 "HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 13:00:00 GMT\r\nserver: "
                 "uvicorn\r\ncontent-length: %zu\r\ncontent-type: application/json\r\n\r\n%s",
                 strlen(j), j);
  for (int i = 0; i < np; i++) {
    int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 4);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(base + i),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(s, (void *)&a, sizeof a) || listen(s, 4096)) {
      perror("bind");
      return 1;
    }
    C *c = calloc(1, sizeof *c);
    c->fd = s;
    c->islisten = 1;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
  }
  int tf = -1;
  static C tc;
  if (pace) {
    tf = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    struct itimerspec it = {{0, 1000000}, {0, 1000000}};
    timerfd_settime(tf, 0, &it, 0);
    tc.fd = tf;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &tc};
    epoll_ctl(ep, EPOLL_CTL_ADD, tf, &e);
  }
  struct epoll_event ev[512];
  for (;;) {
    int busy = 0;
    if (!pace)
      for (int i = 0; i < nst; i++)
        if (!st[i]->blocked) {
          busy = 1;
          break;
        }
    int n = epoll_wait(ep, ev, 512, busy ? 0 : -1);
    for (int i = 0; i < n; i++) {
      C *c = ev[i].data.ptr;
      if (c == &tc) {
        uint64_t x;
        if (read(tf, &x, 8) < 0) {
        };
        uint64_t t = now();
        for (int k = nst - 1; k >= 0; k--) {
          C *s = st[k];
          if (s->next <= t) {
            if (s->blocked)
              continue;
            if (emit(s, t) < 0) {
              shutdown(s->fd, SHUT_RDWR);
              st_del(s);
            } else if (!s->streaming && s->rl)
              serve(s);
          }
        }
        continue;
      }
      if (c->islisten) {
        int f;
        while ((f = accept4(c->fd, 0, 0, SOCK_NONBLOCK)) >= 0) {
          int one = 1;
          setsockopt(f, IPPROTO_TCP, TCP_NODELAY, &one, 4);
          C *k = calloc(1, sizeof *k);
          k->fd = f;
          k->rc = 4096;
          k->rb = malloc(4096);
          struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = k};
          epoll_ctl(ep, EPOLL_CTL_ADD, f, &e);
        }
        continue;
      }
      int dead = 0;
      if (ev[i].events & EPOLLOUT) {
        ssize_t r = send(c->fd, c->ob + c->oo, c->ol - c->oo, MSG_NOSIGNAL);
        if (r < 0 && errno != EAGAIN)
          dead = 1;
        else if (r > 0) {
          c->oo += r;
          if (c->oo == c->ol) {
            c->oo = c->ol = 0;
            c->blocked = 0;
            upd(c);
          }
        }
      }
      if (!dead && (ev[i].events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))) {
        for (;;) {
          if (c->rc - c->rl < 4096) {
            c->rc *= 2;
            c->rb = realloc(c->rb, c->rc);
          }
          size_t want = c->rc - c->rl;
          ssize_t r = recv(c->fd, c->rb + c->rl, want, 0);
          if (r == 0) {
            dead = 1;
            break;
          }
          if (r < 0) {
            if (errno != EAGAIN)
              dead = 1;
            break;
          }
          c->rl += r;
          if ((size_t)r < want)
            break;
        }
        if (!dead && serve(c) < 0)
          dead = 1;
        if (!dead && (ev[i].events & (EPOLLHUP | EPOLLERR)))
          dead = 1;
      }
      if (dead)
        cclose(c);
    }
    if (!pace)
      for (int k = nst - 1; k >= 0; k--) {
        C *s = st[k];
        if (s->blocked)
          continue;
        if (emit(s, 0) < 0) {
          shutdown(s->fd, SHUT_RDWR);
          st_del(s);
        } else if (!s->streaming && s->rl)
          serve(s);
      }
  }
}
