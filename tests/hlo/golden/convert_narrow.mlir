module @tt {
  func.func public @main(%arg0: tensor<3xf8E4M3FN>, %arg1: tensor<3xf32>, %arg2: tensor<3xi32>, %arg3: tensor<3xf8E5M2>, %arg4: tensor<3xf32>, %arg5: tensor<3xi32>, %arg6: tensor<3xf8E4M3FNUZ>, %arg7: tensor<3xf32>, %arg8: tensor<3xi32>, %arg9: tensor<3xf8E5M2FNUZ>, %arg10: tensor<3xf32>, %arg11: tensor<3xi32>) -> (tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2>, tensor<3xf8E5M2>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FNUZ>, tensor<3xf8E4M3FNUZ>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2FNUZ>, tensor<3xf8E5M2FNUZ>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f8E4M3FN>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f8E4M3FN>) -> tensor<3xf8E4M3FN>
    %2 = stablehlo.compare NE, %arg0, %1 : (tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>) -> tensor<3xi1>
    %3 = stablehlo.convert %arg0 : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
    %4 = stablehlo.convert %3 : (tensor<3xf32>) -> tensor<3xi32>
    %5 = stablehlo.convert %arg0 : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
    %6 = stablehlo.convert %arg0 : (tensor<3xf8E4M3FN>) -> tensor<3xbf16>
    %7 = stablehlo.convert %arg0 : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
    %8 = stablehlo.convert %7 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %9 = stablehlo.convert %arg0 : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
    %10 = stablehlo.constant dense<0.0> : tensor<3xf32>
    %11 = "stablehlo.complex"(%9, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %12 = stablehlo.convert %arg1 : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
    %13 = stablehlo.convert %arg2 : (tensor<3xi32>) -> tensor<3xf32>
    %14 = stablehlo.convert %13 : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
    %15 = stablehlo.constant dense<0.0> : tensor<f8E5M2>
    %16 = stablehlo.broadcast_in_dim %15, dims = [] : (tensor<f8E5M2>) -> tensor<3xf8E5M2>
    %17 = stablehlo.compare NE, %arg3, %16 : (tensor<3xf8E5M2>, tensor<3xf8E5M2>) -> tensor<3xi1>
    %18 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %19 = stablehlo.convert %18 : (tensor<3xf32>) -> tensor<3xi32>
    %20 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %21 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xbf16>
    %22 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %23 = "stablehlo.complex"(%22, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %24 = stablehlo.convert %arg4 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %25 = stablehlo.convert %arg5 : (tensor<3xi32>) -> tensor<3xf32>
    %26 = stablehlo.convert %25 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %27 = stablehlo.constant dense<0.0> : tensor<f8E4M3FNUZ>
    %28 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<f8E4M3FNUZ>) -> tensor<3xf8E4M3FNUZ>
    %29 = stablehlo.compare NE, %arg6, %28 : (tensor<3xf8E4M3FNUZ>, tensor<3xf8E4M3FNUZ>) -> tensor<3xi1>
    %30 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %31 = stablehlo.convert %30 : (tensor<3xf32>) -> tensor<3xi32>
    %32 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %33 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xbf16>
    %34 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %35 = stablehlo.convert %34 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %36 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %37 = "stablehlo.complex"(%36, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %38 = stablehlo.convert %arg7 : (tensor<3xf32>) -> tensor<3xf8E4M3FNUZ>
    %39 = stablehlo.convert %arg8 : (tensor<3xi32>) -> tensor<3xf32>
    %40 = stablehlo.convert %39 : (tensor<3xf32>) -> tensor<3xf8E4M3FNUZ>
    %41 = stablehlo.constant dense<0.0> : tensor<f8E5M2FNUZ>
    %42 = stablehlo.broadcast_in_dim %41, dims = [] : (tensor<f8E5M2FNUZ>) -> tensor<3xf8E5M2FNUZ>
    %43 = stablehlo.compare NE, %arg9, %42 : (tensor<3xf8E5M2FNUZ>, tensor<3xf8E5M2FNUZ>) -> tensor<3xi1>
    %44 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %45 = stablehlo.convert %44 : (tensor<3xf32>) -> tensor<3xi32>
    %46 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %47 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xbf16>
    %48 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %49 = stablehlo.convert %48 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %50 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %51 = "stablehlo.complex"(%50, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %52 = stablehlo.convert %arg10 : (tensor<3xf32>) -> tensor<3xf8E5M2FNUZ>
    %53 = stablehlo.convert %arg11 : (tensor<3xi32>) -> tensor<3xf32>
    %54 = stablehlo.convert %53 : (tensor<3xf32>) -> tensor<3xf8E5M2FNUZ>
    return %2, %4, %5, %6, %8, %11, %12, %14, %17, %19, %20, %21, %arg3, %23, %24, %26, %29, %31, %32, %33, %35, %37, %38, %40, %43, %45, %46, %47, %49, %51, %52, %54 : tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2>, tensor<3xf8E5M2>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FNUZ>, tensor<3xf8E4M3FNUZ>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2FNUZ>, tensor<3xf8E5M2FNUZ>
  }
}
