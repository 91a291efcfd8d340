/* dtype.c: facts of element types, a row each: torch's name, StableHLO's name, bits of storage.
 *
 * Refuses to know what a dtype is good for: promotion and arithmetic are the business of ops. */
#include "base/base.h"

static const struct { const char *torch, *hlo; unsigned bits; } rows[TT_DTYPES] = {
  [TT_BOOL] = {"bool", "i1", 8},
  [TT_U8] = {"uint8", "ui8", 8},
  [TT_U16] = {"uint16", "ui16", 16},
  [TT_U32] = {"uint32", "ui32", 32},
  [TT_U64] = {"uint64", "ui64", 64},
  [TT_I8] = {"int8", "i8", 8},
  [TT_I16] = {"int16", "i16", 16},
  [TT_I32] = {"int32", "i32", 32},
  [TT_I64] = {"int64", "i64", 64},
  [TT_F16] = {"float16", "f16", 16},
  [TT_BF16] = {"bfloat16", "bf16", 16},
  [TT_F32] = {"float32", "f32", 32},
  [TT_F64] = {"float64", "f64", 64},
  [TT_C64] = {"complex64", "complex<f32>", 64},
  [TT_C128] = {"complex128", "complex<f64>", 128},
  [TT_F8E4M3FN] = {"float8_e4m3fn", "f8E4M3FN", 8},
  [TT_F8E5M2] = {"float8_e5m2", "f8E5M2", 8},
  [TT_F8E4M3FNUZ] = {"float8_e4m3fnuz", "f8E4M3FNUZ", 8},
  [TT_F8E5M2FNUZ] = {"float8_e5m2fnuz", "f8E5M2FNUZ", 8},
  [TT_F8E8M0FNU] = {"float8_e8m0fnu", "f8E8M0FNU", 8},
  [TT_F4E2M1FN] = {"float4_e2m1fn", "f4E2M1FN", 4},
  [TT_F4X2] = {"float4_e2m1fn_x2", "ui8", 8},
};

const char *tt_dtype_name(tt_dtype t) { return (unsigned)t < TT_DTYPES ? rows[t].torch : "unknown"; }
const char *tt_dtype_hlo(tt_dtype t) { return (unsigned)t < TT_DTYPES ? rows[t].hlo : "unknown"; }
unsigned tt_dtype_bits(tt_dtype t) { return (unsigned)t < TT_DTYPES ? rows[t].bits : 0; }
