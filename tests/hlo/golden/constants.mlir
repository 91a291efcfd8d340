module @tt {
  func.func public @main() -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<bf16>, tensor<f16>, tensor<f16>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<i32>, tensor<i1>, tensor<ui64>, tensor<complex<f32>>, tensor<complex<f64>>, tensor<i64>, tensor<ui64>, tensor<ui8>, tensor<f32>, tensor<i32>, tensor<i32>, tensor<2x3xf32>, tensor<2x0xf32>, tensor<3xi8>, tensor<2x2xf32>, tensor<3xi16>, tensor<3xi1>, tensor<2xcomplex<f32>>, tensor<f64>, tensor<0xui64>, tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<3xcomplex<f32>>) {
    %0 = stablehlo.constant dense<1.0> : tensor<f32>
    %1 = stablehlo.constant dense<0x3DCCCCCD> : tensor<f32>
    %2 = stablehlo.constant dense<0x80000000> : tensor<f32>
    %3 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.constant dense<0x7149F2CA> : tensor<f32>
    %6 = stablehlo.constant dense<0x3FB999999999999A> : tensor<f64>
    %7 = stablehlo.constant dense<0.0009765625> : tensor<f64>
    %8 = stablehlo.constant dense<3.140625> : tensor<bf16>
    %9 = stablehlo.constant dense<0x7C00> : tensor<f16>
    %10 = stablehlo.constant dense<0x0001> : tensor<f16>
    %11 = stablehlo.constant dense<16.0> : tensor<f8E4M3FN>
    %12 = stablehlo.constant dense<0x7C> : tensor<f8E5M2>
    %13 = stablehlo.constant dense<-7> : tensor<i32>
    %14 = stablehlo.constant dense<true> : tensor<i1>
    %15 = stablehlo.constant dense<18000000000000000000> : tensor<ui64>
    %16 = stablehlo.constant dense<(2.0, 0.0)> : tensor<complex<f32>>
    %17 = stablehlo.constant dense<(0x3FB999999999999A, 0xFFF0000000000000)> : tensor<complex<f64>>
    %18 = stablehlo.constant dense<-9223372036854775808> : tensor<i64>
    %19 = stablehlo.constant dense<18446744073709551615> : tensor<ui64>
    %20 = stablehlo.constant dense<44> : tensor<ui8>
    %21 = stablehlo.constant dense<16777216.0> : tensor<f32>
    %22 = stablehlo.constant dense<7> : tensor<i32>
    %23 = stablehlo.constant dense<7.0> : tensor<2x3xf32>
    %24 = stablehlo.constant dense<7.0> : tensor<2x0xf32>
    %25 = stablehlo.constant dense<1> : tensor<3xi8>
    %26 = stablehlo.constant dense<-1> : tensor<3xi8>
    %27 = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<2x2xf32>
    %28 = stablehlo.constant dense<"0x0500"> : tensor<3xi16>
    %29 = stablehlo.constant dense<"0x010001"> : tensor<3xui8>
    %30 = stablehlo.constant dense<0> : tensor<ui8>
    %31 = stablehlo.broadcast_in_dim %30, dims = [] : (tensor<ui8>) -> tensor<3xui8>
    %32 = stablehlo.compare NE, %29, %31 : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xi1>
    %33 = stablehlo.constant dense<"0x0000803F000000400000404000008040"> : tensor<2xcomplex<f32>>
    %34 = stablehlo.constant dense<"0x9A9999999999B93F"> : tensor<f64>
    %35 = stablehlo.constant dense<0> : tensor<0xui64>
    %36 = stablehlo.iota dim = 1 : tensor<2x3xi32>
    %37 = stablehlo.iota dim = 0 : tensor<2x3xf32>
    %38 = stablehlo.iota dim = 0 : tensor<3xi32>
    %39 = stablehlo.convert %38 : (tensor<3xi32>) -> tensor<3xf32>
    %40 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %41 = "stablehlo.complex"(%39, %40) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %22, %23, %24, %26, %27, %28, %32, %33, %34, %35, %36, %36, %37, %41 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f64>, tensor<f64>, tensor<bf16>, tensor<f16>, tensor<f16>, tensor<f8E4M3FN>, tensor<f8E5M2>, tensor<i32>, tensor<i1>, tensor<ui64>, tensor<complex<f32>>, tensor<complex<f64>>, tensor<i64>, tensor<ui64>, tensor<ui8>, tensor<f32>, tensor<i32>, tensor<i32>, tensor<2x3xf32>, tensor<2x0xf32>, tensor<3xi8>, tensor<2x2xf32>, tensor<3xi16>, tensor<3xi1>, tensor<2xcomplex<f32>>, tensor<f64>, tensor<0xui64>, tensor<2x3xi32>, tensor<2x3xi32>, tensor<2x3xf32>, tensor<3xcomplex<f32>>
  }
}
