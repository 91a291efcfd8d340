/* hash.c: one hash that is fast, one that is stable.
 *
 * tt_hash_words serves tables of one process: each pair of words is folded by a 64x64->128 bit multiplication, which
 * mixes every bit of one word with every bit of the other. tt_digest_bytes names files that other builds and hosts
 * read, so it is SipHash with 128 bits of output (1 round a word, 3 at the end), defined over little-endian bytes; the
 * seed is its key, which is how digests chain. Refuses to be a signature: an owner of the cache folder can forge
 * entries. */
#include <string.h>
#include "base/base.h"

static uint64_t fold(uint64_t a, uint64_t b) {
  unsigned __int128 p = (unsigned __int128)a * b;
  return (uint64_t)p ^ (uint64_t)(p >> 64);
}

uint64_t tt_hash_words(const uint64_t *w, size_t n) {
  /* Odd constants with no pattern in their bits (fractional parts of square roots of primes). */
  const uint64_t k0 = 0x6a09e667f3bcc909u, k1 = 0xbb67ae8584caa73bu, k2 = 0x3c6ef372fe94f82bu;
  uint64_t h = k2 ^ n;
  size_t i = 0;
  for (; i + 2 <= n; i += 2) h = fold(w[i] ^ k0 ^ h, w[i + 1] ^ k1) + (h << 1 | h >> 63);
  if (i < n) h = fold(w[i] ^ k0 ^ h, k1) + (h << 1 | h >> 63);
  h = fold(h ^ k1, k2);
  return h ^ h >> 29;
}

static uint64_t rotate(uint64_t x, int n) { return x << n | x >> (64 - n); }

static void sip_round(uint64_t v[4]) {
  v[0] += v[1]; v[1] = rotate(v[1], 13) ^ v[0]; v[0] = rotate(v[0], 32);
  v[2] += v[3]; v[3] = rotate(v[3], 16) ^ v[2];
  v[0] += v[3]; v[3] = rotate(v[3], 21) ^ v[0];
  v[2] += v[1]; v[1] = rotate(v[1], 17) ^ v[2]; v[2] = rotate(v[2], 32);
}

static uint64_t load_word(const unsigned char *p, size_t n) {
  uint64_t w = 0;
  for (size_t i = 0; i < n; i++) w |= (uint64_t)p[i] << (8 * i);
  return w;
}

tt_digest tt_digest_bytes(tt_digest seed, const void *data, size_t n) {
  const unsigned char *p = data;
  uint64_t v[4] = {seed.h[0] ^ 0x736f6d6570736575u, seed.h[1] ^ 0x646f72616e646f6du ^ 0xee,
                   seed.h[0] ^ 0x6c7967656e657261u, seed.h[1] ^ 0x7465646279746573u};
  size_t whole = n / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) {
    uint64_t m = load_word(p + i, 8);
    v[3] ^= m;
    sip_round(v);
    v[0] ^= m;
  }
  uint64_t m = (n - whole ? load_word(p + whole, n - whole) : 0) | (uint64_t)n << 56;
  v[3] ^= m;
  sip_round(v);
  v[0] ^= m;
  tt_digest d;
  v[2] ^= 0xee;
  for (int i = 0; i < 3; i++) sip_round(v);
  d.h[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
  v[1] ^= 0xdd;
  for (int i = 0; i < 3; i++) sip_round(v);
  d.h[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
  return d;
}
