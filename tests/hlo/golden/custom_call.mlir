module @tt {
  func.func public @main(%arg0: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>) {
    %0, %1 = "stablehlo.custom_call"(%arg0) {call_target_name = "Qr"} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3xf32>)
    return %0, %1 : tensor<4x3xf32>, tensor<3xf32>
  }
}
