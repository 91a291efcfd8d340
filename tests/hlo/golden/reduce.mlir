module @tt {
  func.func public @main(%arg0: tensor<2x3x4xf32>, %arg1: tensor<2x3xi1>, %arg2: tensor<3x0xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2xi1>, tensor<i1>, tensor<3xi1>, tensor<3xf32>, tensor<2x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>) {
    %0 = stablehlo.constant dense<0.0> : tensor<f32>
    %1 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.add across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %2 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.multiply across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %3 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.maximum across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %4 = stablehlo.reduce(%arg0 init: %0) applies stablehlo.minimum across dimensions = [0, 2] : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3xf32>
    %5 = stablehlo.constant dense<false> : tensor<i1>
    %6 = stablehlo.reduce(%arg1 init: %5) applies stablehlo.or across dimensions = [1] : (tensor<2x3xi1>, tensor<i1>) -> tensor<2xi1>
    %7 = stablehlo.constant dense<true> : tensor<i1>
    %8 = stablehlo.reduce(%arg1 init: %7) applies stablehlo.and across dimensions = [0, 1] : (tensor<2x3xi1>, tensor<i1>) -> tensor<i1>
    %9 = stablehlo.reduce(%arg1 init: %5) applies stablehlo.xor across dimensions = [0] : (tensor<2x3xi1>, tensor<i1>) -> tensor<3xi1>
    %10 = stablehlo.reduce(%arg2 init: %0) applies stablehlo.add across dimensions = [1] : (tensor<3x0xf32>, tensor<f32>) -> tensor<3xf32>
    %11 = stablehlo.iota dim = 1 : tensor<2x3x4xi64>
    %12 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %13 = stablehlo.constant dense<0> : tensor<i64>
    %14, %15 = "stablehlo.reduce"(%arg0, %11, %12, %13) ({
    ^bb0(%16: tensor<f32>, %17: tensor<i64>, %18: tensor<f32>, %19: tensor<i64>):
      %20 = stablehlo.compare GT, %18, %16 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %21 = stablehlo.select %20, %18, %16 : tensor<i1>, tensor<f32>
      %22 = stablehlo.select %20, %19, %17 : tensor<i1>, tensor<i64>
      stablehlo.return %21, %22 : tensor<f32>, tensor<i64>
    }) {dimensions = array<i64: 1>} : (tensor<2x3x4xf32>, tensor<2x3x4xi64>, tensor<f32>, tensor<i64>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
    %23 = stablehlo.constant dense<2.0> : tensor<f32>
    %24 = "stablehlo.reduce"(%arg0, %23) ({
    ^bb0(%25: tensor<f32>, %26: tensor<f32>):
      %27 = stablehlo.constant dense<2.0> : tensor<f32>
      %28 = stablehlo.multiply %26, %27 : tensor<f32>
      %29 = stablehlo.add %25, %28 : tensor<f32>
      stablehlo.return %29 : tensor<f32>
    }) {dimensions = array<i64: 0>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
    return %1, %2, %3, %4, %6, %8, %9, %10, %14, %15, %24 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2xi1>, tensor<i1>, tensor<3xi1>, tensor<3xf32>, tensor<2x4xf32>, tensor<2x4xi64>, tensor<3x4xf32>
  }
}
