module @tt {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<i1>) -> (tensor<i1>, tensor<3xf32>, tensor<3xf32>) {
    return %arg1, %arg0, %arg0 : tensor<i1>, tensor<3xf32>, tensor<3xf32>
  }
}
