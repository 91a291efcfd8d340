module @tt {
  func.func public @main(%arg0: tensor<3xi1>, %arg1: tensor<3xui8>, %arg2: tensor<3xui16>, %arg3: tensor<3xui32>, %arg4: tensor<3xui64>, %arg5: tensor<3xi8>, %arg6: tensor<3xi16>, %arg7: tensor<3xi32>, %arg8: tensor<3xi64>, %arg9: tensor<3xf16>, %arg10: tensor<3xbf16>, %arg11: tensor<3xf32>, %arg12: tensor<3xf64>, %arg13: tensor<3xcomplex<f32>>, %arg14: tensor<3xcomplex<f64>>) -> (tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>) {
    %0 = stablehlo.convert %arg0 : (tensor<3xi1>) -> tensor<3xi64>
    %1 = stablehlo.convert %arg0 : (tensor<3xi1>) -> tensor<3xf32>
    %2 = stablehlo.convert %arg0 : (tensor<3xi1>) -> tensor<3xf32>
    %3 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %4 = "stablehlo.complex"(%2, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %5 = stablehlo.constant dense<0> : tensor<ui8>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<ui8>) -> tensor<3xui8>
    %7 = stablehlo.compare NE, %arg1, %6 : (tensor<3xui8>, tensor<3xui8>) -> tensor<3xi1>
    %8 = stablehlo.convert %arg1 : (tensor<3xui8>) -> tensor<3xi64>
    %9 = stablehlo.convert %arg1 : (tensor<3xui8>) -> tensor<3xf32>
    %10 = stablehlo.convert %arg1 : (tensor<3xui8>) -> tensor<3xf32>
    %11 = "stablehlo.complex"(%10, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %12 = stablehlo.constant dense<0> : tensor<ui16>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui16>) -> tensor<3xui16>
    %14 = stablehlo.compare NE, %arg2, %13 : (tensor<3xui16>, tensor<3xui16>) -> tensor<3xi1>
    %15 = stablehlo.convert %arg2 : (tensor<3xui16>) -> tensor<3xi64>
    %16 = stablehlo.convert %arg2 : (tensor<3xui16>) -> tensor<3xf32>
    %17 = stablehlo.convert %arg2 : (tensor<3xui16>) -> tensor<3xf32>
    %18 = "stablehlo.complex"(%17, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %19 = stablehlo.constant dense<0> : tensor<ui32>
    %20 = stablehlo.broadcast_in_dim %19, dims = [] : (tensor<ui32>) -> tensor<3xui32>
    %21 = stablehlo.compare NE, %arg3, %20 : (tensor<3xui32>, tensor<3xui32>) -> tensor<3xi1>
    %22 = stablehlo.convert %arg3 : (tensor<3xui32>) -> tensor<3xi64>
    %23 = stablehlo.convert %arg3 : (tensor<3xui32>) -> tensor<3xf32>
    %24 = stablehlo.convert %arg3 : (tensor<3xui32>) -> tensor<3xf32>
    %25 = "stablehlo.complex"(%24, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %26 = stablehlo.constant dense<0> : tensor<ui64>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui64>) -> tensor<3xui64>
    %28 = stablehlo.compare NE, %arg4, %27 : (tensor<3xui64>, tensor<3xui64>) -> tensor<3xi1>
    %29 = stablehlo.convert %arg4 : (tensor<3xui64>) -> tensor<3xi64>
    %30 = stablehlo.convert %arg4 : (tensor<3xui64>) -> tensor<3xf32>
    %31 = stablehlo.convert %arg4 : (tensor<3xui64>) -> tensor<3xf32>
    %32 = "stablehlo.complex"(%31, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %33 = stablehlo.constant dense<0> : tensor<i8>
    %34 = stablehlo.broadcast_in_dim %33, dims = [] : (tensor<i8>) -> tensor<3xi8>
    %35 = stablehlo.compare NE, %arg5, %34 : (tensor<3xi8>, tensor<3xi8>) -> tensor<3xi1>
    %36 = stablehlo.convert %arg5 : (tensor<3xi8>) -> tensor<3xi64>
    %37 = stablehlo.convert %arg5 : (tensor<3xi8>) -> tensor<3xf32>
    %38 = stablehlo.convert %arg5 : (tensor<3xi8>) -> tensor<3xf32>
    %39 = "stablehlo.complex"(%38, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %40 = stablehlo.constant dense<0> : tensor<i16>
    %41 = stablehlo.broadcast_in_dim %40, dims = [] : (tensor<i16>) -> tensor<3xi16>
    %42 = stablehlo.compare NE, %arg6, %41 : (tensor<3xi16>, tensor<3xi16>) -> tensor<3xi1>
    %43 = stablehlo.convert %arg6 : (tensor<3xi16>) -> tensor<3xi64>
    %44 = stablehlo.convert %arg6 : (tensor<3xi16>) -> tensor<3xf32>
    %45 = stablehlo.convert %arg6 : (tensor<3xi16>) -> tensor<3xf32>
    %46 = "stablehlo.complex"(%45, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %47 = stablehlo.constant dense<0> : tensor<i32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [] : (tensor<i32>) -> tensor<3xi32>
    %49 = stablehlo.compare NE, %arg7, %48 : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi1>
    %50 = stablehlo.convert %arg7 : (tensor<3xi32>) -> tensor<3xi64>
    %51 = stablehlo.convert %arg7 : (tensor<3xi32>) -> tensor<3xf32>
    %52 = stablehlo.convert %arg7 : (tensor<3xi32>) -> tensor<3xf32>
    %53 = "stablehlo.complex"(%52, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %54 = stablehlo.constant dense<0> : tensor<i64>
    %55 = stablehlo.broadcast_in_dim %54, dims = [] : (tensor<i64>) -> tensor<3xi64>
    %56 = stablehlo.compare NE, %arg8, %55 : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
    %57 = stablehlo.convert %arg8 : (tensor<3xi64>) -> tensor<3xf32>
    %58 = stablehlo.convert %arg8 : (tensor<3xi64>) -> tensor<3xf32>
    %59 = "stablehlo.complex"(%58, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %60 = stablehlo.constant dense<0.0> : tensor<f16>
    %61 = stablehlo.broadcast_in_dim %60, dims = [] : (tensor<f16>) -> tensor<3xf16>
    %62 = stablehlo.compare NE, %arg9, %61 : (tensor<3xf16>, tensor<3xf16>) -> tensor<3xi1>
    %63 = stablehlo.convert %arg9 : (tensor<3xf16>) -> tensor<3xi64>
    %64 = stablehlo.convert %arg9 : (tensor<3xf16>) -> tensor<3xf32>
    %65 = stablehlo.convert %arg9 : (tensor<3xf16>) -> tensor<3xf32>
    %66 = "stablehlo.complex"(%65, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %67 = stablehlo.constant dense<0.0> : tensor<bf16>
    %68 = stablehlo.broadcast_in_dim %67, dims = [] : (tensor<bf16>) -> tensor<3xbf16>
    %69 = stablehlo.compare NE, %arg10, %68 : (tensor<3xbf16>, tensor<3xbf16>) -> tensor<3xi1>
    %70 = stablehlo.convert %arg10 : (tensor<3xbf16>) -> tensor<3xi64>
    %71 = stablehlo.convert %arg10 : (tensor<3xbf16>) -> tensor<3xf32>
    %72 = stablehlo.convert %arg10 : (tensor<3xbf16>) -> tensor<3xf32>
    %73 = "stablehlo.complex"(%72, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %74 = stablehlo.constant dense<0.0> : tensor<f32>
    %75 = stablehlo.broadcast_in_dim %74, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %76 = stablehlo.compare NE, %arg11, %75 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
    %77 = stablehlo.convert %arg11 : (tensor<3xf32>) -> tensor<3xi64>
    %78 = "stablehlo.complex"(%arg11, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %79 = stablehlo.constant dense<0.0> : tensor<f64>
    %80 = stablehlo.broadcast_in_dim %79, dims = [] : (tensor<f64>) -> tensor<3xf64>
    %81 = stablehlo.compare NE, %arg12, %80 : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xi1>
    %82 = stablehlo.convert %arg12 : (tensor<3xf64>) -> tensor<3xi64>
    %83 = stablehlo.convert %arg12 : (tensor<3xf64>) -> tensor<3xf32>
    %84 = stablehlo.convert %arg12 : (tensor<3xf64>) -> tensor<3xf32>
    %85 = "stablehlo.complex"(%84, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %86 = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f32>>
    %87 = stablehlo.broadcast_in_dim %86, dims = [] : (tensor<complex<f32>>) -> tensor<3xcomplex<f32>>
    %88 = stablehlo.compare NE, %arg13, %87 : (tensor<3xcomplex<f32>>, tensor<3xcomplex<f32>>) -> tensor<3xi1>
    %89 = "stablehlo.real"(%arg13) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %90 = stablehlo.convert %89 : (tensor<3xf32>) -> tensor<3xi64>
    %91 = "stablehlo.real"(%arg13) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %92 = stablehlo.constant dense<(0.0, 0.0)> : tensor<complex<f64>>
    %93 = stablehlo.broadcast_in_dim %92, dims = [] : (tensor<complex<f64>>) -> tensor<3xcomplex<f64>>
    %94 = stablehlo.compare NE, %arg14, %93 : (tensor<3xcomplex<f64>>, tensor<3xcomplex<f64>>) -> tensor<3xi1>
    %95 = "stablehlo.real"(%arg14) : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
    %96 = stablehlo.convert %95 : (tensor<3xf64>) -> tensor<3xi64>
    %97 = "stablehlo.real"(%arg14) : (tensor<3xcomplex<f64>>) -> tensor<3xf64>
    %98 = stablehlo.convert %97 : (tensor<3xf64>) -> tensor<3xf32>
    %99 = stablehlo.convert %arg14 : (tensor<3xcomplex<f64>>) -> tensor<3xcomplex<f32>>
    return %arg0, %0, %1, %4, %7, %8, %9, %11, %14, %15, %16, %18, %21, %22, %23, %25, %28, %29, %30, %32, %35, %36, %37, %39, %42, %43, %44, %46, %49, %50, %51, %53, %56, %arg8, %57, %59, %62, %63, %64, %66, %69, %70, %71, %73, %76, %77, %arg11, %78, %81, %82, %83, %85, %88, %90, %91, %arg13, %94, %96, %98, %99 : tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>, tensor<3xi1>, tensor<3xi64>, tensor<3xf32>, tensor<3xcomplex<f32>>
  }
}
