/* base_test.c: errors, arenas, byte buffers, hashes, the tables of variables and dtypes. */
#include "base/base.h"
#include "test.h"

TEST(test_error_is_one_line) {
  tt_error err;
  EXPECT_INT(tt_fail(&err, TT_NOT_FOUND, "add.Tensor", "  first\n  second:\t%d\r\n", 7), TT_NOT_FOUND);
  EXPECT_TEXT(err.message, "first second: 7");
  EXPECT_TEXT(err.where, "add.Tensor");
  EXPECT_INT(tt_fail(NULL, TT_ABORTED, NULL, "nobody listens"), TT_ABORTED);
}

TEST(test_error_quotes_itself) {
  tt_error err;
  tt_fail(&err, TT_INTERNAL, "mm", "inner");
  tt_fail(&err, TT_UNKNOWN, err.where, "outer (%s)", err.message);
  EXPECT_TEXT(err.message, "outer (inner)");
  EXPECT_TEXT(err.where, "mm");
}

TEST(test_error_long_text_is_cut) {
  char text[4000];
  tt_error err;
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  tt_fail(&err, TT_INTERNAL, text, "%s", text);
  EXPECT_INT(strlen(err.message), sizeof err.message - 1);
  EXPECT_TEXT(err.message + sizeof err.message - 4, "...");
  EXPECT_INT(strlen(err.where), sizeof err.where - 1);
}

TEST(test_code_names) {
  EXPECT_TEXT(tt_code_name(TT_OK), "OK");
  EXPECT_TEXT(tt_code_name(TT_UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_TEXT(tt_code_name((tt_code)999), "UNKNOWN");
}

TEST(test_arena_blocks_are_aligned_zeroed_and_apart) {
  tt_arena a = {0};
  unsigned char *before = NULL;
  for (size_t n = 1; n < 40000; n = n * 3 + 1) {
    unsigned char *p = tt_arena_alloc(&a, n);
    EXPECT(p && (uintptr_t)p % 16 == 0);
    for (size_t i = 0; i < n; i++) EXPECT(p[i] == 0);
    memset(p, 0xff, n);
    EXPECT(!before || before[0] == 0xff);
    before = p;
  }
  EXPECT(tt_arena_alloc(&a, SIZE_MAX - 3) == NULL);
  tt_arena_deinit(&a);
  tt_arena_deinit(&a);
}

TEST(test_buf_grows_and_ends_in_zero) {
  tt_buf b = {0};
  for (int i = 0; i < 1000; i++) tt_buf_printf(&b, "%d,", i);
  tt_buf_text(&b, "end");
  char wide[600];
  memset(wide, 'w', sizeof wide - 1);
  wide[sizeof wide - 1] = 0;
  tt_buf_printf(&b, "%s", wide);
  EXPECT(!b.failed && strlen(b.data) == b.length && b.length == 3890 + 3 + 599);
  EXPECT(!strncmp(b.data, "0,1,2,", 6));
  tt_buf_deinit(&b);
}

#ifdef TT_FAULTS
TEST(test_buf_failure_sticks) {
  tt_buf b = {0};
  tt_fault_allocation(0);
  tt_buf_text(&b, "a");
  tt_fault_allocation(-1);
  tt_buf_text(&b, "b");
  EXPECT(b.failed && b.length == 0);
  tt_buf_deinit(&b);
}
#endif

TEST(test_hash_words_depends_on_every_bit) {
  uint64_t w[7] = {1, 2, 3, 4, 5, 6, 7}, h = tt_hash_words(w, 7);
  for (int i = 0; i < 7 * 64; i++) {
    w[i / 64] ^= 1ull << i % 64;
    uint64_t other = tt_hash_words(w, 7);
    w[i / 64] ^= 1ull << i % 64;
    int differ = __builtin_popcountll(h ^ other);
    EXPECT(differ > 8 && differ < 56);
  }
  EXPECT(tt_hash_words(w, 6) != h && tt_hash_words(w, 0) != tt_hash_words(w, 1));
}

/* The values are the format of the cache folder: other builds have to find the same. */
TEST(test_digest_is_stable) {
  unsigned char data[64];
  for (int i = 0; i < 64; i++) data[i] = (unsigned char)i;
  tt_digest zero = {{0, 0}}, key = {{0x0706050403020100u, 0x0f0e0d0c0b0a0908u}};
  tt_digest a = tt_digest_bytes(zero, data, 0), b = tt_digest_bytes(key, data, 15),
            c = tt_digest_bytes(key, data + 1, 63);
  EXPECT(a.h[0] != a.h[1]);
  char text[200];
  snprintf(text, sizeof text, "%016llx%016llx %016llx%016llx", (unsigned long long)a.h[0], (unsigned long long)a.h[1],
           (unsigned long long)b.h[0], (unsigned long long)b.h[1]);
  EXPECT_TEXT(text, "2134935d61d9b40db91c5ed031fb3303 6c52bdb205557ec109017e1eeccd2129");
  EXPECT(memcmp(&b, &c, sizeof b));
}

TEST(test_env_table_is_sorted_and_told) {
  for (const tt_env_row *r = tt_env_table; r->name; r++) {
    EXPECT(!strncmp(r->name, "TORCH_TPU_", 10) && strlen(r->meaning) > 10);
    EXPECT(!r[1].name || strcmp(r->name, r[1].name) < 0);
  }
}

TEST(test_env_reads_numbers) {
  setenv("TORCH_TPU_CACHE_BYTES", "123", 1);
  EXPECT_INT(tt_env_int("TORCH_TPU_CACHE_BYTES", 5), 123);
  setenv("TORCH_TPU_CACHE_BYTES", "12 GB", 1);
  EXPECT_INT(tt_env_int("TORCH_TPU_CACHE_BYTES", 5), 5);
  setenv("TORCH_TPU_CACHE_BYTES", "", 1);
  EXPECT(tt_env("TORCH_TPU_CACHE_BYTES") == NULL);
  unsetenv("TORCH_TPU_CACHE_BYTES");
}

TEST(test_dtypes_have_names_and_widths) {
  for (int t = 0; t < TT_DTYPES; t++) {
    EXPECT(tt_dtype_name((tt_dtype)t) && tt_dtype_hlo((tt_dtype)t) && tt_dtype_bits((tt_dtype)t) >= 4);
    for (int u = 0; u < t; u++) EXPECT(strcmp(tt_dtype_name((tt_dtype)t), tt_dtype_name((tt_dtype)u)));
  }
  EXPECT_TEXT(tt_dtype_name(TT_BF16), "bfloat16");
  EXPECT_INT(tt_dtype_bits(TT_NO_DTYPE), 0);
}
