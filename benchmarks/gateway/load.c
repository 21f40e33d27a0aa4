// A client of many connections in one thread, and every latency it saw:
//     load port connections seconds warm-up-seconds body-file key [rate [path]]
// Without a rate each connection asks again at once; with one (requests a second) they are sent
// when they are due, however the server does, and latencies count from then. What came in the
// warm-up counts in "all" and "allchunks" only. "relay" is the time of a chunk from the upstream's
// clock, which the mock writes into it; "added" is how much longer than that of the chunk before it
// is: what was added to the time between two tokens. Prints one line of JSON, times in microseconds.
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
  int busy;
  size_t so;
  int wantw;
  uint64_t t0;
  int hdone;
  char hb[8192];
  size_t hl;
  int status;
  int chunked;
  int close;
  int noclen;
  long left;
  int cs;
  long csz;
  char lb[8192];
  size_t ll;
  int first;
  int nchunk;
  int sse;
  double relay;
} C;
static int ep, port;
static char *req;
static size_t reql;
static double rate;
static uint64_t tstart, tmeas, tend;
static C *cs;
static int nc;
static float *lat, *tt, *rl, *ad;
static size_t nl, nt, nr, na, CAP = 16000000;
static long errs, reconn, chunks, done, badst, all, allchunks;
static uint64_t bytes;
static long issued;
static int nidle;
static int *idle;
static uint64_t now() {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static void conn(C *c) {
  int s = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(s, (void *)&a, sizeof a)) {
    perror("connect");
    exit(1);
  }
  fcntl(s, F_SETFL, O_NONBLOCK);
  setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, 4);
  c->fd = s;
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, s, &e);
}
static void dosend(C *c) {
  while (c->so < reql) {
    ssize_t r = send(c->fd, req + c->so, reql - c->so, MSG_NOSIGNAL);
    if (r < 0) {
      if (errno == EAGAIN) {
        if (!c->wantw) {
          c->wantw = 1;
          struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
          epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
        }
        return;
      }
      return;
    }
    c->so += r;
  }
  if (c->wantw) {
    c->wantw = 0;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
  }
}
static void start(C *c, uint64_t t) {
  c->busy = 1;
  c->so = 0;
  c->t0 = t;
  c->hdone = 0;
  c->hl = 0;
  c->ll = 0;
  c->first = 0;
  c->cs = 0;
  c->csz = 0;
  c->chunked = 0;
  c->close = 0;
  c->noclen = 0;
  c->left = 0;
  c->status = 0;
  c->nchunk = 0;
  c->sse = 0;
  c->relay = -1;
  dosend(c);
}
static void next(C *c) {
  c->busy = 0;
  uint64_t t = now();
  if (t >= tend)
    return;
  if (rate <= 0) {
    start(c, t);
    return;
  }
  uint64_t due = tstart + (uint64_t)(issued * 1e9 / rate);
  if (due <= t) {
    issued++;
    start(c, due);
  } else
    idle[nidle++] = c - cs;
}
static void fin(C *c) {
  uint64_t t = now();
  all++;
  if (t >= tmeas && t < tend) {
    done++;
    if (c->status != 200)
      badst++;
    if (nl < CAP)
      lat[nl++] = (t - c->t0) / 1e3;
  }
  if (c->close) {
    close(c->fd);
    reconn++;
    conn(c);
  }
  next(c);
}
static void fail(C *c) {
  uint64_t t = now();
  if (t >= tmeas && t < tend)
    errs++;
  close(c->fd);
  conn(c);
  next(c);
}
static void pay(C *c, const char *b, size_t n, uint64_t t) {
  bytes += n;
  if (!c->first) {
    c->first = 1;
    if (t >= tmeas && t < tend && nt < CAP)
      tt[nt++] = (t - c->t0) / 1e3;
  }
  if (!c->sse)
    return;
  while (n) {
    const char *e = memchr(b, '\n', n);
    size_t k = e ? (size_t)(e - b) : n;
    if (c->ll + k < sizeof c->lb) {
      memcpy(c->lb + c->ll, b, k);
      c->ll += k;
    }
    b += k;
    n -= k;
    if (!e)
      break;
    b++;
    n--;
    if (c->ll > 6 && !memcmp(c->lb, "data: ", 6)) {
      allchunks++;
      if (t >= tmeas && t < tend) {
        chunks++;
        char *p = memmem(c->lb, c->ll, "\"T", 2);
        if (p && p + 21 < c->lb + c->ll && p[2] == '0') {
          uint64_t ts = strtoull(p + 2, 0, 10);
          double r = t > ts ? (t - ts) / 1e3 : 0;
          if (nr < CAP)
            rl[nr++] = r;
          if (c->relay >= 0 && na < CAP)
            ad[na++] = r - c->relay;
          c->relay = r;
        }
      }
    }
    c->ll = 0;
  }
}
static int feed(C *c, char *b, size_t n, uint64_t t) { // 1 => done
  if (!c->hdone) {
    size_t k = n;
    if (c->hl + k > sizeof c->hb - 1)
      k = sizeof c->hb - 1 - c->hl;
    memcpy(c->hb + c->hl, b, k);
    size_t old = c->hl;
    c->hl += k;
    char *e = memmem(c->hb, c->hl, "\r\n\r\n", 4);
    if (!e)
      return 0;
    size_t hl = e + 4 - c->hb;
    c->hb[hl - 1] = 0;
    c->status = atoi(c->hb + 9);
    char *p = strcasestr(c->hb, "\ncontent-length:");
    c->chunked = !!strcasestr(c->hb, "transfer-encoding: chunked");
    if (strcasestr(c->hb, "\nconnection: close"))
      c->close = 1;
    c->sse = !!strcasestr(c->hb, "text/event-stream");
    c->left = p ? atol(p + 16) : 0;
    if (!p && !c->chunked) {
      c->noclen = 1;
    }
    c->hdone = 1;
    size_t used = hl - old;
    b += used;
    n -= used;
    if (!c->chunked && !c->noclen && c->left == 0)
      return 1;
  }
  if (!c->chunked) {
    pay(c, b, n, t);
    if (c->noclen)
      return 0;
    c->left -= n;
    return c->left <= 0;
  }
  while (n) {
    switch (c->cs) {
    case 0: {
      char ch = *b++;
      n--;
      if (ch == '\n') {
        c->cs = c->csz == 0 ? 3 : 1;
      } else if (ch != '\r') {
        int v = ch >= 'a' ? ch - 'a' + 10 : ch >= 'A' ? ch - 'A' + 10 : ch - '0';
        c->csz = c->csz * 16 + v;
      }
      break;
    }
    case 1: {
      size_t k = n < (size_t)c->csz ? n : (size_t)c->csz;
      pay(c, b, k, t);
      b += k;
      n -= k;
      c->csz -= k;
      if (!c->csz)
        c->cs = 2;
      break;
    }
    case 2: {
      char ch = *b++;
      n--;
      if (ch == '\n') {
        c->cs = 0;
        c->csz = 0;
      }
      break;
    }
    case 3: {
      char ch = *b++;
      n--;
      if (ch == '\n')
        return 1;
      break;
    }
    }
  }
  return 0;
}
static int cmp(const void *a, const void *b) {
  float x = *(float *)a, y = *(float *)b;
  return x < y ? -1 : x > y;
}
static double pc(float *a, size_t n, double q) {
  if (!n)
    return -1;
  size_t i = q * n;
  if (i >= n)
    i = n - 1;
  return a[i];
}
int main(int ac, char **av) {
  signal(SIGPIPE, SIG_IGN);
  port = atoi(av[1]);
  nc = atoi(av[2]);
  double secs = atof(av[3]), warm = atof(av[4]);
  FILE *f = fopen(av[5], "rb");
  static char body[1 << 20];
  size_t bl = fread(body, 1, sizeof body, f);
  rate = ac > 7 ? atof(av[7]) : 0;
  const char *path = ac > 8 ? av[8] : "/v1/chat/completions";
  req = malloc(bl + 1024);
  reql = sprintf(req,
                 "POST %s HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nuser-agent: OpenAI/Python "
                 "2.8.0\r\naccept: application/json\r\naccept-encoding: gzip, "
                 "deflate\r\nx-stainless-lang: python\r\nx-stainless-package-version: "
                 "2.8.0\r\nx-stainless-runtime: CPython\r\ncontent-type: "
                 "application/json\r\nauthorization: Bearer %s\r\ncontent-length: %zu\r\n\r\n",
                 path, port, av[6], bl);
  memcpy(req + reql, body, bl);
  reql += bl;
  lat = malloc(CAP * 4);
  tt = malloc(CAP * 4);
  rl = malloc(CAP * 4);
  ad = malloc(CAP * 4);
  cs = calloc(nc, sizeof *cs);
  idle = calloc(nc * 2, 4);
  ep = epoll_create1(0);
  for (int i = 0; i < nc; i++)
    conn(&cs[i]);
  tstart = now();
  tmeas = tstart + warm * 1e9;
  tend = tmeas + secs * 1e9;
  int tf = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = 0};
    epoll_ctl(ep, EPOLL_CTL_ADD, tf, &e);
  }
  if (rate <= 0)
    for (int i = 0; i < nc; i++)
      start(&cs[i], now());
  else
    for (int i = 0; i < nc; i++)
      idle[nidle++] = i;
  struct epoll_event ev[512];
  static char buf[1 << 18];
  for (;;) {
    uint64_t t = now();
    if (t >= tend)
      break;
    if (rate > 0) {
      while (nidle) {
        uint64_t due = tstart + (uint64_t)(issued * 1e9 / rate);
        if (due > t) {
          struct itimerspec it = {{0, 0}, {due / 1000000000, due % 1000000000}};
          timerfd_settime(tf, TFD_TIMER_ABSTIME, &it, 0);
          break;
        }
        issued++;
        start(&cs[idle[--nidle]], due);
      }
    }
    int n = epoll_wait(ep, ev, 512, 50);
    t = now();
    for (int i = 0; i < n; i++) {
      C *c = ev[i].data.ptr;
      if (!c) {
        uint64_t x;
        if (read(tf, &x, 8) < 0) {
        };
        continue;
      }
      if (ev[i].events & EPOLLOUT)
        dosend(c);
      if (!(ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        continue;
      ssize_t r = recv(c->fd, buf, sizeof buf, 0);
      if (r == 0) {
        if (c->busy && c->hdone && c->noclen) {
          c->close = 1;
          fin(c);
        } else if (c->busy)
          fail(c);
        else {
          close(c->fd);
          conn(c);
        }
        continue;
      }
      if (r < 0) {
        if (errno == EAGAIN)
          continue;
        if (c->busy)
          fail(c);
        continue;
      }
      if (!c->busy)
        continue;
      if (feed(c, buf, r, t))
        fin(c);
    }
  }
  qsort(lat, nl, 4, cmp);
  qsort(tt, nt, 4, cmp);
  qsort(rl, nr, 4, cmp);
  qsort(ad, na, 4, cmp);
  printf("{\"rps\":%.1f,\"all\":%ld,\"allchunks\":%ld,\"n\":%ld,\"err\":%ld,\"bad\":%ld,\"reconn\":"
         "%ld,\"p50\":%.1f,\"p90\":%.1f,"
         "\"p99\":%.1f,\"max\":%.1f,\"chunks_s\":%.1f,\"ttft50\":%.1f,\"ttft99\":%.1f,\"relay50\":%"
         ".1f,\"relay99\":%.1f,\"relaymax\":%.1f,\"added50\":%.1f,\"added99\":%.1f}\n",
         done / secs, all, allchunks, done, errs, badst, reconn, pc(lat, nl, .5), pc(lat, nl, .9),
         pc(lat, nl, .99), pc(lat, nl, 1), chunks / secs, pc(tt, nt, .5), pc(tt, nt, .99),
         pc(rl, nr, .5), pc(rl, nr, .99), pc(rl, nr, 1), pc(ad, na, .5), pc(ad, na, .99));
  return 0;
}
