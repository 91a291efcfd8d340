module @tt {
  func.func public @main(%arg0: tensor<5x2x3xf32>, %arg1: tensor<5x3x4xf32>, %arg2: tensor<2x3xbf16>, %arg3: tensor<3xi32>, %arg4: tensor<2x0xf32>) -> (tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<2x2xf32>, tensor<i32>, tensor<3x3xi32>, tensor<2x2xf32>) {
    %0 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGHEST, HIGHEST] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    %1 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [HIGH, HIGH] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    %2 = stablehlo.dot_general %arg0, %arg1, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) -> tensor<5x2x4xf32>
    %3 = stablehlo.dot_general %arg2, %arg2, contracting_dims = [1] x [1] : (tensor<2x3xbf16>, tensor<2x3xbf16>) -> tensor<2x2xf32>
    %4 = stablehlo.dot_general %arg3, %arg3, contracting_dims = [0] x [0] : (tensor<3xi32>, tensor<3xi32>) -> tensor<i32>
    %5 = stablehlo.dot_general %arg3, %arg3, contracting_dims = [] x [] : (tensor<3xi32>, tensor<3xi32>) -> tensor<3x3xi32>
    %6 = stablehlo.dot_general %arg4, %arg4, contracting_dims = [1] x [1], precision = [HIGHEST, HIGHEST] : (tensor<2x0xf32>, tensor<2x0xf32>) -> tensor<2x2xf32>
    return %0, %1, %2, %3, %4, %5, %6 : tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<5x2x4xf32>, tensor<2x2xf32>, tensor<i32>, tensor<3x3xi32>, tensor<2x2xf32>
  }
}
