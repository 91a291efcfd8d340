module @tt {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32>, %arg2: tensor<f32>, %arg3: tensor<5xi64>, %arg4: tensor<5xi64>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<5xi64>) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>
    %1 = stablehlo.atan2 %arg0, %arg1 : tensor<2x3xf32>
    %2 = stablehlo.divide %arg0, %arg1 : tensor<2x3xf32>
    %3 = stablehlo.maximum %arg0, %arg1 : tensor<2x3xf32>
    %4 = stablehlo.minimum %arg0, %arg1 : tensor<2x3xf32>
    %5 = stablehlo.multiply %arg0, %arg1 : tensor<2x3xf32>
    %6 = stablehlo.power %arg0, %arg1 : tensor<2x3xf32>
    %7 = stablehlo.remainder %arg0, %arg1 : tensor<2x3xf32>
    %8 = stablehlo.subtract %arg0, %arg1 : tensor<2x3xf32>
    %9 = stablehlo.add %arg3, %arg4 : tensor<5xi64>
    %10 = stablehlo.and %arg3, %arg4 : tensor<5xi64>
    %11 = stablehlo.divide %arg3, %arg4 : tensor<5xi64>
    %12 = stablehlo.maximum %arg3, %arg4 : tensor<5xi64>
    %13 = stablehlo.multiply %arg3, %arg4 : tensor<5xi64>
    %14 = stablehlo.or %arg3, %arg4 : tensor<5xi64>
    %15 = stablehlo.power %arg3, %arg4 : tensor<5xi64>
    %16 = stablehlo.remainder %arg3, %arg4 : tensor<5xi64>
    %17 = stablehlo.shift_left %arg3, %arg4 : tensor<5xi64>
    %18 = stablehlo.shift_right_arithmetic %arg3, %arg4 : tensor<5xi64>
    %19 = stablehlo.shift_right_logical %arg3, %arg4 : tensor<5xi64>
    %20 = stablehlo.subtract %arg3, %arg4 : tensor<5xi64>
    %21 = stablehlo.xor %arg3, %arg4 : tensor<5xi64>
    %22 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %23 = stablehlo.add %arg0, %22 : tensor<2x3xf32>
    %24 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %25 = stablehlo.subtract %24, %arg0 : tensor<2x3xf32>
    %26 = stablehlo.constant dense<0.5> : tensor<f32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %28 = stablehlo.multiply %arg0, %27 : tensor<2x3xf32>
    %29 = stablehlo.constant dense<3> : tensor<i64>
    %30 = stablehlo.broadcast_in_dim %29, dims = [] : (tensor<i64>) -> tensor<5xi64>
    %31 = stablehlo.add %arg3, %30 : tensor<5xi64>
    return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %23, %25, %28, %31 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<5xi64>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<5xi64>
  }
}
