module @tt {
  func.func public @main() -> (tensor<i1>, tensor<i1>, tensor<ui8>, tensor<ui8>, tensor<ui16>, tensor<ui16>, tensor<ui32>, tensor<ui32>, tensor<ui64>, tensor<ui64>, tensor<i8>, tensor<i8>, tensor<i16>, tensor<i16>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i64>, tensor<f16>, tensor<f16>, tensor<bf16>, tensor<bf16>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>) {
    %0 = stablehlo.constant dense<false> : tensor<i1>
    %1 = stablehlo.constant dense<true> : tensor<i1>
    %2 = stablehlo.constant dense<0> : tensor<ui8>
    %3 = stablehlo.constant dense<255> : tensor<ui8>
    %4 = stablehlo.constant dense<0> : tensor<ui16>
    %5 = stablehlo.constant dense<65535> : tensor<ui16>
    %6 = stablehlo.constant dense<0> : tensor<ui32>
    %7 = stablehlo.constant dense<4294967295> : tensor<ui32>
    %8 = stablehlo.constant dense<0> : tensor<ui64>
    %9 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %10 = stablehlo.constant dense<-128> : tensor<i8>
    %11 = stablehlo.constant dense<127> : tensor<i8>
    %12 = stablehlo.constant dense<-32768> : tensor<i16>
    %13 = stablehlo.constant dense<32767> : tensor<i16>
    %14 = stablehlo.constant dense<-2147483648> : tensor<i32>
    %15 = stablehlo.constant dense<2147483647> : tensor<i32>
    %16 = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
    %17 = stablehlo.constant dense<9223372036854775807> : tensor<i64>
    %18 = stablehlo.constant dense<0xFC00> : tensor<f16>
    %19 = stablehlo.constant dense<0x7C00> : tensor<f16>
    %20 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %21 = stablehlo.constant dense<0x7F80> : tensor<bf16>
    %22 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %23 = stablehlo.constant dense<0x7F800000> : tensor<f32>
    %24 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %25 = stablehlo.constant dense<0x7FF0000000000000> : tensor<f64>
    %26 = stablehlo.constant dense<-448.0> : tensor<f8E4M3FN>
    %27 = stablehlo.constant dense<448.0> : tensor<f8E4M3FN>
    %28 = stablehlo.constant dense<0xFC> : tensor<f8E5M2>
    %29 = stablehlo.constant dense<0x7C> : tensor<f8E5M2>
    %30 = stablehlo.constant dense<-240.0> : tensor<f8E4M3FNUZ>
    %31 = stablehlo.constant dense<240.0> : tensor<f8E4M3FNUZ>
    %32 = stablehlo.constant dense<-57344.0> : tensor<f8E5M2FNUZ>
    %33 = stablehlo.constant dense<57344.0> : tensor<f8E5M2FNUZ>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33 : tensor<i1>, tensor<i1>, tensor<ui8>, tensor<ui8>, tensor<ui16>, tensor<ui16>, tensor<ui32>, tensor<ui32>, tensor<ui64>, tensor<ui64>, tensor<i8>, tensor<i8>, tensor<i16>, tensor<i16>, tensor<i32>, tensor<i32>, tensor<i64>, tensor<i64>, tensor<f16>, tensor<f16>, tensor<bf16>, tensor<bf16>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<f8E5M2>, tensor<f8E4M3FNUZ>, tensor<f8E4M3FNUZ>, tensor<f8E5M2FNUZ>, tensor<f8E5M2FNUZ>
  }
}
