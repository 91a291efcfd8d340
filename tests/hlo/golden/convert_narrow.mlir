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
    %12 = stablehlo.constant dense<448.0> : tensor<f32>
    %13 = stablehlo.constant dense<-448.0> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %15 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<3xf32>
    %16 = stablehlo.clamp %14, %arg1, %15 : tensor<3xf32>
    %17 = stablehlo.convert %16 : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
    %18 = stablehlo.convert %arg2 : (tensor<3xi32>) -> tensor<3xf32>
    %19 = stablehlo.convert %18 : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
    %20 = stablehlo.constant dense<0.0> : tensor<f8E5M2>
    %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<f8E5M2>) -> tensor<3xf8E5M2>
    %22 = stablehlo.compare NE, %arg3, %21 : (tensor<3xf8E5M2>, tensor<3xf8E5M2>) -> tensor<3xi1>
    %23 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %24 = stablehlo.convert %23 : (tensor<3xf32>) -> tensor<3xi32>
    %25 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %26 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xbf16>
    %27 = stablehlo.convert %arg3 : (tensor<3xf8E5M2>) -> tensor<3xf32>
    %28 = "stablehlo.complex"(%27, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %29 = stablehlo.convert %arg4 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %30 = stablehlo.convert %arg5 : (tensor<3xi32>) -> tensor<3xf32>
    %31 = stablehlo.convert %30 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %32 = stablehlo.constant dense<0.0> : tensor<f8E4M3FNUZ>
    %33 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<f8E4M3FNUZ>) -> tensor<3xf8E4M3FNUZ>
    %34 = stablehlo.compare NE, %arg6, %33 : (tensor<3xf8E4M3FNUZ>, tensor<3xf8E4M3FNUZ>) -> tensor<3xi1>
    %35 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %36 = stablehlo.convert %35 : (tensor<3xf32>) -> tensor<3xi32>
    %37 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %38 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xbf16>
    %39 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %40 = stablehlo.convert %39 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %41 = stablehlo.convert %arg6 : (tensor<3xf8E4M3FNUZ>) -> tensor<3xf32>
    %42 = "stablehlo.complex"(%41, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %43 = stablehlo.convert %arg7 : (tensor<3xf32>) -> tensor<3xf8E4M3FNUZ>
    %44 = stablehlo.convert %arg8 : (tensor<3xi32>) -> tensor<3xf32>
    %45 = stablehlo.convert %44 : (tensor<3xf32>) -> tensor<3xf8E4M3FNUZ>
    %46 = stablehlo.constant dense<0.0> : tensor<f8E5M2FNUZ>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<f8E5M2FNUZ>) -> tensor<3xf8E5M2FNUZ>
    %48 = stablehlo.compare NE, %arg9, %47 : (tensor<3xf8E5M2FNUZ>, tensor<3xf8E5M2FNUZ>) -> tensor<3xi1>
    %49 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %50 = stablehlo.convert %49 : (tensor<3xf32>) -> tensor<3xi32>
    %51 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %52 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xbf16>
    %53 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %54 = stablehlo.convert %53 : (tensor<3xf32>) -> tensor<3xf8E5M2>
    %55 = stablehlo.convert %arg9 : (tensor<3xf8E5M2FNUZ>) -> tensor<3xf32>
    %56 = "stablehlo.complex"(%55, %10) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %57 = stablehlo.convert %arg10 : (tensor<3xf32>) -> tensor<3xf8E5M2FNUZ>
    %58 = stablehlo.convert %arg11 : (tensor<3xi32>) -> tensor<3xf32>
    %59 = stablehlo.convert %58 : (tensor<3xf32>) -> tensor<3xf8E5M2FNUZ>
    return %2, %4, %5, %6, %8, %11, %17, %19, %22, %24, %25, %26, %arg3, %28, %29, %31, %34, %36, %37, %38, %40, %42, %43, %45, %48, %50, %51, %52, %54, %56, %57, %59 : tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FN>, tensor<3xf8E4M3FN>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2>, tensor<3xf8E5M2>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E4M3FNUZ>, tensor<3xf8E4M3FNUZ>, tensor<3xi1>, tensor<3xi32>, tensor<3xf32>, tensor<3xbf16>, tensor<3xf8E5M2>, tensor<3xcomplex<f32>>, tensor<3xf8E5M2FNUZ>, tensor<3xf8E5M2FNUZ>
  }
}
