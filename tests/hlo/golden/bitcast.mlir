module @tt {
  func.func public @main(%arg0: tensor<2x4xf32>, %arg1: tensor<3xcomplex<f32>>, %arg2: tensor<4xi1>, %arg3: tensor<3xf64>, %arg4: tensor<3x2xf32>, %arg5: tensor<3x2xcomplex<f32>>, %arg6: tensor<3x8xui8>) -> (tensor<2x4xi32>, tensor<2x4x4xui8>, tensor<3xf64>, tensor<3xcomplex<f32>>, tensor<3x2xf32>, tensor<3x4xi16>, tensor<3xi64>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f64>>, tensor<3xcomplex<f32>>, tensor<4xui8>, tensor<4xi1>) {
    %0 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2x4xf32>) -> tensor<2x4xi32>
    %1 = "stablehlo.bitcast_convert"(%arg0) : (tensor<2x4xf32>) -> tensor<2x4x4xui8>
    %2 = "stablehlo.bitcast_convert"(%arg4) : (tensor<3x2xf32>) -> tensor<3xf64>
    %3 = stablehlo.slice %arg4 [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %4 = stablehlo.reshape %3 : (tensor<3x1xf32>) -> tensor<3xf32>
    %5 = stablehlo.slice %arg4 [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %6 = stablehlo.reshape %5 : (tensor<3x1xf32>) -> tensor<3xf32>
    %7 = "stablehlo.complex"(%4, %6) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %8 = "stablehlo.real"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %9 = stablehlo.reshape %8 : (tensor<3xf32>) -> tensor<3x1xf32>
    %10 = "stablehlo.imag"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %11 = stablehlo.reshape %10 : (tensor<3xf32>) -> tensor<3x1xf32>
    %12 = stablehlo.concatenate %9, %11, dim = 1 : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
    %13 = "stablehlo.real"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %14 = stablehlo.reshape %13 : (tensor<3xf32>) -> tensor<3x1xf32>
    %15 = "stablehlo.imag"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %16 = stablehlo.reshape %15 : (tensor<3xf32>) -> tensor<3x1xf32>
    %17 = stablehlo.concatenate %14, %16, dim = 1 : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
    %18 = "stablehlo.bitcast_convert"(%17) : (tensor<3x2xf32>) -> tensor<3x2x2xi16>
    %19 = stablehlo.reshape %18 : (tensor<3x2x2xi16>) -> tensor<3x4xi16>
    %20 = "stablehlo.real"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %21 = stablehlo.reshape %20 : (tensor<3xf32>) -> tensor<3x1xf32>
    %22 = "stablehlo.imag"(%arg1) : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %23 = stablehlo.reshape %22 : (tensor<3xf32>) -> tensor<3x1xf32>
    %24 = stablehlo.concatenate %21, %23, dim = 1 : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x2xf32>
    %25 = "stablehlo.bitcast_convert"(%24) : (tensor<3x2xf32>) -> tensor<3xi64>
    %26 = "stablehlo.bitcast_convert"(%arg3) : (tensor<3xf64>) -> tensor<3x2xf32>
    %27 = stablehlo.slice %26 [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %28 = stablehlo.reshape %27 : (tensor<3x1xf32>) -> tensor<3xf32>
    %29 = stablehlo.slice %26 [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %30 = stablehlo.reshape %29 : (tensor<3x1xf32>) -> tensor<3xf32>
    %31 = "stablehlo.complex"(%28, %30) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %32 = "stablehlo.real"(%arg5) : (tensor<3x2xcomplex<f32>>) -> tensor<3x2xf32>
    %33 = stablehlo.reshape %32 : (tensor<3x2xf32>) -> tensor<3x2x1xf32>
    %34 = "stablehlo.imag"(%arg5) : (tensor<3x2xcomplex<f32>>) -> tensor<3x2xf32>
    %35 = stablehlo.reshape %34 : (tensor<3x2xf32>) -> tensor<3x2x1xf32>
    %36 = stablehlo.concatenate %33, %35, dim = 2 : (tensor<3x2x1xf32>, tensor<3x2x1xf32>) -> tensor<3x2x2xf32>
    %37 = stablehlo.reshape %36 : (tensor<3x2x2xf32>) -> tensor<3x4xf32>
    %38 = stablehlo.reshape %37 : (tensor<3x4xf32>) -> tensor<3x2x2xf32>
    %39 = "stablehlo.bitcast_convert"(%38) : (tensor<3x2x2xf32>) -> tensor<3x2xf64>
    %40 = stablehlo.slice %39 [0:3, 0:1] : (tensor<3x2xf64>) -> tensor<3x1xf64>
    %41 = stablehlo.reshape %40 : (tensor<3x1xf64>) -> tensor<3xf64>
    %42 = stablehlo.slice %39 [0:3, 1:2] : (tensor<3x2xf64>) -> tensor<3x1xf64>
    %43 = stablehlo.reshape %42 : (tensor<3x1xf64>) -> tensor<3xf64>
    %44 = "stablehlo.complex"(%41, %43) : (tensor<3xf64>, tensor<3xf64>) -> tensor<3xcomplex<f64>>
    %45 = stablehlo.reshape %arg6 : (tensor<3x8xui8>) -> tensor<3x2x4xui8>
    %46 = "stablehlo.bitcast_convert"(%45) : (tensor<3x2x4xui8>) -> tensor<3x2xf32>
    %47 = stablehlo.slice %46 [0:3, 0:1] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %48 = stablehlo.reshape %47 : (tensor<3x1xf32>) -> tensor<3xf32>
    %49 = stablehlo.slice %46 [0:3, 1:2] : (tensor<3x2xf32>) -> tensor<3x1xf32>
    %50 = stablehlo.reshape %49 : (tensor<3x1xf32>) -> tensor<3xf32>
    %51 = "stablehlo.complex"(%48, %50) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xcomplex<f32>>
    %52 = stablehlo.convert %arg2 : (tensor<4xi1>) -> tensor<4xui8>
    %53 = stablehlo.convert %arg2 : (tensor<4xi1>) -> tensor<4xui8>
    %54 = "stablehlo.bitcast_convert"(%53) : (tensor<4xui8>) -> tensor<4xi8>
    %55 = "stablehlo.bitcast_convert"(%54) : (tensor<4xi8>) -> tensor<4xui8>
    %56 = stablehlo.constant dense<0> : tensor<ui8>
    %57 = stablehlo.broadcast_in_dim %56, dims = [] : (tensor<ui8>) -> tensor<4xui8>
    %58 = stablehlo.compare NE, %55, %57 : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
    return %0, %1, %2, %7, %12, %19, %25, %31, %44, %51, %52, %58 : tensor<2x4xi32>, tensor<2x4x4xui8>, tensor<3xf64>, tensor<3xcomplex<f32>>, tensor<3x2xf32>, tensor<3x4xi16>, tensor<3xi64>, tensor<3xcomplex<f32>>, tensor<3xcomplex<f64>>, tensor<3xcomplex<f32>>, tensor<4xui8>, tensor<4xi1>
  }
}
