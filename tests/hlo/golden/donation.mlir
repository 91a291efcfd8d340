module @tt {
  func.func public @main(%arg0: tensor<8x8xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<8x8xf32> {tf.aliasing_output = 0 : i32}, %arg2: tensor<i32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) {
    %0 = stablehlo.convert %arg2 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %2 = stablehlo.add %arg1, %1 : tensor<8x8xf32>
    %3 = stablehlo.multiply %arg0, %arg1 : tensor<8x8xf32>
    return %2, %3 : tensor<8x8xf32>, tensor<8x8xf32>
  }
}
