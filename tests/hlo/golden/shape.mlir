module @tt {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<f32>, %arg2: tensor<0x3xf32>, %arg3: tensor<i32>) -> (tensor<4x6xf32>, tensor<1x1xf32>, tensor<5x0xf32>, tensor<24xf32>, tensor<4x2x3xf32>, tensor<2x5x3x4xf32>, tensor<2x3xf32>, tensor<7x2x3x4xf32>, tensor<2x2x2xf32>, tensor<2x1x4xf32>, tensor<2x3x4xf32>, tensor<3x7x3xf32>, tensor<2x3xf32>, tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<f32>, tensor<2x3x4x1xf32>, tensor<2x3x4xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<4x6xf32>
    %2 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1x1xf32>
    %3 = stablehlo.reshape %arg2 : (tensor<0x3xf32>) -> tensor<5x0xf32>
    %4 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<24xf32>
    %5 = stablehlo.transpose %arg0, dims = [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
    %6 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2, 3] : (tensor<2x3x4xf32>) -> tensor<2x5x3x4xf32>
    %7 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
    %8 = stablehlo.slice %arg0 [0:2, 1:2, 0:4] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [1, 2, 3] : (tensor<2x1x4xf32>) -> tensor<7x2x3x4xf32>
    %10 = stablehlo.slice %arg0 [0:2, 1:3, 0:4:2] : (tensor<2x3x4xf32>) -> tensor<2x2x2xf32>
    %11 = stablehlo.dynamic_slice %arg0, %0, %arg3, %0, sizes = [2, 1, 4] : (tensor<2x3x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x1x4xf32>
    %12 = stablehlo.constant dense<9.0> : tensor<1x1x4xf32>
    %13 = stablehlo.dynamic_update_slice %arg0, %12, %arg3, %arg3, %0 : (tensor<2x3x4xf32>, tensor<1x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x3x4xf32>
    %14 = stablehlo.pad %arg0, %arg1, low = [1, 0, -1], high = [0, 2, 0], interior = [0, 1, 0] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3x7x3xf32>
    %15 = stablehlo.pad %arg2, %arg1, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<2x3xf32>
    %16 = stablehlo.slice %arg0 [0:2, 0:1, 0:4] : (tensor<2x3x4xf32>) -> tensor<2x1x4xf32>
    %17 = stablehlo.concatenate %arg0, %arg0, %16, dim = 1 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x1x4xf32>) -> tensor<2x7x4xf32>
    %18 = stablehlo.reverse %arg0, dims = [0, 2] : tensor<2x3x4xf32>
    %19 = stablehlo.reshape %arg1 : (tensor<f32>) -> tensor<1xf32>
    %20 = stablehlo.reshape %19 : (tensor<1xf32>) -> tensor<f32>
    %21 = stablehlo.reshape %arg0 : (tensor<2x3x4xf32>) -> tensor<2x3x4x1xf32>
    return %1, %2, %3, %4, %5, %6, %7, %9, %10, %11, %13, %14, %15, %17, %18, %20, %21, %arg0 : tensor<4x6xf32>, tensor<1x1xf32>, tensor<5x0xf32>, tensor<24xf32>, tensor<4x2x3xf32>, tensor<2x5x3x4xf32>, tensor<2x3xf32>, tensor<7x2x3x4xf32>, tensor<2x2x2xf32>, tensor<2x1x4xf32>, tensor<2x3x4xf32>, tensor<3x7x3xf32>, tensor<2x3xf32>, tensor<2x7x4xf32>, tensor<2x3x4xf32>, tensor<f32>, tensor<2x3x4x1xf32>, tensor<2x3x4xf32>
  }
}
