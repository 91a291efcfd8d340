module @tt {
  func.func public @main(%arg0: tensor<3x5xf32>, %arg1: tensor<3x0xf32>) -> (tensor<3x5xf32>, tensor<3x5xi64>, tensor<3x0xf32>) {
    %0 = stablehlo.iota dim = 1 : tensor<3x5xi64>
    %1, %2 = "stablehlo.sort"(%arg0, %0) ({
    ^bb0(%3: tensor<f32>, %4: tensor<f32>, %5: tensor<i64>, %6: tensor<i64>):
      %7 = stablehlo.compare LT, %3, %4 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    }) {dimension = 1 : i64, is_stable = true} : (tensor<3x5xf32>, tensor<3x5xi64>) -> (tensor<3x5xf32>, tensor<3x5xi64>)
    %8 = "stablehlo.sort"(%arg1) ({
    ^bb0(%9: tensor<f32>, %10: tensor<f32>):
      %11 = stablehlo.compare LT, %9, %10 : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %11 : tensor<i1>
    }) {dimension = 1 : i64, is_stable = false} : (tensor<3x0xf32>) -> tensor<3x0xf32>
    return %1, %2, %8 : tensor<3x5xf32>, tensor<3x5xi64>, tensor<3x0xf32>
  }
}
