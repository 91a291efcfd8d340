module @tt {
  func.func public @main(%arg0: tensor<4xf8E8M0FNU>, %arg1: tensor<4xf4E2M1FN>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf8E8M0FNU>, tensor<4xf4E2M1FN>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>) {
    %0 = stablehlo.convert %arg0 : (tensor<4xf8E8M0FNU>) -> tensor<4xf32>
    %1 = stablehlo.convert %arg1 : (tensor<4xf4E2M1FN>) -> tensor<4xf32>
    %2 = stablehlo.convert %arg2 : (tensor<4xf32>) -> tensor<4xf8E8M0FNU>
    %3 = stablehlo.convert %arg3 : (tensor<4xf32>) -> tensor<4xf4E2M1FN>
    %4 = stablehlo.constant dense<4.0> : tensor<f8E8M0FNU>
    %5 = stablehlo.constant dense<-1.5> : tensor<f4E2M1FN>
    return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf8E8M0FNU>, tensor<4xf4E2M1FN>, tensor<f8E8M0FNU>, tensor<f4E2M1FN>
  }
}
