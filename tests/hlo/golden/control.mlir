module @tt {
  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<i1>) -> (tensor<i32>, tensor<3xf32>, tensor<3xf32>) {
    %0 = stablehlo.constant dense<0> : tensor<i32>
    %1, %2 = "stablehlo.while"(%0, %arg0) ({
    ^bb0(%3: tensor<i32>, %4: tensor<3xf32>):
      %5 = stablehlo.constant dense<10> : tensor<i32>
      %6 = stablehlo.compare LT, %3, %5 : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %6 : tensor<i1>
    }, {
    ^bb0(%7: tensor<i32>, %8: tensor<3xf32>):
      %9 = stablehlo.constant dense<1> : tensor<i32>
      %10 = stablehlo.add %7, %9 : tensor<i32>
      %11 = stablehlo.add %8, %arg0 : tensor<3xf32>
      stablehlo.return %10, %11 : tensor<i32>, tensor<3xf32>
    }) : (tensor<i32>, tensor<3xf32>) -> (tensor<i32>, tensor<3xf32>)
    %12 = "stablehlo.if"(%arg1) ({
      %13 = stablehlo.constant dense<2.0> : tensor<f32>
      %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<f32>) -> tensor<3xf32>
      %15 = stablehlo.multiply %arg0, %14 : tensor<3xf32>
      stablehlo.return %15 : tensor<3xf32>
    }, {
      stablehlo.return %arg0 : tensor<3xf32>
    }) : (tensor<i1>) -> tensor<3xf32>
    return %1, %2, %12 : tensor<i32>, tensor<3xf32>, tensor<3xf32>
  }
}
