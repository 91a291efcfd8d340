module @tt {
  func.func public @main(%arg0: tensor<4xf8E8M0FNU>, %arg1: tensor<4xf4E2M1FN>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf8E8M0FNU>, tensor<4xf4E2M1FN>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>) {
    %0 = stablehlo.convert %arg0 : (tensor<4xf8E8M0FNU>) -> tensor<4xf32>
    %1 = stablehlo.convert %arg1 : (tensor<4xf4E2M1FN>) -> tensor<4xf32>
    %2 = stablehlo.abs %arg2 : tensor<4xf32>
    %3 = stablehlo.convert %2 : (tensor<4xf32>) -> tensor<4xf8E8M0FNU>
    %4 = "stablehlo.bitcast_convert"(%3) : (tensor<4xf8E8M0FNU>) -> tensor<4xui8>
    %5 = stablehlo.constant dense<0.0> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<4xf32>
    %7 = stablehlo.compare EQ, %arg2, %6 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %8 = stablehlo.constant dense<0> : tensor<ui8>
    %9 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<ui8>) -> tensor<4xui8>
    %10 = stablehlo.select %7, %9, %4 : tensor<4xi1>, tensor<4xui8>
    %11 = "stablehlo.bitcast_convert"(%10) : (tensor<4xui8>) -> tensor<4xf8E8M0FNU>
    %12 = stablehlo.convert %arg3 : (tensor<4xf32>) -> tensor<4xf4E2M1FN>
    %13 = stablehlo.constant dense<4.0> : tensor<f8E8M0FNU>
    %14 = stablehlo.constant dense<-1.5> : tensor<f4E2M1FN>
    return %0, %1, %11, %12, %13, %14 : tensor<4xf32>, tensor<4xf32>, tensor<4xf8E8M0FNU>, tensor<4xf4E2M1FN>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>
  }
}
